"""Conditions on properties: a rule's ``match`` and ``response`` objects, checked and compiled once.

A JSON-like object goes in, and a :class:`Matcher` comes out. It calls a function for the canonical string of a
property, None if it is missing. It knows nothing of requests. Patterns run in RE2 in linear time, because operators
write the patterns and attackers write the strings.
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
from .messages import _, gettext_noop, message_of, ngettext
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
    """The condition that a string is a member. A ruleset finds rules with this condition by a look-up."""

    __slots__ = ()
    __call__ = frozenset.__contains__


class Search:
    """The condition that an RE2 search finds ``pattern``. A ruleset searches for many patterns at once."""

    __slots__ = ("_search", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._search = compile_pattern(pattern)

    def __call__(self, text: str | None) -> bool:
        return text is not None and self._search(encoded(text)) is not None


class Ends:
    """The condition that a string starts or ends with one of several strings. ``pattern`` is its equivalent for RE2.

    ``pattern`` is None if RE2 has no equivalent.
    """

    __slots__ = ("_fits", "_texts", "pattern")

    def __init__(self, texts: tuple[str, ...], at_start: bool) -> None:
        self._texts = texts
        self._fits = str.startswith if at_start else str.endswith
        choice = "(?:" + "|".join(re2.escape(text.encode("utf-8", "replace").decode()) for text in texts) + ")"
        surrogates = any(not text.isascii() and _SURROGATE.search(text) for text in texts)
        # RE2 decodes UTF-8, which cannot encode a lone surrogate.
        self.pattern = None if surrogates or not texts else r"\A" + choice if at_start else choice + r"\z"

    def __call__(self, text: str | None) -> bool:
        return text is not None and self._fits(text, self._texts)


class Networks:
    """The condition that an address lies in one of several networks, which do not overlap. A ruleset looks them up."""

    __slots__ = ("_by_version", "networks")

    def __init__(self, networks: Iterable[Network]) -> None:
        collapse: Any = ipaddress.collapse_addresses  # its type does not cover networks of either version
        by_version = {version: [n for n in networks if n.version == version] for version in (4, 6)}
        self._by_version = {version: list(collapse(found)) for version, found in by_version.items()}
        self.networks: list[Network] = [*self._by_version[4], *self._by_version[6]]

    def __call__(self, text: str | None) -> bool:
        address = parse_address(text)
        return address is not None and any(address in network for network in self._by_version[address.version])


def encoded(text: str) -> bytes:
    """Return a string as bytes for RE2.

    A lone surrogate, from a header that was not UTF-8, matches no character there.
    """
    return text.encode("utf-8", "surrogatepass")


def compile_pattern(pattern: str) -> Callable[[bytes], object]:
    """Return RE2's search for a pattern. Raises ValueError when it does not compile."""
    options = re2.Options()
    options.log_errors = False
    # The content of groups is never used, and capturing it takes up to forty times as long.
    options.never_capture = True
    try:
        search: Callable[[bytes], object] = re2.compile(pattern, options).search
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise ValueError(
            _("the pattern %(pattern)r does not compile as RE2: %(reason)s", pattern=pattern, reason=str(reason))
        ) from error
    return search


class Matcher:
    """A compiled match: a list of alternatives. One must hold. An alternative holds if all its conditions hold.

    ``alternatives`` are in the order of the rule. ``in_order`` are the same in the order of evaluation, conditions on
    cheap properties first. A database may change the order of a match's keys, and a session must not be read for a
    rule about another path.
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
        """Return whether an identifier matches. Reads no property after the first condition that fails."""
        for conditions in self.in_order:
            for name, condition in conditions:
                if not condition(value_of(name)):
                    break
            else:
                return True
        return False

    def asking(self, value_of: ValueOf) -> Generator[str, None, bool]:
        """Yield each property right before :meth:`holds` reads it. Return whether the match holds."""
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

    Raises InvalidRule with ``field``. Its reason names the property and the fault of its condition.
    """
    if isinstance(match, Mapping):
        return Matcher([_compile_object(match, field)])
    if isinstance(match, (list, tuple)) and match:
        return Matcher([_compile_object(alternative, field) for alternative in match])
    raise InvalidRule(
        field,
        _("an empty list would never match: write {} to match everything")
        if isinstance(match, (list, tuple))
        else _(
            "must be an object of property: condition, or a list of such objects, not %(type)s",
            type=type(match).__name__,
        ),
    )


def _compile_object(match: object, field: str) -> list[tuple[str, Condition]]:
    if not isinstance(match, Mapping):
        raise InvalidRule(
            field,
            _("each alternative must be an object of property: condition, not %(type)s", type=type(match).__name__),
        )
    conditions = []
    for name, condition in match.items():
        try:
            known = normalise(name)
            in_case = _in_either_case(condition) if known == "method" else condition
            conditions.append((known, _compile_condition(in_case)))
        except (TypeError, ValueError) as error:
            reason = _("property %(name)s: %(reason)s", name=repr(name), reason=message_of(error))
            raise InvalidRule(field, reason) from error
    return conditions


def _in_either_case(condition: object, depth: int = 0) -> object:
    """Return a condition on the method that matches upper case as well, because requests have methods in upper case."""
    if isinstance(condition, str):
        return [condition, condition.upper()]
    if isinstance(condition, (list, tuple)):
        return [*condition, *(member.upper() for member in condition if isinstance(member, str))]
    if not isinstance(condition, Mapping) or depth > MAX_DEPTH:
        return condition
    if set(condition) == {"eq"} and isinstance(condition["eq"], str):
        return _in_either_case(condition["eq"])
    return {
        operator: _in_either_case(operand, depth + 1)
        if operator == "not" or (operator in ("in", "oneOf") and isinstance(operand, (list, tuple)))
        else operand
        for operator, operand in condition.items()
    }


def _compile_condition(condition: object, depth: int = 0) -> Condition:
    if isinstance(condition, (list, tuple)):
        return _one_of(condition)
    if not isinstance(condition, Mapping):
        return _equal(condition)
    if not condition:
        raise ValueError(_('an empty object is not a condition: write a value, or an operator such as {"eq": …}'))
    if depth > MAX_DEPTH:
        raise ValueError(_("conditions are nested more than %(most)s deep", most=MAX_DEPTH))
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
        raise ValueError(_("unknown operator %(operator)s, use one of %(known)s", operator=repr(name), known=known))
    return row.make(operand)


def _scalar(operand: object) -> str | None:
    if isinstance(operand, float) and not math.isfinite(operand):
        raise ValueError(_("%(value)s is not a value to compare with", value=str(operand)))
    return bounded(canonical(operand, "operand"))


def _text(operand: object, what: str) -> str:
    if isinstance(operand, bool) or not isinstance(operand, (str, int, float)):
        raise _takes_string(what, operand)
    return _scalar(operand) or ""


def _takes_string(operator: str, operand: object) -> TypeError:
    return TypeError(_("%(operator)s takes a string, not %(type)s", operator=operator, type=type(operand).__name__))


def _texts(operand: object, what: str) -> tuple[str, ...]:
    """Return a string or a list of strings as a tuple."""
    members = operand if isinstance(operand, (list, tuple)) else [operand]
    return tuple(_text(member, what) for member in members)


def _equal(operand: object) -> Condition:
    if isinstance(operand, (Mapping, list, tuple)):
        raise TypeError(_("eq takes a single value, not %(type)s", type=type(operand).__name__))
    return Members([_scalar(operand)])


def _one_of(operand: object) -> Condition:
    if not isinstance(operand, (list, tuple)):
        raise TypeError(_("in takes a list, not %(type)s", type=type(operand).__name__))
    return Members(_scalar(member) for member in operand)


def _prefix(operand: object) -> Condition:
    return Ends(_texts(operand, "prefix"), at_start=True)


def _suffix(operand: object) -> Condition:
    return Ends(_texts(operand, "suffix"), at_start=False)


def _regex(operand: object) -> Condition:
    if not isinstance(operand, str):
        raise _takes_string("regex", operand)
    if len(operand) > MAX_PATTERN:
        raise ValueError(
            ngettext(
                "the pattern has %(number)s character, at most %(most)s are allowed",
                "the pattern has %(number)s characters, at most %(most)s are allowed",
                len(operand),
                most=MAX_PATTERN,
            )
        )
    _refuse_surrogates(operand)
    return Search(operand)


def _glob(operand: object) -> Condition:
    if not isinstance(operand, str):
        raise _takes_string("glob", operand)
    if len(operand) > MAX_PATTERN:
        raise ValueError(
            ngettext(
                "the glob has %(number)s character, at most %(most)s are allowed",
                "the glob has %(number)s characters, at most %(most)s are allowed",
                len(operand),
                most=MAX_PATTERN,
            )
        )
    _refuse_surrogates(operand)
    wildcards = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = [wildcards.get(piece) or re2.escape(piece) for piece in re.findall(r"\*\*|\*|\?|[^*?]+", operand)]
    return Search(r"(?s)\A(?:" + "".join(pieces) + r")\z")


def _refuse_surrogates(pattern: str) -> None:
    try:
        pattern.encode()
    except UnicodeEncodeError as error:
        raise ValueError(_("the pattern %(pattern)r is not valid Unicode", pattern=pattern)) from error


def _cidr(operand: object) -> Condition:
    members = operand if isinstance(operand, (list, tuple)) else [operand]
    if not all(isinstance(member, str) for member in members):
        raise TypeError(_("cidr takes a network such as '10.0.0.0/8', or a list of networks"))
    return Networks([parse_network(str(member)) for member in members])


def parse_network(text: str) -> Network:
    """Return the network in a string. A bare address is a network of its own, and a mapped network is IPv4.

    Raises ValueError if the string is not a network.
    """
    try:
        network = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise ValueError(
            _("%(value)r is not a network: write a network such as '10.0.0.0/8' or '2001:db8::/32'", value=text)
        ) from error
    mapped = network.network_address.ipv4_mapped if network.version == 6 else None
    if mapped is not None and network.prefixlen >= 96:
        # Mapped addresses become IPv4 addresses, so no address would ever lie in a mapped network.
        return ipaddress.ip_network(f"{mapped}/{network.prefixlen - 96}")
    return network


@lru_cache(maxsize=4096)
def parse_address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address in a string, without its zone. An IPv4-mapped IPv6 address becomes an IPv4 address.

    Returns None if the string is not an address.
    """
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
            raise ValueError(_("%(operator)s takes a finite number, not %(value)s", operator=name, value=repr(operand)))

        def holds(text: str | None) -> bool:
            value = _number(text)
            return value is not None and compare(value, number)

        return holds

    return make


def _number(text: str | None) -> Decimal | None:
    """Return a string as an exact number, None unless it is a finite decimal number."""
    if text is None or not _NUMBER.fullmatch(text):
        return None
    return Decimal(text)


def _exists(operand: object) -> Condition:
    if not isinstance(operand, bool):
        raise TypeError(_("exists takes true or false, not %(value)s", value=repr(operand)))
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

    ``make`` compiles an operand. It raises TypeError or ValueError for a bad operand. ``phrases`` are the templates of
    the condition in a sentence: the first when the condition must hold, the second when it must not hold. Their
    placeholders are ``property`` and ``value``. A FLAG shows no value, and False has the second phrase. ``labels`` are
    the messages for the same two in the list of the builder. ``rarely_negated`` hides the second label from its list,
    because an opposite operator exists. ``aliases`` are older names.
    """

    name: str
    make: Callable[[object], Condition]
    phrases: Phrases
    labels: Phrases
    operand: Operand = Operand.TEXT
    rarely_negated: bool = False
    aliases: tuple[str, ...] = ()


# The operator that negates a condition. It is not a row, because its operand is a condition itself.
NOT = "not"
OPERATORS = {
    row.name: row
    for row in (
        Operator(
            "eq",
            _equal,
            (gettext_noop("%(property)s is %(value)s"), gettext_noop("%(property)s is not %(value)s")),
            (_("is"), _("is not")),
            Operand.VALUE,
        ),
        Operator(
            "in",
            _one_of,
            (gettext_noop("%(property)s is in %(value)s"), gettext_noop("%(property)s is not in %(value)s")),
            (_("is one of"), _("is none of")),
            Operand.LIST,
            aliases=("oneOf",),
        ),
        Operator(
            "prefix",
            _prefix,
            (
                gettext_noop("%(property)s starts with %(value)s"),
                gettext_noop("%(property)s does not start with %(value)s"),
            ),
            (_("starts with"), _("does not start with")),
            Operand.SOME,
        ),
        Operator(
            "suffix",
            _suffix,
            (
                gettext_noop("%(property)s ends with %(value)s"),
                gettext_noop("%(property)s does not end with %(value)s"),
            ),
            (_("ends with"), _("does not end with")),
            Operand.SOME,
        ),
        Operator(
            "glob",
            _glob,
            (gettext_noop("%(property)s is like %(value)s"), gettext_noop("%(property)s is not like %(value)s")),
            (_("is like (glob)"), _("is not like (glob)")),
        ),
        Operator(
            "regex",
            _regex,
            (gettext_noop("%(property)s matches %(value)s"), gettext_noop("%(property)s does not match %(value)s")),
            (_("matches (regex)"), _("does not match (regex)")),
            aliases=("re",),
        ),
        Operator(
            "cidr",
            _cidr,
            (gettext_noop("%(property)s is within %(value)s"), gettext_noop("%(property)s is not within %(value)s")),
            (_("is within"), _("is not within")),
            Operand.SOME,
        ),
        Operator(
            "gt",
            _comparison("gt", operator.gt),
            (gettext_noop("%(property)s is above %(value)s"), gettext_noop("%(property)s is not above %(value)s")),
            (_("is above"), _("is not above")),
            Operand.NUMBER,
            rarely_negated=True,
        ),
        Operator(
            "gte",
            _comparison("gte", operator.ge),
            (
                gettext_noop("%(property)s is at least %(value)s"),
                gettext_noop("%(property)s is not at least %(value)s"),
            ),
            (_("is at least"), _("is not at least")),
            Operand.NUMBER,
            rarely_negated=True,
        ),
        Operator(
            "lt",
            _comparison("lt", operator.lt),
            (gettext_noop("%(property)s is below %(value)s"), gettext_noop("%(property)s is not below %(value)s")),
            (_("is below"), _("is not below")),
            Operand.NUMBER,
            rarely_negated=True,
        ),
        Operator(
            "lte",
            _comparison("lte", operator.le),
            (
                gettext_noop("%(property)s is at most %(value)s"),
                gettext_noop("%(property)s is not at most %(value)s"),
            ),
            (_("is at most"), _("is not at most")),
            Operand.NUMBER,
            rarely_negated=True,
        ),
        Operator(
            "exists",
            _exists,
            (gettext_noop("%(property)s is present"), gettext_noop("%(property)s is missing")),
            (_("is there"), _("is missing")),
            Operand.FLAG,
        ),
    )
}


def operator_of(name: object) -> Operator | None:
    """Return the operator of a name or alias. Returns None for an unknown name."""
    if not isinstance(name, str):
        return None
    return OPERATORS.get(name) or next((row for row in OPERATORS.values() if name in row.aliases), None)
