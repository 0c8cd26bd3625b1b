"""Counters in this process: the same contract and arithmetic as ``hit.lua``, with a clock that callers may pass.

They serve tests, the failure mode ``local`` and the replay of traffic. Processes do not share them. ``READERS`` and
``WRITERS`` have one function for each row of ``engine/algorithms.py``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor

from ..engine import Hit, Tally
from ..engine.algorithms import DISTINCT_VALUES, FIXED_WINDOW, SLIDING_WINDOW, TOKEN_BUCKET
from ..engine.results import Number
from ..runtime.steps import Steps
from . import Verb

LARGEST, SAFE, LONGEST = 1.7e308, 2.0**53, 31_536_000_000_000
SWEEP_EVERY = 4096


@dataclass(slots=True)
class Counter:
    """A stored counter. ``expires`` and ``banned_until`` are times in milliseconds of the store's clock.

    ``banned_until`` is 0 without a ban.
    """

    expires: float = 0
    banned_until: float = 0
    used: Number = 0
    count: Number = 0
    period: int = 0
    index: int = 0
    previous: Number = 0
    updated: float = 0
    fractional: bool = False
    members: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Look:
    """The values that reading one counter returned, and the values that writing it needs.

    The stored counter must not expire before ``needed_until``, unless the call is a peek.
    """

    hit: Hit
    period: int
    counter: Counter | None
    used: Number = 0
    count: Number = 0
    reset: float = 0
    retry: float = 0
    exceeded: bool = False
    banned: bool = False
    index: int = 0
    previous: Number = 0
    current: Number = 0
    known: bool = False
    needed_until: float = 0

    def judge(self, now: float, over: bool, cost: Number, wait: float) -> None:
        """Decide whether the call exceeds the limit, and how long the client would have to wait."""
        limit = self.hit.limit
        if self.counter is not None and self.counter.banned_until > now:
            self.exceeded = self.banned = True
            self.reset = self.retry = self.counter.banned_until - now
        elif over or limit == 0:
            self.exceeded = True
            self.retry = -1 if limit == 0 or cost > limit else wait

    def tally(self) -> Tally:
        """Return the tally of this counter."""
        reset, retry = int(self.reset), int(self.retry)
        return Tally(_number(self.used), _number(self.count), self.exceeded, self.banned, reset, retry)


def _steady_clock() -> Callable[[], float]:
    """Return a clock that starts at this machine's time and ignores later changes of that time.

    A clock that is set forward would give clients fresh quota. A clock that is set back would make clients
    wait for longer than a period.
    """
    start = time.time() - time.monotonic()
    return lambda: (start + time.monotonic()) * 1000


class MemoryCounters:
    """Counters in a dictionary. Thread-safe.

    ``clock`` returns milliseconds. The default clock starts at this machine's time and ignores later changes of it.
    ``max_counters`` bounds the memory: above it, the oldest counters are dropped. ``sweeps`` is the number of searches
    for expired counters.
    """

    def __init__(self, clock: Callable[[], float] | None = None, max_counters: int = 100_000) -> None:
        self._clock = clock or _steady_clock()
        self._counters: dict[str, Counter] = {}
        self.lock = threading.Lock()
        self._max = max_counters
        self._until_sweep = SWEEP_EVERY
        self.sweeps = 0

    def hit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = Verb.CHECK) -> list[Tally]:
        """Count one call in a chain of hits, as Counters describes it."""
        with self.lock:
            now = floor(self._clock())
            self._sweep(now)
            looks = []
            blocked = False
            for hit in hits:
                looks.append(self._read(hit, cost, now))
                if verb is not Verb.CHARGE and looks[-1].exceeded and hit.enforced:
                    blocked = True
                    break
            if verb is not Verb.PEEK:
                for look in looks:
                    self._settle(look, cost, now, verb, blocked)
            return [look.tally() for look in looks]

    def reset(self, keys: Iterable[str]) -> int:
        """Delete counters. Return how many there were."""
        with self.lock:
            now = floor(self._clock())
            removed = [self._counters.pop(key, None) for key in set(keys)]
            # As in Redis, a key exists until the end of its last millisecond.
            return sum(counter is not None and counter.expires >= now for counter in removed)

    async def ahit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = Verb.CHECK) -> list[Tally]:
        """Async version of :meth:`hit`. It never waits."""
        return self.hit(hits, cost, verb)

    async def areset(self, keys: Iterable[str]) -> int:
        """Async version of :meth:`reset`."""
        return self.reset(keys)

    def counting(
        self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = Verb.CHECK, *, blocking: bool = False
    ) -> Steps[list[Tally]]:
        """Return the steps of :meth:`hit`: none."""
        yield from ()
        return self.hit(hits, cost, verb)

    def forgetting(self, keys: Iterable[str]) -> Steps[int]:
        """Return the steps of :meth:`reset`: none."""
        yield from ()
        return self.reset(keys)

    def unlock(self) -> None:
        """Make a new lock, because in a forked child the old lock may be held by a thread that does not exist there."""
        self.lock = threading.Lock()

    def clear(self, limiter: str | None = None) -> int:
        """Delete all counters of one limiter, or of all limiters. Return how many there were."""
        with self.lock:
            now = floor(self._clock())
            cleared = [key for key in self._counters if limiter is None or key.startswith(beginnings(limiter))]
            return sum(self._counters.pop(key).expires >= now for key in cleared)

    def size(self) -> int:
        """Return the number of counters in memory, including expired counters until the next sweep."""
        return len(self._counters)

    def expiries(self) -> dict[str, float]:
        """Return the milliseconds until each counter expires, without expired counters."""
        now = self._clock()
        with self.lock:
            return {key: counter.expires - now for key, counter in self._counters.items() if counter.expires > now}

    def _sweep(self, now: float) -> None:
        self._until_sweep -= 1
        if self._until_sweep and len(self._counters) < self._max:
            return
        self._until_sweep = SWEEP_EVERY
        self.sweeps += 1
        self._counters = {key: counter for key, counter in self._counters.items() if counter.expires > now}
        if len(self._counters) >= self._max:
            # Drop a quarter at once. Making room for one counter at a time would cost a sweep on every call.
            for key in list(self._counters)[: len(self._counters) - self._max * 3 // 4]:
                del self._counters[key]

    def _settle(self, look: Look, cost: Number, now: int, verb: Verb, blocked: bool) -> None:
        hit = look.hit
        if look.counter is not None and look.needed_until > look.counter.expires:
            look.counter.expires = look.needed_until
        if look.banned and verb is Verb.CHECK and not hit.rule.counting.tallies_refusals and not hit.looked:
            # The algorithm does not count refused calls, so during a ban report `used` plus this call's cost.
            look.count = _plus(look.used, cost)
        if look.banned or (cost == 0 and hit.member is None):
            return
        if verb is Verb.CHARGE:
            self._write(look, cost, now, charged=True, ban=0)
            return
        ban = (hit.rule.ban_for or 0) * 1000 if look.exceeded else 0
        if not hit.looked or ban:
            self._write(look, cost, now, charged=not (blocked or look.exceeded or hit.looked), ban=ban)
        if ban:
            look.banned = True
            look.reset = look.retry = ban

    def _read(self, hit: Hit, cost: Number, now: int) -> Look:
        counter = self._counters.get(hit.key)
        if counter is not None and counter.expires <= now:
            counter = None
        look = Look(hit, hit.period * 1000, counter)
        READERS[hit.rule.counting](look, cost, now)
        return look

    def _write(self, look: Look, cost: Number, now: int, charged: bool, ban: int) -> None:
        hit, counter = look.hit, look.counter or Counter(expires=now + look.period)
        if not WRITERS[hit.rule.counting](look, counter, cost, now, charged, ban):
            return
        if ban:
            counter.banned_until = now + ban
            counter.expires = max(counter.expires, now + ban)
        if look.counter is None:
            self._counters.pop(hit.key, None)
        self._counters[hit.key] = counter


def beginnings(limiter: str) -> tuple[str, str]:
    """Return the two prefixes of the keys of a limiter's counters: without a partition, and with a partition."""
    return "{" + limiter + "}", "{" + limiter + "|"


def _read_fixed(look: Look, cost: Number, now: int) -> None:
    look.reset = look.period
    if look.counter is not None:
        look.used, look.count, look.reset = look.counter.used, look.counter.count, look.counter.expires - now
    look.judge(now, _plus(look.used, cost) > look.hit.limit, cost, look.reset)


def _write_fixed(look: Look, counter: Counter, cost: Number, now: int, charged: bool, ban: int) -> bool:
    if charged:
        look.used = _plus(look.used, cost)
    if charged or not look.hit.looked:
        look.count = _plus(look.count, cost)
    counter.used, counter.count = look.used, look.count
    return True


def _read_sliding(look: Look, cost: Number, now: int) -> None:
    period, limit, stored = look.period, look.hit.limit, look.counter
    look.index = now // period
    elapsed = now - look.index * period
    if stored is not None and stored.period == period:
        if stored.index > look.index:
            look.index, elapsed = stored.index, 0
        if stored.index == look.index:
            look.previous, look.current = stored.previous, stored.used
        elif stored.index == look.index - 1:
            look.previous = stored.used
    # Compute in floats, because Lua does. Lua may round infinity down.
    carried = min(float(look.previous) * (period - elapsed) / period, LARGEST)
    look.used = look.count = _plus(floor(carried), look.current)
    look.reset = period - elapsed
    # A call that costs more than the limit is never allowed, and `judge` returns -1 for its wait.
    fitting = min(cost, limit)
    room = _plus(limit - fitting, -look.current)
    if room >= 0:
        wait = floor(period - (floor(room) + 1) * float(period) / max(look.previous, 1)) + 1 - elapsed
    else:
        fade = floor(period - (floor(_plus(limit, -fitting)) + 1) * float(period) / max(look.current, 1)) + 1
        wait = period - elapsed + max(0, fade)
    look.judge(now, _plus(look.used, cost) > limit, cost, wait)


def _write_sliding(look: Look, counter: Counter, cost: Number, now: int, charged: bool, ban: int) -> bool:
    if charged:
        look.current = _plus(look.current, cost)
        look.used = look.count = _plus(look.used, cost)
    elif look.exceeded and not look.hit.looked:
        look.count = _plus(look.used, cost)
    if not (charged or ban):
        return False
    counter.period, counter.index, counter.previous, counter.used = look.period, look.index, look.previous, look.current
    # Keep the counter through the next window only if something was charged in this one. It may exist for a ban alone.
    windows = 2 if look.current else 1 if look.previous else 0
    counter.expires = (look.index + windows) * look.period
    return True


def _read_bucket(look: Look, cost: Number, now: int) -> None:
    period, limit, stored = look.period, look.hit.limit, look.counter
    units: Number = 0
    if stored is not None:
        units = stored.used
        if stored.period != period:
            units = ceil(min(float(units) * period / stored.period, LARGEST))
        units = max(0, units - max(0, now - stored.updated) * limit)
    look.current = units
    fractional = stored is not None and stored.fractional
    look.used = look.count = _level(units, period, fractional)
    look.reset = _time_to_full(units, limit, period)
    # If the rule's rate was lowered, the bucket becomes full later than its counter was set to expire.
    look.needed_until = now + look.reset
    over = _plus(units, _plus(cost * period, 0)) - limit * period
    look.judge(now, over > 0, cost, min(ceil(over / limit), LONGEST) if limit else 0)


def _write_bucket(look: Look, counter: Counter, cost: Number, now: int, charged: bool, ban: int) -> bool:
    if charged:
        counter.fractional = counter.fractional or cost != floor(cost)
        look.current = _plus(look.current, _plus(cost * look.period, 0))
        look.used = look.count = _level(look.current, look.period, counter.fractional)
        look.reset = _time_to_full(look.current, look.hit.limit, look.period)
    elif look.exceeded and not look.hit.looked:
        look.count = _plus(look.used, cost)
    if not (charged or ban):
        return False
    counter.used, counter.period, counter.updated = look.current, look.period, now
    counter.expires = now + max(_time_to_full(look.current, look.hit.limit, look.period), 1)
    return True


def _time_to_full(units: Number, limit: int, period: int) -> int:
    return min(ceil(units / limit), LONGEST) if limit else period if units else 0


def _level(units: Number, period: int, fractional: bool) -> Number:
    return _plus(units / period, 0) if fractional else ceil(units / period)


def _read_distinct(look: Look, cost: Number, now: int) -> None:
    limit = look.hit.limit
    look.reset = look.period
    if look.counter is not None:
        look.used = look.count = len(look.counter.members)
        look.known = look.hit.member in look.counter.members
        look.reset = look.counter.expires - now
    if limit == 0 or (not look.known and look.used + 1 > limit):
        look.exceeded = True
        look.retry = -1 if limit == 0 else look.reset


def _write_distinct(look: Look, counter: Counter, cost: Number, now: int, charged: bool, ban: int) -> bool:
    if look.exceeded:
        # With other algorithms a charge may pass the limit. Here at most `limit` values are ever stored.
        look.count = look.used + (0 if charged or look.hit.looked else 1)
        return False
    if not charged or look.known or look.hit.member is None:
        return False
    counter.members.add(look.hit.member)
    look.used = look.count = look.used + 1
    return True


Reader = Callable[[Look, Number, int], None]
Writer = Callable[[Look, Counter, Number, int, bool, int], bool]

# By the algorithm of a hit's rule, see `Rule.counting`. A reader takes the cost and the time in milliseconds, and
# decides. A writer also takes whether the call is charged, and the milliseconds of a ban that begins (0 without one).
# It returns whether the counter has to be stored.
READERS: dict[str, Reader] = {
    FIXED_WINDOW: _read_fixed,
    SLIDING_WINDOW: _read_sliding,
    TOKEN_BUCKET: _read_bucket,
    DISTINCT_VALUES: _read_distinct,
}
WRITERS: dict[str, Writer] = {
    FIXED_WINDOW: _write_fixed,
    SLIDING_WINDOW: _write_sliding,
    TOKEN_BUCKET: _write_bucket,
    DISTINCT_VALUES: _write_distinct,
}


def _plus(a: Number, b: Number) -> Number:
    """Return a sum without the rounding errors of binary fractions, so that ten calls of 0.7 fit a limit of 7."""
    total = min(a + b, LARGEST)
    if isinstance(total, int) or total % 1 == 0 or total >= SAFE:
        return total
    return floor(total * 1e9 + 0.5) / 1e9


def _number(number: Number) -> Number:
    return int(number) if isinstance(number, float) and number.is_integer() else number
