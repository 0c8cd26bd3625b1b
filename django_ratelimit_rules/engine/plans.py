"""Plans: which rules of a ruleset count a call, and in which counters.

A ruleset and a function that tells a property's canonical text go in; a :class:`Plan` comes out: the hits in order, and
the skip that ends the chain, if one matches. Nothing is counted here, and nothing of requests or Redis is known.
"""

from __future__ import annotations

import inspect
import ipaddress
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote_from_bytes

from ..exceptions import CallableFailed
from .candidates import Candidates
from .matching import ValueOf, parse_address
from .properties import base_of, is_client_written
from .rules import Action, Algorithm, FailureMode, Mode, Rule, check_limit
from .values import ANONYMOUS, parse_duration

UNKNOWN = "_unknown_"
MAX_PART = 100
MAX_PARTS = 150
_PLAIN = re.compile(r"[A-Za-z0-9.:@/+=-][A-Za-z0-9._:@/+=-]*", re.ASCII)
# Makes a named tuple from its fields in half the time of the class's own call, and there are many on every check.
new_tuple: Any = tuple.__new__
_CODES = {Algorithm.FIXED_WINDOW: "f", Algorithm.SLIDING_WINDOW: "s", Algorithm.TOKEN_BUCKET: "t"}


class Hit(NamedTuple):
    """One counter to count in.

    ``period`` is in seconds. ``enforced``: exceeding it blocks. ``looked``: a rule by outcome, only looked at before
    the answer is known. ``member``: the value that a ``count_distinct`` rule counts, None for other rules.
    """

    rule: Rule
    key: str
    limit: int
    period: int
    enforced: bool
    looked: bool
    member: str | None


class Plan(NamedTuple):
    """The hits of one check in order, and the skip rule behind them. ``passed_over`` are the count_distinct rules
    that matched but whose property is missing."""

    limiter: str
    mode: Mode
    hits: tuple[Hit, ...]
    skip: Rule | None
    passed_over: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyWriter:
    """Write the parts of counter keys: injective whatever the values hold, bounded, safe to show.

    ``secret`` keys the digests that stand for client-written and long values; ``ipv6_prefix`` is the number of bits
    that an IPv6 address is counted by.
    """

    secret: bytes = b""
    ipv6_prefix: int = 64

    def part(self, name: str, text: str | None, value_of: ValueOf) -> str:
        """Return one characteristic's part of a key. No two values of a property share one."""
        if not text:
            return UNKNOWN
        base = base_of(name)
        if base == "ip":
            text = self._network(text)
        elif base == "user" and text == ANONYMOUS:
            address = value_of("ip")
            # "<" is never plain, so this meets neither a user's key nor that of a rule that counts by address.
            return ANONYMOUS + (self.part("ip", address, value_of) if address else "")
        if _PLAIN.fullmatch(text) and len(text) <= MAX_PART and not is_client_written(name):
            return text
        raw = text.encode("utf-8", "surrogatepass")
        quoted = quote_from_bytes(raw, safe=".:@/+=-~").replace("_", "%5F") if len(raw) <= MAX_PART else ""
        if is_client_written(name) or not 0 < len(quoted) <= MAX_PART:
            return "#" + self.digest(raw)
        return quoted

    def parts(self, names: Iterable[str], value_of: ValueOf) -> str:
        """Return the parts of several characteristics as one text of at most 150 characters."""
        joined = ",".join([self.part(name, value_of(name), value_of) for name in names])
        return joined if len(joined) <= MAX_PARTS else "##" + self.digest(joined.encode())

    def digest(self, raw: bytes) -> str:
        """Return 20 characters that stand for ``raw``; without the secret nobody can tell for which text."""
        return urlsafe_b64encode(blake2b(raw, digest_size=15, key=self.secret).digest()).decode()

    def _network(self, text: str) -> str:
        address = parse_address(text)
        if address is None or address.version == 4:
            return text if address is None else str(address)
        return str(ipaddress.ip_network((address, self.ipv6_prefix), strict=False).network_address)


class Step:
    """One rule made ready: what does not depend on the identifier is computed once per snapshot."""

    __slots__ = ("enforced", "limit", "looked", "period", "prefix", "rule")

    def __init__(self, limiter: str, mode: Mode, rule: Rule) -> None:
        self.rule = rule
        self.enforced = rule.action is Action.LIMIT and mode is Mode.ENFORCE
        self.looked = rule.response is not None
        self.prefix = counter_prefix(limiter, rule)
        self.limit = _dynamic(rule.limit)
        self.period = _dynamic(rule.period)

    def hit(self, keys: KeyWriter, value_of: ValueOf, context: object, parts: dict[tuple[str, ...], str]) -> Hit | None:
        """Return the hit, or None when the property that a count_distinct rule counts is missing.

        ``parts`` remembers what the characteristics said to the rules before.
        """
        rule = self.rule
        member = None
        if rule.count_distinct is not None:
            text = value_of(rule.count_distinct)
            if text is None:
                return None
            member = keys.part(rule.count_distinct, text, value_of)
        limit: Any = rule.limit if self.limit is None else _limit(self.limit, rule, context)
        period: Any = rule.period if self.period is None else _period(self.period, rule, context)
        names = rule.characteristics
        part = parts.get(names)
        if part is None:
            part = parts[names] = keys.parts(names, value_of)
        fields = (rule, self.prefix + part, limit, period, self.enforced, self.looked, member)
        return new_tuple(Hit, fields)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The rules in force for one limiter, in order: enabled ones that have not expired, with their mode.

    ``version`` is the admin's, for whoever reads a log line later; nothing is decided by it.
    """

    limiter: str
    rules: tuple[Rule, ...] = ()
    mode: Mode = Mode.ENFORCE
    failure_mode: FailureMode = FailureMode.OPEN
    keys: KeyWriter = KeyWriter()
    version: int | None = None
    steps: tuple[Step, ...] = field(init=False, repr=False, compare=False)
    candidates: Candidates = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(Step(self.limiter, self.mode, rule) for rule in self.rules))
        object.__setattr__(self, "candidates", Candidates([rule.matcher for rule in self.rules]))

    @property
    def properties(self) -> tuple[str, ...]:
        """All properties that the rules ask for, each once, in order."""
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.properties))


def plan(ruleset: Ruleset, value_of: ValueOf, context: object = None) -> Plan:
    """Return which rules count this call, up to the first skip that matches.

    Asks ``value_of`` for no property of a rule that is not reached. Raises CallableFailed.
    """
    hits = []
    passed_over: tuple[Rule, ...] = ()
    skip = None
    parts: dict[tuple[str, ...], str] = {}
    decided = ruleset.candidates.decided
    for position in ruleset.candidates.of(value_of):
        step = ruleset.steps[position]
        if not decided[position] and not step.rule.matcher.holds(value_of):
            continue
        if step.rule.action is Action.SKIP:
            skip = step.rule
            break
        hit = step.hit(ruleset.keys, value_of, context, parts)
        if hit is None:
            passed_over += (step.rule,)
        else:
            hits.append(hit)
    return Plan(ruleset.limiter, ruleset.mode, tuple(hits), skip, passed_over)


def counter_keys(ruleset: Ruleset, value_of: ValueOf) -> list[str]:
    """Return the keys of all counters of this identifier, those behind a skip too."""
    return [
        step.prefix + ruleset.keys.parts(step.rule.characteristics, value_of)
        for step in ruleset.steps
        if step.rule.counts and step.rule.matcher.holds(value_of)
    ]


def counter_prefix(limiter: str, rule: Rule) -> str:
    """Return what all counters of a rule begin with: ``{limiter}rule:algorithm:characteristics:``.

    The braces are a Redis Cluster hash tag: all counters of one check lie in one slot.
    """
    code = f"d.{_quote(rule.count_distinct)}" if rule.count_distinct else _CODES[rule.algorithm]
    return f"{{{limiter}}}{rule.name}:{code}:{','.join(map(_quote, rule.characteristics))}:"


def _quote(name: str) -> str:
    return quote_from_bytes(name.encode("utf-8", "surrogatepass"), safe=".|_-")


def _dynamic(value: object) -> Callable[[object], Any] | None:
    """Return a callable of one argument (the context), or None for a static value."""
    if not callable(value):
        return None
    function: Callable[..., Any] = value
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return lambda _: function()
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not required:
        return lambda _: function()
    if required[0].kind is inspect.Parameter.KEYWORD_ONLY:
        name = required[0].name
        return lambda context: function(**{name: context})
    return function


def _limit(function: Callable[[object], Any], rule: Rule, context: object) -> int:
    try:
        return check_limit(function(context))
    except Exception as error:
        raise CallableFailed.because(f"the limit of rule {rule.name!r}", error) from error


def _period(function: Callable[[object], Any], rule: Rule, context: object) -> int:
    try:
        return parse_duration(function(context))
    except Exception as error:
        raise CallableFailed.because(f"the period of rule {rule.name!r}", error) from error
