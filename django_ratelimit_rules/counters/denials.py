"""Refusals that stay certain for a moment, answered in this process: a flood of refused calls then costs Redis nothing.

Hits that Redis refused go in with what it said; for the same hits the tallies come out again while the refusal must
stand: a fixed window that is full or a ban, until it ends, and never longer than ``RATELIMIT_RULES_REFRESH_SECONDS``,
after which Redis is asked once more. So a reset in another process or a counter gone there is noticed in that time; an
edited rule has other terms and is asked about at once. Off unless ``RATELIMIT_RULES_DENIAL_CACHE`` says for how many
counters.

Only a refusal by the first rule that counts is kept: counters before it would have to be told of each call. The calls
answered here are added to the refusing counter's ``count`` when Redis is asked next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from time import monotonic

from ..conf import settings
from ..engine import Algorithm, Hit, Hits, Tally
from ..engine.plans import Terms, new_tuple
from ..engine.results import Number
from . import CHECK, Verb
from .redis import RedisCounters

# For those who only say True.
MANY = 10_000


class Denial:
    """One counter's refusal. ``cost`` is the smallest that it refuses; ``missed`` what it refused without Redis."""

    __slots__ = ("cost", "ends", "missed", "tally", "terms", "until")

    def __init__(self, terms: Terms, cost: Number, tally: Tally, asked: float) -> None:
        self.terms = terms
        self.cost = 0 if tally.banned else cost
        self.tally = tally
        # Counted from before Redis was asked: rather a little too early than too late.
        self.ends = asked + tally.reset_ms / 1000
        self.until = min(self.ends, asked + settings.REFRESH_SECONDS)
        self.missed: Number = 0

    def stands(self, hits: Hits, cost: Number, now: float) -> bool:
        """Whether Redis would refuse this call too. Terms that a callable computed are never the same object twice."""
        return now < self.until and hits.terms[0] is self.terms and cost >= self.cost

    def refuse(self, cost: Number, now: float) -> list[Tally]:
        """Return what Redis would say."""
        used, count, _, banned, _, retry = self.tally
        if not banned and not self.terms.looked:
            self.missed += cost
        left = ceil((self.ends - now) * 1000)
        never = not banned and cost > self.terms.limit
        return [new_tuple(Tally, (used, count + self.missed, True, banned, left, -1 if never else min(retry, left)))]


class Denials(RedisCounters):
    """Counters in Redis, asked only about what is not certain. Keeps the newest refusals when there are too many."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self._kept: dict[str, Denial] = {}

    def hit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = CHECK, missed: Number = 0) -> list[Tally]:
        """As in Redis, but for refusals that must stand still."""
        if verb is not CHECK or type(hits) is not Hits:
            return super().hit(hits, cost, verb)
        name, asked = self.namespace() + hits.keys[0], monotonic()
        refused = self._refused(name, hits, cost, asked)
        if refused is not None:
            return refused
        return self._noted(name, hits, cost, asked, super().hit(hits, cost, verb, self._missed(name)))

    async def ahit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = CHECK, missed: Number = 0) -> list[Tally]:
        """As :meth:`hit`, waiting on the running event loop."""
        if verb is not CHECK or type(hits) is not Hits:
            return await super().ahit(hits, cost, verb)
        name, asked = self.namespace() + hits.keys[0], monotonic()
        refused = self._refused(name, hits, cost, asked)
        if refused is not None:
            return refused
        return self._noted(name, hits, cost, asked, await super().ahit(hits, cost, verb, self._missed(name)))

    def reset(self, keys: Iterable[str]) -> int:
        """As in Redis, and forget what was refused here."""
        return super().reset(self._dropped(keys))

    async def areset(self, keys: Iterable[str]) -> int:
        """As :meth:`reset`, waiting on the running event loop."""
        return await super().areset(self._dropped(keys))

    def clear(self, limiter: str | None = None) -> int:
        """As in Redis, and forget all refusals."""
        self._kept.clear()
        return super().clear(limiter)

    def _refused(self, name: str, hits: Hits, cost: Number, now: float) -> list[Tally] | None:
        """Return what Redis would say, None when it has to be asked."""
        denial = self._kept.get(name)
        return denial.refuse(cost, now) if denial is not None and denial.stands(hits, cost, now) else None

    def _missed(self, name: str) -> Number:
        """Return what was refused here since Redis was asked last, to be told to it now."""
        denial = self._kept.pop(name, None)
        return denial.missed if denial is not None else 0

    def _noted(self, name: str, hits: Hits, cost: Number, asked: float, tallies: list[Tally]) -> list[Tally]:
        """Keep a refusal that Redis just answered, if it must stand for a while; return the tallies."""
        terms = hits.terms[0]
        if len(tallies) > 1 or not (tallies[0].exceeded and terms.enforced) or cost == 0:
            return tallies
        full = terms.rule.algorithm is Algorithm.FIXED_WINDOW and terms.rule.count_distinct is None
        if full or tallies[0].banned:
            most = MANY if settings.DENIAL_CACHE is True else settings.DENIAL_CACHE
            while len(self._kept) >= most:
                self._kept.pop(next(iter(self._kept)), None)
            self._kept[name] = Denial(terms, cost, tallies[0], asked)
        return tallies

    def _dropped(self, keys: Iterable[str]) -> list[str]:
        """Forget the refusals of counters; return their keys."""
        keys = list(keys)
        for name in self._names(keys):
            self._kept.pop(name, None)
        return keys
