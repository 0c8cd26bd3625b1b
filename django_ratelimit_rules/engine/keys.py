"""Counter keys: the limiter, a code for what the rule counts, and the values it counts by.

``{limiter}code:value,value``. The braces are a Redis Cluster hash tag: all counters of one check are in one slot. In a
partitioned ruleset, each value of a property has a slot. Its value is in the tag: ``{limiter|value}code:value``. A
rule's name, algorithm and characteristics are a code of five characters, because a counter's key takes most of its
memory. Knows nothing of requests or Redis.
"""

from __future__ import annotations

import ipaddress
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import quote_from_bytes

from .matching import ValueOf, parse_address
from .properties import base_of, is_client_written
from .rules import Rule
from .values import ANONYMOUS

UNKNOWN = "_unknown_"
MAX_PART = 100
MAX_PARTS = 150
CODE = 5
_PLAIN = re.compile(r"[A-Za-z0-9.:@/+=-][A-Za-z0-9._:@/+=-]*", re.ASCII)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)
_ADDRESS, _USER, _CLIENT_WRITTEN, _OTHER = "address", "user", "client-written", "other"


@dataclass(frozen=True, slots=True)
class KeyWriter:
    """Write the values in counter keys. The result is injective, bounded and safe to show.

    ``secret`` is the key of the digests, which replace client-written and long values. ``ipv6_prefix`` is the number of
    bits that an IPv6 address is counted by.
    """

    secret: bytes = b""
    ipv6_prefix: int = 64

    def part(self, name: str, text: str | None, value_of: ValueOf) -> str:
        """Return one characteristic's part of a key. Different values of a property have different parts."""
        if not text:
            return UNKNOWN
        nature = _nature(name)
        if nature is _CLIENT_WRITTEN:
            return "#" + self.digest(text.encode("utf-8", "surrogatepass"))
        if nature is _ADDRESS:
            if _IPV4.fullmatch(text):
                return text
            text = self._network(text)
        elif nature is _USER and text == ANONYMOUS:
            address = value_of("ip")
            # "<" is never plain, so this equals neither a user's key nor the key of a rule that counts by address.
            return ANONYMOUS + (self.part("ip", address, value_of) if address else "")
        if len(text) <= MAX_PART and ((text.isascii() and text.isalnum()) or _PLAIN.fullmatch(text)):
            return text
        raw = text.encode("utf-8", "surrogatepass")
        quoted = quote_from_bytes(raw, safe=".:@/+=-~").replace("_", "%5F") if len(raw) <= MAX_PART else ""
        return quoted if 0 < len(quoted) <= MAX_PART else "#" + self.digest(raw)

    def parts(self, names: Sequence[str], value_of: ValueOf) -> str:
        """Return the parts of several characteristics as one string of at most 150 characters."""
        if len(names) == 1:
            # A part is never longer than MAX_PARTS.
            return self.part(names[0], value_of(names[0]), value_of)
        joined = ",".join([self.part(name, value_of(name), value_of) for name in names])
        return joined if len(joined) <= MAX_PARTS else "##" + self.digest(joined.encode())

    def digest(self, raw: bytes) -> str:
        """Return a digest of 20 characters. Without the secret it cannot be compared with the digest of a guess."""
        return urlsafe_b64encode(blake2b(raw, digest_size=15, key=self.secret).digest()).decode()

    def _network(self, text: str) -> str:
        address = parse_address(text)
        if address is None or address.version == 4:
            return text if address is None else str(address)
        return str(ipaddress.ip_network((address, self.ipv6_prefix), strict=False).network_address)


@dataclass(frozen=True, slots=True)
class Partition:
    """How the counters of one limiter are spread over the servers of a cluster: by the value of a property."""

    limiter: str
    property: str

    def tag(self, keys: KeyWriter, value_of: ValueOf) -> str:
        """Return the hash tag at the start of all keys of one call. No part of a key contains a brace."""
        return f"{{{self.limiter}|{keys.part(self.property, value_of(self.property), value_of)}}}"

    def others(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the characteristics with values outside of the tag."""
        return tuple(name for name in names if name != self.property)


def prefixes(limiter: str, rules: Iterable[Rule], partition_by: str | None = None) -> list[str]:
    """Return a unique prefix for the keys of each rule. In a partitioned ruleset it follows the tag."""
    taken: dict[str, str] = {}
    results = []
    for rule in rules:
        counting = rule.counting.code + (f".{_quote(rule.count_distinct)}" if rule.count_distinct else "")
        meaning = f"{rule.name}:{counting}:{','.join(map(_quote, rule.characteristics))}"
        if partition_by is not None:
            meaning += f":{_quote(partition_by)}"
        code = _code(meaning, CODE)
        # There are a thousand million codes, so two rules of a limiter hardly ever have the same code.
        if taken.setdefault(code, meaning) != meaning:
            code = _code(meaning, 3 * CODE)
        results.append(f"{{{limiter}}}{code}:" if partition_by is None else f"{code}:")
    return results


def code_in(key: str) -> str:
    """Return the code in a counter's key, or in its prefix."""
    return key.rpartition("}")[2].partition(":")[0]


def values_in(key: str, names: Sequence[str], partition_by: str | None = None) -> str:
    """Return the values in a counter's key, in the order of the characteristics."""
    tag, _, rest = key.partition("}")
    values = rest.partition(":")[2]
    if partition_by is None:
        return values
    part = tag.partition("|")[2]
    if len(names) == 1 or values.startswith("##"):
        return f"{part},{values}" if values else part
    written = values.split(",")
    written.insert(names.index(partition_by), part)
    return ",".join(written)


@lru_cache(maxsize=4096)
def _nature(name: str) -> str:
    if is_client_written(name):
        return _CLIENT_WRITTEN
    return {"ip": _ADDRESS, "user": _USER}.get(base_of(name), _OTHER)


def _code(text: str, length: int) -> str:
    return urlsafe_b64encode(blake2b(text.encode(), digest_size=15).digest()).decode()[:length]


def _quote(name: str) -> str:
    return quote_from_bytes(name.encode("utf-8", "surrogatepass"), safe=".|_-")
