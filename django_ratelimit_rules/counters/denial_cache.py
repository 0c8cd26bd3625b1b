"""Refusals that stay certain for a moment, answered in this process: a flood of refused calls then costs Redis nothing.

Hits that Redis refused go in with what it said; for the same hits the tallies come out again while the refusal must
stand: a fixed window that is full or a ban, until it ends, and never longer than ``RATELIMIT_RULES_REFRESH_SECONDS``,
after which Redis is asked once more. So a reset in another process or a counter gone there is noticed in that time; an
edited rule has other terms and is asked about at once. Off unless ``RATELIMIT_RULES_DENIAL_CACHE`` says for how many
counters.

Only a refusal by the first rule that counts is kept: counters before it would have to be told of each call. The calls
answered here are added to the refusing counter's ``count`` when Redis is asked next.

Whoever asks the very same again, by :func:`who`, is not even planned for: :func:`again` has the result.
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

# For those who only say True.
MANY = 10_000
# Longer values are not kept to know their callers by.
MAX_VALUE = 200

Who = tuple[Any, ...]


class Denial:
    """One counter's refusal. ``cost`` is the smallest that it refuses; ``missed`` what it refused without Redis;
    ``until`` when it stands no longer, which is at once when it leaves the cache."""

    __slots__ = ("adds", "cost", "ends", "missed", "tally", "terms", "until")

    def __init__(self, terms: Terms, cost: Number, tally: Tally, asked: float) -> None:
        self.terms = terms
        self.cost = 0 if tally.banned else cost
        self.tally = tally
        # Counted from before Redis was asked: rather a little too early than too late.
        self.ends = asked + tally.reset_ms / 1000
        self.until = min(self.ends, asked + settings.REFRESH_SECONDS)
        self.missed: Number = 0
        # A counter without a tally of refused calls reports `used` plus this call's cost during a ban.
        self.adds = tally.banned and not terms.rule.counting.tallies_refusals and not terms.looked

    def stands(self, hits: Hits, cost: Number, now: float) -> bool:
        """Whether Redis would refuse this call too. Terms that a callable computed are never the same object twice."""
        return now < self.until and hits.terms[0] is self.terms and cost >= self.cost

    def tally_now(self, cost: Number, now: float) -> Tally:
        """Count a call, and return the tally that Redis would return then."""
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
    """Counters in Redis, asked only about what is not certain. Keeps the newest refusals when there are too many."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self._kept: dict[str, Denial] = {}

    def begin_anew(self) -> None:
        """As in Redis. Refusals counted here are dropped; after a fork the parent reports its own to Redis."""
        super().begin_anew()
        self._kept = {}

    def counting(
        self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = CHECK, missed: Number = 0, *, blocking: bool = False
    ) -> Steps[list[Tally]]:
        """As in Redis, but for refusals that must stand still."""
        if verb is not CHECK or type(hits) is not Hits:
            self._outdate(hits, verb)
            return (yield from super().counting(hits, cost, verb, blocking=blocking))
        name, asked = self.namespace() + hits.keys[0], monotonic()
        refused = self._refused(name, hits, cost, asked)
        if refused is not None:
            return refused
        tallies = yield from super().counting(hits, cost, verb, self._missed(name), blocking=blocking)
        return self._noted(name, hits, cost, asked, tallies)

    def forgetting(self, keys: Iterable[str]) -> Steps[int]:
        """As in Redis, and forget what was refused here."""
        return (yield from super().forgetting(self._dropped(keys)))

    def clear(self, limiter: str | None = None) -> int:
        """As in Redis, and forget all refusals."""
        for name in list(self._kept):
            self._drop(name)
        return super().clear(limiter)

    def _refused(self, name: str, hits: Hits, cost: Number, now: float) -> list[Tally] | None:
        """Return what Redis would say, None when it has to be asked."""
        denial = self._kept.get(name)
        if denial is None or not denial.stands(hits, cost, now):
            return None
        return [denial.tally_now(cost, now)]

    def _missed(self, name: str) -> Number:
        """Return what was refused here since Redis was asked last, to be told to it now."""
        denial = self._drop(name)
        return denial.missed if denial is not None else 0

    def _noted(self, name: str, hits: Hits, cost: Number, asked: float, tallies: list[Tally]) -> list[Tally]:
        """Keep a refusal that Redis just answered, if it must stand for a while; return the tallies."""
        terms = hits.terms[0]
        if len(tallies) > 1 or not (tallies[0].exceeded and terms.enforced) or cost == 0:
            return tallies
        if terms.rule.counting.full_until_reset or tallies[0].banned:
            while len(self._kept) >= self.most():
                self._drop(next(iter(self._kept)))
            self._kept[name] = Denial(terms, cost, tallies[0], asked)
        return tallies

    def _outdate(self, hits: Sequence[Hit], verb: Verb) -> None:
        """Have Redis asked next about counters that are charged: what is used of them is another number then."""
        for name in self._names(hit.key for hit in hits) if verb is CHARGE and self._kept else ():
            denial = self._kept.get(name)
            if denial is not None:
                denial.until = 0.0

    def _dropped(self, keys: Iterable[str]) -> list[str]:
        """Forget the refusals of counters; return their keys."""
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
        """As in Redis, and whether any refusal is kept."""
        return bool(self._kept) or super().remembers()

    def most(self) -> int:
        """Return how many refusals are kept at most."""
        many = settings.DENIAL_CACHE
        # What is no number must not fail the first call that is refused: web servers run no checks.
        return many if type(many) is int and many > 0 else MANY

    def denial(self, hits: Hits) -> Denial | None:
        """Return the refusal that is kept of a call, if there is one."""
        return self._kept.get(self.namespace() + hits.keys[0])


class Asked(NamedTuple):
    """A call that was refused, and how it was planned."""

    denial: Denial
    ruleset: Ruleset
    plan: Plan


class Refusals(reset.Part):
    """The calls that were refused lately, by their callers."""

    def __init__(self) -> None:
        self.asked: dict[Who, Asked] = {}

    def forget(self) -> None:
        """Forget the calls, because under other rules or settings they may be planned in another way."""
        self.asked.clear()

    def after_fork(self) -> None:
        """Leave the calls to the parent, whose denials the child does not have."""
        self.forget()

    def setting_changed(self, name: str) -> None:
        """Forget the calls whatever the setting is, because any may change a plan."""
        self.forget()

    def remembers(self) -> bool:
        """Return whether any call is kept."""
        return bool(self.asked)


refusals = reset.register("counters.denial_cache", Refusals())


def who(limiter: str, identifier: Mapping[str, Any]) -> Who | None:
    """Return what is equal for calls that ask the same; None where that would take too long to find out, where nothing
    is kept, and where traffic is recorded: a record must hear of every call.

    Of numbers only whole ones: to Python 1, 1.0 and True are equal, but they are different values.
    """
    if not settings.DENIAL_CACHE or settings.RECORD or type(identifier) is not dict:
        return None
    for value in identifier.values():
        if (type(value) is not str or len(value) > MAX_VALUE) and type(value) is not int:
            return None
    return (limiter, *identifier.items())


def again(who: Who, cost: Number, now: float) -> Asked | None:
    """Return a call that was refused lately and must be refused still."""
    asked = refusals.asked.get(who)
    if asked is not None:
        denial = asked.denial
        if now < denial.until and type(cost) is int and denial.cost <= cost < SAFE:
            return asked
    return None


def remember(counters: Store, who: Who, ruleset: Ruleset, plan: Plan) -> None:
    """Remember how a call was planned, if its refusal is kept and every call of the kind is planned so."""
    hits = plan.hits
    static = hits.chain is not None and hits.chain.terms is not None
    if static and isinstance(counters, Denials) and counters.has_one_namespace():
        denial = counters.denial(hits)
        if denial is not None:
            if len(refusals.asked) >= counters.most():
                refusals.forget()
            refusals.asked[who] = Asked(denial, ruleset, plan)


def forget(**_: object) -> None:
    """Forget the calls, because other rules are in force."""
    refusals.forget()
