"""Which limits traffic suggests: how many calls each counter met in each window, and what a limit would refuse.

Rules that say what to count (match, characteristics, period) and recorded traffic go in, or what live counters say; a
:class:`Distribution` comes out. A window begins with the first call behind the one before, refused calls never lengthen
it, and a refused call is charged to no one: so what a fixed window of any limit would refuse is known exactly.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat
from math import ceil

from ..engine import (
    Action,
    Algorithm,
    Rule,
    Ruleset,
    check_unique_names,
)
from ..engine.durations import parse_duration
from ..engine.matching import Match
from ..engine.results import Number
from ..engine.rules import MAX_LIMIT
from .plan_cache import Chains
from .report import static
from .traffic.batches import Order, Reader, in_order

PERCENTILES = (50, 95, 99)
# Shares of refused clients, in percent, that a table shows.
SHARES = (0.0, 0.1, 0.5, 1.0, 5.0)


class Distribution:
    """Calls by counter and window. ``windows`` are how many windows met a number of calls; ``busiest`` what each
    counter's busiest window met, in order."""

    def __init__(self, rule: Rule, windows: Counter[int], busiest: Iterable[int]) -> None:
        self.rule = rule
        self.windows = windows
        self.busiest = sorted(busiest)

    @property
    def calls(self) -> int:
        """All calls."""
        return sum(calls * number for calls, number in self.windows.items())

    def percentile(self, percent: int) -> int:
        """Return the calls that this percentage of all windows did not exceed, 0 when there are none."""
        wanted, seen = ceil(self.windows.total() * percent / 100), 0
        for calls, number in sorted(self.windows.items()):
            seen += number
            if seen >= wanted:
                return calls
        return 0

    @property
    def most(self) -> int:
        """The calls of the busiest window."""
        return self.busiest[-1] if self.busiest else 0

    def limit_for(self, percent: float) -> int:
        """Return the lowest limit that refuses at most this percentage of clients a call."""
        spared = len(self.busiest) - int(len(self.busiest) * percent / 100 + 1e-9)
        return self.busiest[spared - 1] if spared else 0

    def refused(self, limit: int) -> tuple[int, int]:
        """Return how many clients, and how many calls, a limit would refuse."""
        clients = len(self.busiest) - bisect_right(self.busiest, limit)
        return clients, sum((calls - limit) * number for calls, number in self.windows.items() if calls > limit)

    def shares(self, chosen: float) -> list[tuple[float, int, int, int]]:
        """Return rows of a table: a percentage of clients, the limit for it, refused clients and refused calls."""
        rows = []
        for percent in sorted({*SHARES, chosen}):
            limit = self.limit_for(percent)
            rows.append((percent, limit, *self.refused(limit)))
        return rows

    def draft(self, percent: float) -> Rule:
        """Return the rule as a limit that refuses this percentage of clients."""
        limit = self.limit_for(percent)
        clients, calls = self.refused(limit)
        said = (
            f"Refused {clients:,} of {len(self.busiest):,} clients and {calls:,} of {self.calls:,} calls of the traffic"
            f" that it was suggested from; the busiest made {self.most:,}."
        )
        return self.rule.with_changes(action=Action.LIMIT, limit=limit, description=said)


def measure(ruleset: Ruleset, reader: Reader) -> tuple[list[Distribution], list[str]]:
    """Return the distribution of each counting rule over a traffic, and the properties asked for that it does not
    tell. Rules are measured in fixed windows, behind the
    skip rules before them; what other limits refuse is met as well."""
    rules = [_unlimited(rule) if rule.counts else rule for rule in static(ruleset)[0].rules]
    measures = {rule.name: Measure(rule) for rule in rules if rule.counts}
    chains = Chains(Ruleset(ruleset.limiter, tuple(rules), keys=ruleset.keys), reader)
    order = Order()
    for batch in in_order(reader.batches(), order):
        met = chains.of(batch.columns, len(batch.times))
        limiters = batch.limiters or repeat(None)
        # Of the four facts of a call only the first two are as many as there are calls.
        for now, chain, cost, limiter in zip(batch.times, met, batch.costs or repeat(1), limiters, strict=False):
            if limiter in (None, ruleset.limiter):
                for hit in chain.hits:
                    measures[hit.rule.name].count(hit.key, hit.member, now, cost)
        if chains.crowded():
            chains.forget(batch.times[-1])
    return [measure.distribution() for measure in measures.values()], chains.untold


def of_counters(rule: Rule, counted: Sequence[Number]) -> Distribution:
    """Return the distribution that live counters tell: of the windows that run now, each as far as it is."""
    calls = [ceil(number) for number in counted if number > 0]
    return Distribution(rule, Counter(calls), calls)


def only(ruleset: Ruleset, name: str) -> Ruleset:
    """Return a ruleset of one rule and the skip rules before it, which keep calls from it. Raises LookupError."""
    names = [rule.name for rule in ruleset.rules]
    if name not in names:
        raise LookupError(f"limiter {ruleset.limiter} has no rule {name}; there are {', '.join(names) or 'none'}")
    at = names.index(name)
    skips = [rule for rule in ruleset.rules[:at] if not rule.counts]
    return Ruleset(ruleset.limiter, (*skips, ruleset.rules[at]), keys=ruleset.keys)


def made(ruleset: Ruleset, by: Sequence[str], periods: Sequence[str], match: Match) -> Ruleset:
    """Return rules of a ruleset's limiter that count by these properties, one for each period. Raises ValueError."""
    name = re.sub("[^a-z0-9]+", "_", "_".join(["per", *by] if by else ["all"]).lower())[:50].rstrip("_")
    names = [name if len(periods) == 1 else f"{name}_{period}" for period in periods]
    rules = [
        Rule(name, match=match, characteristics=tuple(by), limit=MAX_LIMIT, period=parse_duration(period))
        for name, period in zip(names, periods, strict=True)
    ]
    check_unique_names(rules)
    return Ruleset(ruleset.limiter, tuple(rules), keys=ruleset.keys)


def _unlimited(rule: Rule) -> Rule:
    changes = {"action": Action.LOG, "limit": MAX_LIMIT, "algorithm": Algorithm.FIXED_WINDOW}
    return rule.with_changes(**changes, ban_for=None, response=None)


class Measure:
    """What one rule's counters meet."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._length = int(rule.period) * 1000  # type: ignore[arg-type]
        # By key: when the window ends, the calls in it, and the values where those are counted.
        self._running: dict[str, tuple[int, Number, set[str] | None]] = {}
        self._windows: Counter[int] = Counter()
        self._busiest: dict[str, int] = {}

    def count(self, key: str, member: str | None, now: int, cost: Number) -> None:
        """Count a call, or a value where those are counted."""
        ends, calls, values = self._running.get(key) or (0, 0, None)
        if ends <= now:
            if calls:
                self._end(key, calls)
            ends, calls, values = now + self._length, 0, None
        if member is None:
            calls += cost
        else:
            values = {member, *(values or ())}
            calls = len(values)
        self._running[key] = ends, calls, values

    def distribution(self) -> Distribution:
        """End the windows that run, and return all."""
        for key, (_, calls, _) in self._running.items():
            self._end(key, calls)
        self._running.clear()
        return Distribution(self._rule, self._windows, self._busiest.values())

    def _end(self, key: str, calls: Number) -> None:
        whole = ceil(calls)
        self._windows[whole] += 1
        self._busiest[key] = max(self._busiest.get(key, 0), whole)
