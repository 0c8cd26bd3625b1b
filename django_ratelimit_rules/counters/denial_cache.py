"""Refusals that are certain for a moment, cached in this process, so that a flood of refused calls does not load Redis.

The cache stores the tallies of hits that Redis refused, and returns them for the same hits while the refusal is
certain. This lasts until a full fixed window or a ban ends, at most ``RATELIMIT_RULES_REFRESH_SECONDS``. Then Redis is
asked again. A reset by another process, or a deleted counter, is noticed within that time. An edited rule has new
terms, so Redis is asked at once. The setting ``RATELIMIT_RULES_DENIAL_CACHE`` is the number of cached counters. The
cache is off by default.

Only a refusal by the first rule that counts is cached, because counters before it would have to count each call. Calls
that are answered here are added to the refusing counter's ``count`` when Redis is asked next.

A call with the same identifier, compared by :func:`who`, is not even planned again: :func:`again` returns the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from time import monotonic
from typing import Any, NamedTuple, cast

from ..conf import settings
from ..engine import (
    Hit,
    Hits,
    Plan,
    Ruleset,
    Tally,
)
from ..engine.calls import SAFE
from ..engine.plans import Terms, new_tuple
from ..engine.results import Number
from ..runtime import reset
from ..runtime.steps import Steps
from . import CHARGE, CHECK, Store, Verb
from .redis import RedisCounters

# The number of cached refusals for the setting True.
MANY = 10_000
# Identifiers with longer values are not cached, to bound the memory.
MAX_VALUE = 200

Who = tuple[Any, ...]


class Denial:
    """One counter's refusal.

    ``cost`` is the smallest cost that the counter refuses. ``missed`` is the cost of calls that were refused without
    Redis. ``until`` is the end of the refusal in seconds of the monotonic clock, and 0 once it has left the cache.
    """

    __slots__ = ("adds", "cost", "ends", "missed", "tally", "terms", "until")

    def __init__(self, terms: Terms, cost: Number, tally: Tally, asked: float) -> None:
        self.terms = terms
        self.cost = 0 if tally.banned else cost
        self.tally = tally
        # Count from the time before Redis was asked, so that the refusal ends slightly too early rather than too late.
        self.ends = asked + tally.reset_ms / 1000
        self.until = min(self.ends, asked + settings.REFRESH_SECONDS)
        self.missed: Number = 0
        # A counter without a tally of refused calls reports `used` plus this call's cost during a ban.
        self.adds = tally.banned and not terms.rule.counting.tallies_refusals and not terms.looked

    def applies(self, hits: Hits, cost: Number, now: float) -> bool:
        """Return whether Redis would refuse this call too. A callable's computed terms are a new object each time."""
        return now < self.until and hits.terms[0] is self.terms and cost >= self.cost

    def tally_now(self, cost: Number, now: float) -> Tally:
        """Count a call and return the tally that Redis would return."""
        tally, left = self.tally, ceil((self.ends - now) * 1000)
        count, retry = tally.count + self.missed, tally.retry_ms if tally.retry_ms < left else left
        if not tally.banned:
            if not self.terms.looked:
                self.missed += cost
                count += cost
            if cost > self.terms.limit:
                retry = -1
        elif self.adds:
            count = tally.used + cost
        return cast(Tally, new_tuple(Tally, (tally.used, count, tally.exceeded, tally.banned, left, retry)))


class Denials(RedisCounters):
    """Counters in Redis with cached refusals. If there are too many refusals, the newest are kept."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self._kept: dict[str, Denial] = {}

    def start_afresh(self) -> None:
        """Replace the breaker and drop the refusals. After a fork the parent adds its refusals to the counts."""
        super().start_afresh()
        self._kept = {}

    def counting(
        self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = CHECK, missed: Number = 0, *, blocking: bool = False
    ) -> Steps[list[Tally]]:
        """Return the steps of :meth:`hit`: none for a cached refusal, otherwise the steps in Redis."""
        if verb is not CHECK or type(hits) is not Hits:
            self._outdate(hits, verb)
            return (yield from super().counting(hits, cost, verb, blocking=blocking))
        name, asked = self.namespace() + hits.keys[0], monotonic()
        refused = self._refused(name, hits, cost, asked)
        if refused is not None:
            return refused
        tallies = yield from super().counting(hits, cost, verb, self._missed(name), blocking=blocking)
        return self._cached(name, hits, cost, asked, tallies)

    def forgetting(self, keys: Iterable[str]) -> Steps[int]:
        """Return the steps of :meth:`reset`, which also drops the counters' refusals."""
        return (yield from super().forgetting(self._dropped(keys)))

    def clear(self, limiter: str | None = None) -> int:
        """Delete counters as in Redis, and drop all refusals."""
        for name in list(self._kept):
            self._drop(name)
        return super().clear(limiter)

    def _refused(self, name: str, hits: Hits, cost: Number, now: float) -> list[Tally] | None:
        """Return the tallies that Redis would return. Returns None if Redis has to be asked."""
        denial = self._kept.get(name)
        if denial is None or not denial.applies(hits, cost, now):
            return None
        return [denial.tally_now(cost, now)]

    def _missed(self, name: str) -> Number:
        """Drop a refusal. Return the cost of calls refused here since Redis was asked last, which Redis will add."""
        denial = self._drop(name)
        return denial.missed if denial is not None else 0

    def _cached(self, name: str, hits: Hits, cost: Number, asked: float, tallies: list[Tally]) -> list[Tally]:
        """Cache a refusal of Redis if it is certain for some time. Return the tallies."""
        terms = hits.terms[0]
        if len(tallies) > 1 or not (tallies[0].exceeded and terms.enforced) or cost == 0:
            return tallies
        if terms.rule.counting.full_until_reset or tallies[0].banned:
            while len(self._kept) >= self.most():
                self._drop(next(iter(self._kept)))
            self._kept[name] = Denial(terms, cost, tallies[0], asked)
        return tallies

    def _outdate(self, hits: Sequence[Hit], verb: Verb) -> None:
        """End the refusals of counters that are charged, because their usage changes. Redis is asked next."""
        for name in self._names(hit.key for hit in hits) if verb is CHARGE and self._kept else ():
            denial = self._kept.get(name)
            if denial is not None:
                denial.until = 0.0

    def _dropped(self, keys: Iterable[str]) -> list[str]:
        """Drop the refusals of counters. Return the keys of the counters."""
        keys = list(keys)
        for name in self._names(keys):
            self._drop(name)
        return keys

    def _drop(self, name: str) -> Denial | None:
        denial = self._kept.pop(name, None)
        if denial is not None:
            denial.until = 0.0
        return denial

    def remembers(self) -> bool:
        """Return whether the last call to Redis failed, or any refusal is cached."""
        return bool(self._kept) or super().remembers()

    def most(self) -> int:
        """Return the highest number of cached refusals."""
        number = settings.DENIAL_CACHE
        # An invalid setting must not raise at the first refusal, because web servers do not run system checks.
        return number if type(number) is int and number > 0 else MANY

    def denial(self, hits: Hits) -> Denial | None:
        """Return the cached refusal of a call. Returns None if no refusal is cached."""
        return self._kept.get(self.namespace() + hits.keys[0])


class Asked(NamedTuple):
    """A refused call, with its plan."""

    denial: Denial
    ruleset: Ruleset
    plan: Plan


class Refusals(reset.Part):
    """The calls that were refused lately, by their limiter and identifier."""

    def __init__(self) -> None:
        self.asked: dict[Who, Asked] = {}

    def forget(self) -> None:
        """Drop the calls, because other rules or settings may give them another plan."""
        self.asked.clear()

    def after_fork(self) -> None:
        """Drop the calls, because their denials belong to the parent."""
        self.forget()

    def setting_changed(self, name: str) -> None:
        """Drop the calls after any change, because every setting may change a plan."""
        self.forget()

    def remembers(self) -> bool:
        """Return whether any call is cached."""
        return bool(self.asked)


refusals = reset.register("counters.denial_cache", Refusals())


def who(limiter: str, identifier: Mapping[str, Any]) -> Who | None:
    """Return a key that is equal for calls of one limiter with the same identifier.

    Returns None if the cache is off, or if building the key would take too long. Also returns None if traffic is
    recorded, because the record must contain every call. The only numbers in a key are integers: to Python 1, 1.0 and
    True are equal, but they are different values.
    """
    if not settings.DENIAL_CACHE or settings.RECORD or type(identifier) is not dict:
        return None
    for value in identifier.values():
        if (type(value) is not str or len(value) > MAX_VALUE) and type(value) is not int:
            return None
    return (limiter, *identifier.items())


def again(who: Who, cost: Number, now: float) -> Asked | None:
    """Return a refused call if it would be refused again. Otherwise returns None."""
    asked = refusals.asked.get(who)
    if asked is not None:
        denial = asked.denial
        if now < denial.until and type(cost) is int and denial.cost <= cost < SAFE:
            return asked
    return None


def remember(counters: Store, who: Who, ruleset: Ruleset, plan: Plan) -> None:
    """Cache the plan of a refused call, if its refusal is cached and every call with this key has the same plan."""
    hits = plan.hits
    static = hits.chain is not None and hits.chain.terms is not None
    if static and isinstance(counters, Denials) and counters.has_one_namespace():
        denial = counters.denial(hits)
        if denial is not None:
            if len(refusals.asked) >= counters.most():
                refusals.forget()
            refusals.asked[who] = Asked(denial, ruleset, plan)


def forget(**_: object) -> None:
    """Drop the calls, because other rules are in force."""
    refusals.forget()
