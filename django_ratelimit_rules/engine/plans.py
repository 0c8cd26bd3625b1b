"""Plans: the rules of a ruleset that count a call, and their counters.

A ruleset and a function that returns a property's canonical string go in. A :class:`Plan` comes out: the hits in order,
and the skip rule that ends the chain, if one matches. Counts nothing, and knows neither requests nor Redis.

Everything that does not depend on the identifier is computed once: for each rule in a :class:`Step`, for the rules that
match together in a :class:`Chain`. Most calls therefore only build their keys.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

from ..exceptions import CallableFailed
from .candidates import Candidates
from .durations import parse_duration
from .keys import KeyWriter, Partition, prefixes
from .matching import ValueOf
from .messages import _
from .properties import facts_of
from .rules import Action, FailureMode, Mode, Rule, check_limit, check_partition

# Makes a named tuple in half the time of its class. Every check makes many.
new_tuple: Any = tuple.__new__
# The number of chains that a ruleset remembers. It is bounded, because clients choose properties and so the chains.
MOST_CHAINS = 1000


class Hit(NamedTuple):
    """One counter to count in.

    ``period`` is in seconds. ``enforced``: exceeding the limit blocks. ``looked``: the rule has a ``response``, so the
    counter is only read before the response is known. ``member``: the value that a ``count_distinct`` rule counts, None
    for other rules.
    """

    rule: Rule
    key: str
    limit: int
    period: int
    enforced: bool
    looked: bool
    member: str | None


class Terms(NamedTuple):
    """The terms of a rule for all its counters: the fields of a :class:`Hit` without key and member.

    A counter whose use has reached ``near`` is near its limit.
    """

    rule: Rule
    limit: int
    period: int
    enforced: bool
    looked: bool
    near: float

    def hit(self, key: str, member: str | None = None) -> Hit:
        """Return the hit in one counter."""
        return Hit(self.rule, key, self.limit, self.period, self.enforced, self.looked, member)


def near(rule: Rule, limit: int) -> float:
    """Return the use at which a counter is near its limit, infinity if ``warn_at`` is 0.

    Returns infinity for distinct values as well, because no counter reports whether a value was new.
    """
    return limit * rule.warn_at / 100 if rule.warn_at and not rule.count_distinct else math.inf


class Step:
    """One rule, prepared. ``terms`` are None if a callable computes them for each call.

    A key of its counters is the tag of the ``partition``, if there is one, then ``prefix``, then the values of
    ``names``.
    """

    __slots__ = ("_limit", "_period", "enforced", "looked", "names", "partition", "prefix", "rule", "terms")

    def __init__(self, rule: Rule, mode: Mode, prefix: str, partition: Partition | None = None) -> None:
        self.rule = rule
        self.prefix = prefix
        self.partition = partition
        self.names = partition.others(rule.characteristics) if partition else rule.characteristics
        self.enforced = rule.action is Action.LIMIT and mode is Mode.ENFORCE
        self.looked = rule.response is not None
        self._limit = _dynamic(rule.limit)
        self._period = _dynamic(rule.period)
        fixed = rule.counts and self._limit is None and self._period is None
        self.terms = self.terms_of(None) if fixed else None

    def terms_of(self, context: object) -> Terms:
        """Return the terms of one call. Raises CallableFailed."""
        rule = self.rule
        limit: Any = rule.limit if self._limit is None else _limit(self._limit, rule, context)
        period: Any = rule.period if self._period is None else _period(self._period, rule, context)
        return Terms(rule, limit, period, self.enforced, self.looked, near(rule, limit))

    def key(self, keys: KeyWriter, value_of: ValueOf) -> str:
        """Return the key of the counter of one call."""
        key = self.prefix + keys.parts(self.names, value_of)
        return self.partition.tag(keys, value_of) + key if self.partition else key

    def hit(self, keys: KeyWriter, value_of: ValueOf, context: object) -> Hit | None:
        """Return the hit, None if the property that a count_distinct rule counts is missing."""
        member = None
        if self.rule.count_distinct is not None:
            member = _member(self.rule.count_distinct, keys, value_of)
            if member is None:
                return None
        terms = self.terms or self.terms_of(context)
        return terms.hit(self.key(keys, value_of), member)


class Chain:
    """Rules that match a call together, in order, and the skip rule after them.

    ``terms`` are None if they differ from call to call. ``wire`` is a cache for a store, which derives it from the
    terms.
    """

    __slots__ = ("_named", "_partition", "_placed", "_prefixes", "counts_values", "skip", "steps", "terms", "wire")

    def __init__(self, steps: Sequence[Step]) -> None:
        self.skip = steps[-1].rule if steps and not steps[-1].rule.counts else None
        self.steps = tuple(step for step in steps if step.rule.counts)
        fixed = [step.terms for step in self.steps if step.terms is not None]
        self.terms = tuple(fixed) if len(fixed) == len(self.steps) else None
        self.counts_values = any(step.rule.count_distinct for step in self.steps)
        self.wire: Any = None
        # Many rules count by the same properties, so their values are written once.
        self._named = tuple(dict.fromkeys(step.names for step in self.steps))
        self._placed = [(step.prefix, self._named.index(step.names)) for step in self.steps]
        self._partition = self.steps[0].partition if self.steps else None
        alike = len(self._named) == 1 and self._partition is None
        self._prefixes = [step.prefix for step in self.steps] if alike else None

    def hits(self, keys: KeyWriter, value_of: ValueOf, context: object) -> Hits:
        """Return the hits of one call. Raises CallableFailed."""
        if self._prefixes is not None:
            text = keys.parts(self._named[0], value_of)
            written = [prefix + text for prefix in self._prefixes]
        else:
            tag = self._partition.tag(keys, value_of) if self._partition else ""
            texts = [keys.parts(names, value_of) for names in self._named]
            written = [tag + prefix + texts[place] for prefix, place in self._placed]
        terms = self.terms
        if terms is None:
            terms = tuple([step.terms or step.terms_of(context) for step in self.steps])
        members = None
        if self.counts_values:
            distinct = [step.rule.count_distinct for step in self.steps]
            members = [None if name is None else _member(name, keys, value_of) for name in distinct]
        return Hits(written, terms, members, self)


class Hits(Sequence[Hit]):
    """The hits of a plan. ``keys``, ``terms`` and ``members`` are its columns.

    ``chain`` is their chain, None if the hits were made one by one.
    """

    __slots__ = ("chain", "keys", "members", "terms")

    def __init__(
        self,
        keys: Sequence[str],
        terms: Sequence[Terms],
        members: Sequence[str | None] | None = None,
        chain: Chain | None = None,
    ) -> None:
        self.keys = keys
        self.terms = terms
        self.members = members
        self.chain = chain

    @classmethod
    def of(cls, hits: Sequence[Hit]) -> Hits:
        """Return hits made one by one."""
        terms = [
            Terms(hit.rule, hit.limit, hit.period, hit.enforced, hit.looked, near(hit.rule, hit.limit)) for hit in hits
        ]
        return cls([hit.key for hit in hits], terms, [hit.member for hit in hits])

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, at: int | slice) -> Hit | tuple[Hit, ...]:
        if isinstance(at, slice):
            return tuple(self)[at]
        return self.terms[at].hit(self.keys[at], self.members[at] if self.members else None)

    def __iter__(self) -> Iterator[Hit]:
        return (self[at] for at in range(len(self.keys)))


NONE = Hits((), ())


class Plan(NamedTuple):
    """The hits of one check in order, and the skip rule after them.

    ``passed_over`` are the count_distinct rules that match, but have no value to count.
    """

    limiter: str
    mode: Mode
    hits: Hits
    skip: Rule | None
    passed_over: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The rules in force for one limiter, in order: enabled ones that have not expired, with their mode.

    ``partition_by`` is a property in the characteristics of all rules that count, see :mod:`keys`. ``version`` is the
    version in the admin. It is for log lines and decides nothing. ``looks_up``: a rule uses an expensive property.
    ``calls_project``: a limit or a period is a function of the project. Raises InvalidRule.
    """

    limiter: str
    rules: tuple[Rule, ...] = ()
    mode: Mode = Mode.ENFORCE
    failure_mode: FailureMode = FailureMode.OPEN
    keys: KeyWriter = field(default_factory=KeyWriter)
    partition_by: str | None = None
    version: int | None = None
    steps: tuple[Step, ...] = field(init=False, repr=False, compare=False)
    candidates: Candidates = field(init=False, repr=False, compare=False)
    looks_up: bool = field(init=False, repr=False, compare=False)
    calls_project: bool = field(init=False, repr=False, compare=False)
    _only_chain: Chain | None = field(init=False, repr=False, compare=False, default=None)
    _chains: dict[tuple[int, ...], Chain] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        partition_by = check_partition(self.partition_by, self.rules)
        partition = None if partition_by is None else Partition(self.limiter, partition_by)
        begun = zip(self.rules, prefixes(self.limiter, self.rules, partition_by), strict=True)
        steps = tuple(Step(rule, self.mode, prefix, partition) for rule, prefix in begun)
        object.__setattr__(self, "partition_by", partition_by)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "candidates", Candidates([rule.matcher for rule in self.rules]))
        object.__setattr__(self, "looks_up", not all(facts_of(name).cheap for name in self.properties))
        object.__setattr__(self, "calls_project", any(step.rule.counts and step.terms is None for step in steps))
        if not any(rule.count_distinct or not rule.matcher.always for rule in self.rules):
            skip = next((position for position, rule in enumerate(self.rules) if not rule.counts), len(self.rules))
            object.__setattr__(self, "_only_chain", Chain(self.steps[: skip + 1]))

    @property
    def properties(self) -> tuple[str, ...]:
        """All properties of the rules, each once, in order."""
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.properties))

    def met(self, value_of: ValueOf) -> tuple[Chain, tuple[Rule, ...]]:
        """Return the chain of the rules that match, and the rules passed over."""
        if self._only_chain is not None:
            return self._only_chain, ()
        positions = []
        passed_over: tuple[Rule, ...] = ()
        decided = self.candidates.decided
        for position in self.candidates.of(value_of):
            rule = self.rules[position]
            if not decided[position] and not rule.matcher.holds(value_of):
                continue
            if rule.count_distinct is not None and value_of(rule.count_distinct) is None:
                passed_over += (rule,)
                continue
            positions.append(position)
            if rule.action is Action.SKIP:
                break
        return self._chain(tuple(positions)), passed_over

    def asking(self, value_of: ValueOf) -> Iterator[str]:
        """Yield each property that :func:`plan` reads, right before it is read here.

        So a caller can load it first, and loads none that the plan does not reach. A name may come more than once.
        """
        for step in self.candidates.asking(value_of):
            if isinstance(step, str):
                yield step
                continue
            rule = self.rules[step]
            if not (yield from rule.matcher.asking(value_of)):
                continue
            if rule.count_distinct is not None:
                yield rule.count_distinct
                if value_of(rule.count_distinct) is None:
                    continue
            yield from rule.characteristics
            if rule.action is Action.SKIP:
                return

    def _chain(self, met: tuple[int, ...]) -> Chain:
        chain = self._chains.get(met)
        if chain is None:
            if len(self._chains) >= MOST_CHAINS:
                self._chains.clear()
            chain = self._chains[met] = Chain([self.steps[position] for position in met])
        return chain


def plan(ruleset: Ruleset, value_of: ValueOf, context: object = None) -> Plan:
    """Return which rules count this call, up to the first skip that matches.

    Calls ``value_of`` for no property of a rule that is not reached. Raises CallableFailed.
    """
    chain, passed_over = ruleset.met(value_of)
    hits = chain.hits(ruleset.keys, value_of, context) if chain.steps else NONE
    return new_tuple(Plan, (ruleset.limiter, ruleset.mode, hits, chain.skip, passed_over))  # type: ignore[no-any-return]


def counter_keys(ruleset: Ruleset, value_of: ValueOf) -> list[str]:
    """Return the keys of all counters of this identifier, including rules after a skip."""
    return [
        step.key(ruleset.keys, value_of)
        for step in ruleset.steps
        if step.rule.counts and step.rule.matcher.holds(value_of)
    ]


def _member(name: str, keys: KeyWriter, value_of: ValueOf) -> str | None:
    text = value_of(name)
    return None if text is None else keys.part(name, text, value_of)


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
        raise CallableFailed.because(_("the limit of rule %(rule)r", rule=rule.name), error) from error


def _period(function: Callable[[object], Any], rule: Rule, context: object) -> int:
    try:
        return parse_duration(function(context))
    except Exception as error:
        raise CallableFailed.because(_("the period of rule %(rule)r", rule=rule.name), error) from error
