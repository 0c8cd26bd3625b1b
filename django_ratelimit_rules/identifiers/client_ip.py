"""The client's address behind trusted proxies.

A request's ``META`` and three settings go in (``TRUSTED_PROXIES``, ``PROXY_HOPS``, ``CLIENT_IP_HEADER``); one canonical
address comes out, or None. Knows nothing of limits; how an IPv6 address is counted is the engine's business.

Each proxy appends to the header the address that spoke to it, so only the right end was written by machines of ours:
the chain is read from the right, and nothing to the left of the first address we do not trust is ever looked at.
Whatever is wrong with a chain, the peer itself is the client.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from django.http import HttpRequest

from ..conf import settings
from ..engine.matching import parse_address, parse_network
from ..runtime import log_sampling

logger = logging.getLogger(__name__)

UNIX = "unix"
# A port is taken off only where it cannot be part of the address: 192.0.2.7:80 and [2001:db8::7]:80.
_WITH_PORT = re.compile(r"(?:\[([0-9a-f:.]+(?:%[^\]]*)?)\]|([0-9.]+))(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_MAX_ENTRY = 100


def client_ip(request: HttpRequest) -> str | None:
    """Return the client's address in its shortest spelling, or None when neither header nor peer tells one."""
    peer = _text(request.META.get("REMOTE_ADDR"))
    hops, entries = settings.number_of_proxies, settings.TRUSTED_PROXIES
    proxies = (trusted_proxies(_entries(entries)) or None) if entries else None
    if hops is None and proxies is None:
        _warn_of_header(request)
        return _address(peer)
    chain = _chain(request)
    if hops is not None and not 0 < hops <= len(chain):
        return _address(peer)
    client = chain[hops - 1] if hops is not None and proxies is None else _past(proxies, peer, chain[:hops])
    return _address(client) or _address(peer)


def _warn_of_header(request: HttpRequest) -> None:
    """Say, once a minute, that a proxy writes a header which nobody is to believe: then all clients are one address."""
    if _meta_key(settings.CLIENT_IP_HEADER) in request.META and log_sampling.due("clientip.header"):
        logger.warning(
            "Requests carry %s, which is not believed: behind a proxy all clients count as one address. Set"
            " RATELIMIT_RULES_TRUSTED_PROXIES or RATELIMIT_RULES_PROXY_HOPS, or have the header removed",
            settings.CLIENT_IP_HEADER,
        )


@lru_cache(maxsize=4)
def _meta_key(header: str) -> str:
    return "HTTP_" + header.upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class Proxies:
    """The peers that are believed about who spoke to them; ``unix`` stands for those on a unix socket."""

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    unix: bool = False

    def __bool__(self) -> bool:
        return bool(self.networks) or self.unix

    def __contains__(self, peer: str) -> bool:
        address = parse_address(_address(peer))
        if address is None:
            return self.unix and (not peer or peer.startswith(("unix:", "/")))
        return any(address in network for network in self.networks)


@lru_cache(maxsize=16)
def trusted_proxies(entries: tuple[str, ...]) -> Proxies:
    """Return the proxies that ``TRUSTED_PROXIES`` names. An entry that is not a network is logged and trusts nobody."""
    networks = []
    for entry in entries:
        if entry == UNIX:
            continue
        try:
            networks.append(parse_network(entry))
        except ValueError:
            logger.error("RATELIMIT_RULES_TRUSTED_PROXIES: %r is neither a network nor 'unix'; it is ignored", entry)
    return Proxies(tuple(networks), UNIX in entries)


def _entries(setting: Iterable[object]) -> tuple[str, ...]:
    # Blanks come from a list in the environment that was split at its commas.
    return tuple(str(entry).strip() for entry in ([setting] if isinstance(setting, str) else setting))


def _chain(request: HttpRequest) -> list[str]:
    """Return the header's entries, the one that our own proxy wrote first. A blank entry keeps its place: were it
    left out, the next one, which a client may have written, would move up."""
    header = _text(request.META.get(_meta_key(settings.CLIENT_IP_HEADER)))
    if "," not in header:
        return [header] if header else []
    return [entry.strip() for entry in reversed(header.split(","))]


def _past(proxies: Proxies | None, peer: str, chain: list[str]) -> str:
    """Return the first of ``peer`` and ``chain`` that is no proxy of ours, or the last one when all of them are."""
    client = peer
    for entry in chain:
        if proxies is None or client not in proxies:
            break
        if _address(entry) is None and (not entry or entry not in proxies):
            return peer
        client = entry
    return client


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _address(entry: str) -> str | None:
    """Return the address in an entry, without port, brackets and zone; None when it holds none."""
    return _parsed(entry) if 0 < len(entry) <= _MAX_ENTRY else None


@lru_cache(maxsize=1024)
def _parsed(entry: str) -> str | None:
    found = _WITH_PORT.fullmatch(entry)
    address = parse_address(found[1] or found[2] if found else entry)
    return None if address is None else str(address)
