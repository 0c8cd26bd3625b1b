"""Conditions on properties: a rule's ``match`` and ``response`` objects, checked and compiled once.

A JSON-like object goes in, a :class:`Matcher` comes out. It asks a function for the canonical text of a property
(None when missing) and knows nothing of requests. Patterns run in RE2, whose time is linear in the text, because
patterns an operator wrote meet texts an attacker wrote.
"""

from __future__ import annotations

import ipaddress
import math
import operator
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any

import re2

from ..exceptions import InvalidRule
from .properties import facts_of, normalise
from .values import bounded, canonical

ValueOf = Callable[[str], str | None]
Condition = Callable[[str | None], bool]
Match = Mapping[str, object] | list[Mapping[str, object]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_PATTERN = 500
MAX_DEPTH = 16
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?0*[0-9]{1,5})?", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Members(frozenset[str | None]):
    """The condition that a text is one of these; a ruleset finds such rules by a look-up."""

    __slots__ = ()
    __call__ = frozenset.__contains__


class Search:
    """The condition that an RE2 search finds ``pattern``; a ruleset searches for many such at once."""

    __slots__ = ("_search", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._search = compile_pattern(pattern)

    def __call__(self, text: str | None) -> bool:
        return text is not None and self._search(encoded(text)) is not None


class Ends:
    """The condition that a text starts or ends with one of some texts; ``pattern`` says the same to RE2."""

    __slots__ = ("_fits", "_texts", "pattern")

    def __init__(self, texts: tuple[str, ...], at_start: bool) -> None:
        self._texts = texts
        self._fits = str.startswith if at_start else str.endswith
        choice = "(?:" + "|".join(re2.escape(text.encode("utf-8", "replace").decode()) for text in texts) + ")"
        surrogates = any(not text.isascii() and _SURROGATE.search(text) for text in texts)
        # RE2 reads UTF-8, in which a lone surrogate cannot be written.
        self.pattern = None if surrogates or not texts else r"\A" + choice if at_start else choice + r"\z"

    def __call__(self, text: str | None) -> bool:
        return text is not None and self._fits(text, self._texts)


class Networks:
    """The condition that an address lies in one of some networks, which do not overlap; a ruleset looks them up."""

    __slots__ = ("_by_version", "networks")

    def __init__(self, networks: Iterable[Network]) -> None:
        collapse: Any = ipaddress.collapse_addresses  # of one version, which its type cannot say
        by_version = {version: [n for n in networks if n.version == version] for version in (4, 6)}
        self._by_version = {version: list(collapse(found)) for version, found in by_version.items()}
        self.networks: list[Network] = [*self._by_version[4], *self._by_version[6]]

    def __call__(self, text: str | None) -> bool:
        address = parse_address(text)
        return address is not None and any(address in network for network in self._by_version[address.version])


def encoded(text: str) -> bytes:
    """Return a text as the bytes RE2 reads; a lone surrogate (a header that was no UTF-8) fits no character there."""
    return text.encode("utf-8", "surrogatepass")


def compile_pattern(pattern: str) -> Callable[[bytes], object]:
    """Return RE2's search for a pattern. Raises ValueError when it does not compile."""
    options = re2.Options()
    options.log_errors = False
    # Nobody asks what a group held, and to find out takes up to forty times as long.
    options.never_capture = True
    try:
        search: Callable[[bytes], object] = re2.compile(pattern, options).search
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise ValueError(f"the pattern {pattern!r} does not compile as RE2: {reason}") from error
    return search


class Matcher:
    """A compiled match: alternatives, of which one must hold, each a list of conditions that must all hold.

    ``alternatives`` are as written; ``in_order`` are the same as they are tried, first what a request has at hand: a
    database that keeps the match may order it as it likes, and nobody's session shall be read for another path's rule.
    """

    __slots__ = ("alternatives", "in_order", "properties")

    def __init__(self, alternatives: list[list[tuple[str, Condition]]]) -> None:
        self.alternatives = tuple(tuple(conditions) for conditions in alternatives)
        tried = [tuple(sorted(conditions, key=_looks_up)) for conditions in alternatives]
        self.in_order = tuple(sorted(tried, key=lambda conditions: any(map(_looks_up, conditions))))
        self.properties = tuple(dict.fromkeys(name for conditions in alternatives for name, _ in conditions))

    @property
    def always(self) -> bool:
        """Whether every identifier matches."""
        return () in self.alternatives

    def holds(self, value_of: ValueOf) -> bool:
        """Decide for one identifier; asks for no property beyond the first condition that fails."""
        for conditions in self.in_order:
            for name, condition in conditions:
                if not condition(value_of(name)):
                    break
            else:
                return True
        return False

    def asking(self, value_of: ValueOf) -> Generator[str, None, bool]:
        """Yield each property right before :meth:`holds` asks for it; return whether the match holds."""
        for conditions in self.in_order:
            for name, condition in conditions:
                yield name
                if not condition(value_of(name)):
                    break
            else:
                return True
        return False


def _looks_up(named: tuple[str, Condition]) -> bool:
    return not facts_of(named[0]).cheap


def compile_match(match: object, *, field: str = "match") -> Matcher:
    """Check and compile a match: an object, or a non-empty list of objects.

    Raises InvalidRule with ``field``, whose reason names the property and what is wrong with its condition.
    """
    if isinstance(match, Mapping):
        return Matcher([_compile_object(match, field)])
    if isinstance(match, (list, tuple)) and match:
        return Matcher([_compile_object(alternative, field) for alternative in match])
    raise InvalidRule(
        field,
        "an empty list would never match; write {} to match everything"
        if isinstance(match, (list, tuple))
        else f"must be an object of property: condition, or a list of such objects, not {type(match).__name__}",
    )


def _compile_object(match: object, field: str) -> list[tuple[str, Condition]]:
    if not isinstance(match, Mapping):
        raise InvalidRule(
            field, f"each alternative must be an object of property: condition, not {type(match).__name__}"
        )
    conditions = []
    for name, condition in match.items():
        try:
            known = normalise(name)
            said = _in_either_case(condition) if known == "method" else condition
            conditions.append((known, _compile_condition(said)))
        except (TypeError, ValueError) as error:
            raise InvalidRule(field, f"property {name!r}: {error}") from error
    return conditions


def _in_either_case(condition: object, depth: int = 0) -> object:
    """Return a condition on the method that takes methods in upper case as well, which is how requests have them."""
    if isinstance(condition, str):
        return [condition, condition.upper()]
    if isinstance(condition, (list, tuple)):
        return [*condition, *(member.upper() for member in condition if isinstance(member, str))]
    if not isinstance(condition, Mapping) or depth > MAX_DEPTH:
        return condition
    if set(condition) == {"eq"} and isinstance(condition["eq"], str):
        return _in_either_case(condition["eq"])
    return {
        operator: _in_either_case(said, depth + 1)
        if operator == "not" or (operator in ("in", "oneOf") and isinstance(said, (list, tuple)))
        else said
        for operator, said in condition.items()
    }


def _compile_condition(condition: object, depth: int = 0) -> Condition:
    if isinstance(condition, (list, tuple)):
        return _one_of(condition)
    if not isinstance(condition, Mapping):
        return _equal(condition)
    if not condition:
        raise ValueError('an empty object is not a condition; write a value, or an operator such as {"eq": …}')
    if depth > MAX_DEPTH:
        raise ValueError(f"conditions are nested more than {MAX_DEPTH} deep")
    parts = [_compile_operator(name, operand, depth) for name, operand in condition.items()]
    if len(parts) == 1:
        return parts[0]
    return lambda text: all(part(text) for part in parts)


def _compile_operator(name: object, operand: object, depth: int) -> Condition:
    if name == NOT:
        inner = _compile_condition(operand, depth + 1)
        return lambda text: not inner(text)
    row = operator_of(name)
    if row is None:
        known = ", ".join(sorted([*OPERATORS, NOT]))
        raise ValueError(f"unknown operator {name!r}; there are {known}")
    return row.make(operand)


def _scalar(operand: object) -> str | None:
    if isinstance(operand, float) and not math.isfinite(operand):
        raise ValueError(f"{operand} is not a value to compare with")
    return bounded(canonical(operand, "operand"))


def _text(operand: object, what: str) -> str:
    if isinstance(operand, bool) or not isinstance(operand, (str, int, float)):
        raise TypeError(f"{what} takes a text, not {type(operand).__name__}")
    return _scalar(operand) or ""


def _texts(operand: object, what: str) -> tuple[str, ...]:
    """Return one text or a list of them as a tuple."""
    members = operand if isinstance(operand, (list, tuple)) else [operand]
    return tuple(_text(member, what) for member in members)


def _equal(operand: object) -> Condition:
    if isinstance(operand, (Mapping, list, tuple)):
        raise TypeError(f"eq takes a single value, not {type(operand).__name__}")
    return Members([_scalar(operand)])


def _one_of(operand: object) -> Condition:
    if not isinstance(operand, (list, tuple)):
        raise TypeError(f"in takes a list, not {type(operand).__name__}")
    return Members(_scalar(member) for member in operand)


def _prefix(operand: object) -> Condition:
    return Ends(_texts(operand, "prefix"), at_start=True)


def _suffix(operand: object) -> Condition:
    return Ends(_texts(operand, "suffix"), at_start=False)


def _regex(operand: object) -> Condition:
    if not isinstance(operand, str):
        raise TypeError(f"regex takes a text, not {type(operand).__name__}")
    if len(operand) > MAX_PATTERN:
        raise ValueError(f"the pattern has {len(operand)} characters; at most {MAX_PATTERN} are allowed")
    _refuse_surrogates(operand)
    return Search(operand)


def _glob(operand: object) -> Condition:
    if not isinstance(operand, str):
        raise TypeError(f"glob takes a text, not {type(operand).__name__}")
    if len(operand) > MAX_PATTERN:
        raise ValueError(f"the glob has {len(operand)} characters; at most {MAX_PATTERN} are allowed")
    _refuse_surrogates(operand)
    wildcards = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = [wildcards.get(piece) or re2.escape(piece) for piece in re.findall(r"\*\*|\*|\?|[^*?]+", operand)]
    return Search(r"(?s)\A(?:" + "".join(pieces) + r")\z")


def _refuse_surrogates(pattern: str) -> None:
    try:
        pattern.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the pattern {pattern!r} is not valid Unicode text") from error


def _cidr(operand: object) -> Condition:
    members = operand if isinstance(operand, (list, tuple)) else [operand]
    if not all(isinstance(member, str) for member in members):
        raise TypeError("cidr takes a network such as '10.0.0.0/8', or a list of them")
    return Networks([parse_network(str(member)) for member in members])


def parse_network(text: str) -> Network:
    """Return the network that a text spells: a bare address is one of its own, a mapped one is IPv4. Raises
    ValueError."""
    try:
        network = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a network: write one such as '10.0.0.0/8' or '2001:db8::/32'") from error
    mapped = network.network_address.ipv4_mapped if network.version == 6 else None
    if mapped is not None and network.prefixlen >= 96:
        # Mapped addresses are read as IPv4, so a mapped network must be as well, or it would never hold.
        return ipaddress.ip_network(f"{mapped}/{network.prefixlen - 96}")
    return network


@lru_cache(maxsize=4096)
def parse_address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address a text spells: an IPv4-mapped IPv6 address as IPv4, a zone dropped; None if it spells none."""
    if not text or len(text) > 100:
        return None
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if address.version == 6 and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _comparison(name: str, compare: Callable[[Decimal, Decimal], bool]) -> Callable[[object], Condition]:
    """Return the maker of conditions that compare a number with the operand."""

    def make(operand: object) -> Condition:
        number = None if isinstance(operand, bool) or operand is None else _number(canonical(operand, name))
        if number is None:
            raise ValueError(f"{name} takes a finite number, not {operand!r}")

        def holds(text: str | None) -> bool:
            value = _number(text)
            return value is not None and compare(value, number)

        return holds

    return make


def _number(text: str | None) -> Decimal | None:
    """Return a text as a number, exactly; None unless it is a finite decimal number."""
    if text is None or not _NUMBER.fullmatch(text):
        return None
    return Decimal(text)


def _exists(operand: object) -> Condition:
    if not isinstance(operand, bool):
        raise TypeError(f"exists takes true or false, not {operand!r}")
    return lambda text: (text is not None) is operand


class Operand(StrEnum):
    """The kind of an operator's operand, which decides how the builder of the admin reads and writes it."""

    VALUE = "value"
    TEXT = "text"
    LIST = "list"
    # A single value, or a list of them.
    SOME = "some"
    NUMBER = "number"
    FLAG = "flag"


Phrases = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of conditions.

    ``make`` compiles an operand; it raises TypeError or ValueError for a bad one. ``phrases`` stand before the operand
    in a sentence: the first when the condition must hold, the second when it must not. A FLAG is not shown; False has
    the second phrase. ``labels`` are the phrases in the builder, where they differ. ``rarely_negated`` hides the second
    label from its list, because an opposite operator exists. ``aliases`` are older names.
    """

    name: str
    make: Callable[[object], Condition]
    phrases: Phrases
    operand: Operand = Operand.TEXT
    labels: Phrases | None = None
    rarely_negated: bool = False
    aliases: tuple[str, ...] = ()


def _comparing(name: str, compare: Callable[[Decimal, Decimal], bool], words: str) -> Operator:
    phrases = (f"is {words}", f"is not {words}")
    return Operator(name, _comparison(name, compare), phrases, Operand.NUMBER, rarely_negated=True)


# The operator that negates a condition: its operand is a condition itself, so it is no row.
NOT = "not"
OPERATORS = {
    row.name: row
    for row in (
        Operator("eq", _equal, ("is", "is not"), Operand.VALUE),
        Operator("in", _one_of, ("is in", "is not in"), Operand.LIST, ("is one of", "is none of"), aliases=("oneOf",)),
        Operator("prefix", _prefix, ("starts with", "does not start with"), Operand.SOME),
        Operator("suffix", _suffix, ("ends with", "does not end with"), Operand.SOME),
        Operator("glob", _glob, ("is like", "is not like"), labels=("is like (glob)", "is not like (glob)")),
        Operator(
            "regex",
            _regex,
            ("matches", "does not match"),
            labels=("matches (regex)", "does not match (regex)"),
            aliases=("re",),
        ),
        Operator("cidr", _cidr, ("is within", "is not within"), Operand.SOME),
        _comparing("gt", operator.gt, "above"),
        _comparing("gte", operator.ge, "at least"),
        _comparing("lt", operator.lt, "below"),
        _comparing("lte", operator.le, "at most"),
        Operator("exists", _exists, ("is present", "is missing"), Operand.FLAG, ("is there", "is missing")),
    )
}


def operator_of(name: object) -> Operator | None:
    """Return the operator of a name or alias, None if there is none."""
    if not isinstance(name, str):
        return None
    return OPERATORS.get(name) or next((row for row in OPERATORS.values() if name in row.aliases), None)
