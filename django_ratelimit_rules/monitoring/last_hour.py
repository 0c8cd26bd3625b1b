"""The calls of each rule in the last hour, from all processes. Read by the admin.

Every few seconds the background thread reads the metrics of this process, and adds the new calls to one Redis hash per
minute: three numbers for each rule. This adds no time to a request.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .. import rulesets
from ..conf import settings
from ..counters.aliases import current
from ..engine import Action
from ..exceptions import CountersUnavailable
from ..runtime import background, reset
from ..runtime.clock import clock
from . import metrics
from .check_counts import ALL

MINUTES = 60
KEPT_SECONDS = 7200
WRITE_SECONDS = 5.0
FIELDS = ("calls", "exceeded", "blocked")
NOTHING = (0, 0, 0)
NO_CALLS = (0,) * MINUTES

Rows = dict[str, list[int]]


class Totals(NamedTuple):
    """Sums over an hour. ``exceeded`` calls were over the limit, ``blocked`` calls were refused for it."""

    calls: int
    exceeded: int
    blocked: int


@dataclass(frozen=True, slots=True)
class Series:
    """One number per minute for an hour, the oldest first, for each of the three kinds of calls."""

    calls: tuple[int, ...]
    exceeded: tuple[int, ...]
    blocked: tuple[int, ...]

    @property
    def totals(self) -> Totals:
        """The sums over the hour."""
        return Totals(sum(self.calls), sum(self.exceeded), sum(self.blocked))


@dataclass(frozen=True, slots=True)
class LastHour:
    """An hour of a limiter: all its calls, and the calls of each rule that met any.

    ``all.exceeded`` is a lower bound. ``first`` is the POSIX time at which the first minute began. The last minute is
    the current one.
    """

    first: int
    all: Series
    rules: dict[str, Series]

    def of(self, rule: str) -> Series:
        """Return a rule's series, which is all zeros if the rule met no call."""
        return self.rules.get(rule) or _series({}, rule)


class Unwritten(reset.Part):
    """The unwritten numbers of this process, by limiter and minute, and the last state of the metrics."""

    def __init__(self) -> None:
        self._renew_locks()
        self.waiting: dict[tuple[str, int], Rows] = {}
        self._seen: dict[tuple[str, str], tuple[int, int, int]] = {}

    def _renew_locks(self) -> None:
        self._lock = threading.Lock()
        # Held while numbers are sent to Redis, so that a later reader finds them there.
        self._writing = threading.Lock()

    def gather(self, now: float | None = None) -> None:
        """Add the calls since the last time to the minute of ``now``, a POSIX time.

        The default is the current minute.
        """
        with self._lock:
            counted = metrics.counted()
            minute = int(clock.now() if now is None else now) // 60
            for key, numbers in counted.items():
                before = self._seen.get(key, NOTHING)
                if numbers != before and settings.LIVE:
                    limiter, rule = key
                    row = self.waiting.setdefault((limiter, minute), {}).setdefault(rule, [0, 0, 0])
                    for index, number in enumerate(numbers):
                        row[index] += max(0, number - before[index])
            self._seen = counted

    def write(self) -> None:
        """Write the numbers. Numbers that cannot be written are kept for the next time, for up to an hour."""
        self.gather()
        with self._writing:
            with self._lock:
                waiting, self.waiting = self.waiting, {}
            sums = {_name(limiter, minute): _fields(rows) for (limiter, minute), rows in waiting.items()}
            if not sums:
                return
            try:
                current().add(sums, KEPT_SECONDS)
            except CountersUnavailable:
                self.put_back(waiting)

    def put_back(self, numbers: Mapping[tuple[str, int], Rows]) -> None:
        """Keep numbers for the next write, except numbers older than an hour."""
        oldest = int(clock.now()) // 60 - MINUTES
        with self._lock:
            for key, rows in numbers.items():
                if key[1] < oldest:
                    continue
                kept = self.waiting.setdefault(key, {})
                for rule, row in rows.items():
                    kept[rule] = [a + b for a, b in zip(kept.get(rule, NOTHING), row, strict=True)]

    def forget(self) -> None:
        """Forget the numbers, so that no test sees another test's calls."""
        self.gather()
        self.waiting = {}

    def remembers(self) -> bool:
        """Return whether any number is not written yet, here or in the metrics."""
        self.gather()
        return bool(self.waiting)

    def before_fork(self) -> None:
        """Gather the numbers, so that the child does not count them again."""
        self.gather()

    def after_fork(self) -> None:
        """Leave the numbers to the parent, which writes them."""
        self._renew_locks()
        self.waiting = {}
        if metrics.starts_afresh():
            self._seen = {}


unwritten = reset.register("last_hour", Unwritten())
gather = unwritten.gather
write = unwritten.write


def _fields(rows: Rows) -> dict[str, int]:
    named = {f"{rule}:{field}": row[index] for rule, row in rows.items() for index, field in enumerate(FIELDS)}
    return {name: number for name, number in named.items() if number}


def of_limiter(limiter: str) -> LastHour | None:
    """Return the calls of a limiter's rules in the last hour. Returns None if ``RATELIMIT_RULES_LIVE`` is off.

    The numbers of other processes are up to a few seconds old. Raises CountersUnavailable.
    """
    if not settings.LIVE:
        return None
    write()
    now = int(clock.now()) // 60
    minutes = range(now - MINUTES + 1, now + 1)
    numbers = _numbers(current().added([_name(limiter, minute) for minute in minutes]))
    rules = {name: _series(numbers, name) for name in dict.fromkeys(name for name, _ in numbers) if name != ALL}
    of_all = _series(numbers, ALL)
    # In a dry run, only the limits count exceeded calls. Take their maximum instead of their sum, because a call may
    # exceed several limits at once.
    limits = [rule.name for rule in rulesets.get(limiter).rules if rule.action is Action.LIMIT]
    over = [rules[name].exceeded for name in limits if name in rules]
    exceeded = tuple(map(max, zip(of_all.exceeded, *over, strict=True)))
    return LastHour(minutes[0] * 60, Series(of_all.calls, exceeded, of_all.blocked), rules)


def _name(limiter: str, minute: int) -> str:
    return f"live:{limiter}:{minute}"


def _numbers(minutes: Sequence[Mapping[bytes, bytes]]) -> dict[tuple[str, str], list[int]]:
    """Return the numbers of each rule and field, one per minute. Skips values that are not numbers."""
    # One pass in any order, because an hour of a long ruleset is tens of thousands of numbers.
    numbers: dict[bytes, list[int]] = defaultdict(lambda: [0] * MINUTES)
    for minute, stored in enumerate(minutes):
        for field, text in stored.items():
            if text.isdigit() and len(text) < 19:
                numbers[field][minute] = int(text)
    named = ((field.decode(errors="replace").partition(":"), row) for field, row in numbers.items())
    return {(rule, field): row for (rule, _, field), row in named}


def _series(numbers: Mapping[tuple[str, str], list[int]], rule: str) -> Series:
    return Series(*(tuple(numbers.get((rule, field), NO_CALLS)) for field in FIELDS))


def connect() -> None:
    """Register the writes with the background thread. Called once by the app config."""
    background.every(WRITE_SECONDS, write, at_exit=True)
