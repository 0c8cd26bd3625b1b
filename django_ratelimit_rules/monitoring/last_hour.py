"""What each rule met in the last hour, from all processes.

Every few seconds the refresher's thread looks at what the metrics of this process have counted since, and adds it to
one Redis hash per minute: three numbers for each rule. So a request pays nothing for it. Read by the admin.
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
    """Sums over an hour. ``exceeded`` counts what was over the limit, ``blocked`` what was refused for it."""

    calls: int
    exceeded: int
    blocked: int


@dataclass(frozen=True, slots=True)
class Series:
    """One number a minute for an hour, the oldest first, of each of the three kinds."""

    calls: tuple[int, ...]
    exceeded: tuple[int, ...]
    blocked: tuple[int, ...]

    @property
    def totals(self) -> Totals:
        """The sums."""
        return Totals(sum(self.calls), sum(self.exceeded), sum(self.blocked))


@dataclass(frozen=True, slots=True)
class LastHour:
    """An hour of a limiter: all its calls, of which at least ``exceeded`` were over a limit, and those of each rule
    that met any. ``first`` is the POSIX time at which the first minute began; the last one goes on still."""

    first: int
    all: Series
    rules: dict[str, Series]

    def of(self, rule: str) -> Series:
        """Return a rule's series, of zeros when it met no call."""
        return self.rules.get(rule) or _series({}, rule)


class Unwritten(reset.Part):
    """The numbers of this process that are not written yet, by limiter and minute, and what the metrics held last."""

    def __init__(self) -> None:
        self._renew_locks()
        self.waiting: dict[tuple[str, int], Rows] = {}
        self._seen: dict[tuple[str, str], tuple[int, int, int]] = {}

    def _renew_locks(self) -> None:
        self._lock = threading.Lock()
        # Held while numbers are on their way to Redis, so that a reader there finds them afterwards.
        self._writing = threading.Lock()

    def gather(self, now: float | None = None) -> None:
        """Take over what this process counted since the last time, into the minute of ``now``, a POSIX time.

        The default is the minute that runs.
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
        """Write the numbers. Numbers that cannot be written wait for the next time, for an hour."""
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
        """Have numbers wait again, except those that are older than an hour."""
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
        """Return whether any number waits, here or in the metrics."""
        self.gather()
        return bool(self.waiting)

    def before_fork(self) -> None:
        """Take over what was counted, so that the child does not count it again."""
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
    """Return what a limiter's rules met in the last hour; None when ``RATELIMIT_RULES_LIVE`` is off.

    What other processes wrote is at most a few seconds old. Raises CountersUnavailable.
    """
    if not settings.LIVE:
        return None
    write()
    now = int(clock.now()) // 60
    minutes = range(now - MINUTES + 1, now + 1)
    found = _numbers(current().added([_name(limiter, minute) for minute in minutes]))
    rules = {name: _series(found, name) for name in dict.fromkeys(name for name, _ in found) if name != ALL}
    of_all = _series(found, ALL)
    # In a dry run this is what the limits would have refused; by how many limits one call was caught nobody counts.
    limits = [rule.name for rule in rulesets.get(limiter).rules if rule.action is Action.LIMIT]
    over = [rules[name].exceeded for name in limits if name in rules]
    exceeded = tuple(map(max, zip(of_all.exceeded, *over, strict=True)))
    return LastHour(minutes[0] * 60, Series(of_all.calls, exceeded, of_all.blocked), rules)


def _name(limiter: str, minute: int) -> str:
    return f"live:{limiter}:{minute}"


def _numbers(minutes: Sequence[Mapping[bytes, bytes]]) -> dict[tuple[str, str], list[int]]:
    """Return the numbers of each rule and field, one a minute. What is none of ours is left out."""
    # In one pass and as they come: an hour of a long ruleset is ten thousands of them.
    found: dict[bytes, list[int]] = defaultdict(lambda: [0] * MINUTES)
    for minute, stored in enumerate(minutes):
        for field, text in stored.items():
            if text.isdigit() and len(text) < 19:
                found[field][minute] = int(text)
    named = ((field.decode(errors="replace").partition(":"), row) for field, row in found.items())
    return {(rule, field): row for (rule, _, field), row in named}


def _series(numbers: Mapping[tuple[str, str], list[int]], rule: str) -> Series:
    return Series(*(tuple(numbers.get((rule, field), NO_CALLS)) for field in FIELDS))


def connect() -> None:
    """Be called by the refresher; called once by the app config."""
    background.every(WRITE_SECONDS, write, at_exit=True)
