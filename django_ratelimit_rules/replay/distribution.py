"""Limits that traffic suggests: the calls of each counter in each window, and the calls that a limit would refuse.

Rules (match, characteristics, period) go in, with recorded traffic or the numbers of live counters. A
:class:`Distribution` comes out. It knows exactly how many calls a fixed window of any limit would block. The first
call after a window begins the next window. Blocked calls neither lengthen a window nor are charged.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat
from math import ceil

from django.utils.translation import gettext as _

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
from .plan_cache import PlanCache
from .report import static
from .traffic.batches import Order, Reader, in_order

PERCENTILES = (50, 95, 99)
# Shares of refused clients, in percent, that a table shows.
SHARES = (0.0, 0.1, 0.5, 1.0, 5.0)


class Distribution:
    """Calls by counter and window.

    ``windows`` is the number of windows by their number of calls. ``busiest`` are the calls of each counter's busiest
    window, in ascending order.
    """

    def __init__(self, rule: Rule, windows: Counter[int], busiest: Iterable[int]) -> None:
        self.rule = rule
        self.windows = windows
        self.busiest = sorted(busiest)

    @property
    def calls(self) -> int:
        """All calls."""
        return sum(calls * number for calls, number in self.windows.items())

    def percentile(self, percent: int) -> int:
        """Return the number of calls that this percentage of all windows did not exceed, 0 without windows."""
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
        """Return the lowest limit that refuses a call to at most this percentage of clients."""
        spared = len(self.busiest) - int(len(self.busiest) * percent / 100 + 1e-9)
        return self.busiest[spared - 1] if spared else 0

    def refused(self, limit: int) -> tuple[int, int]:
        """Return the numbers of clients and of calls that a limit would refuse."""
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
        """Return the rule with a limit that refuses this percentage of clients. Its description is in English."""
        limit = self.limit_for(percent)
        clients, calls = self.refused(limit)
        description = (
            f"Refused {clients:,} of {len(self.busiest):,} clients and {calls:,} of {self.calls:,} calls of the traffic"
            f" that it was suggested from. The busiest client made {self.most:,}."
        )
        return self.rule.with_changes(action=Action.LIMIT, limit=limit, description=description)


def measure(ruleset: Ruleset, reader: Reader) -> tuple[list[Distribution], list[str]]:
    """Return the distribution of each counting rule over a traffic, and the properties that the traffic lacks.

    Measures all rules in fixed windows. A call that a skip rule allowed does not reach the later rules. No rule blocks
    here, so later rules meet all other calls.
    """
    rules = [_unlimited(rule) if rule.counts else rule for rule in static(ruleset)[0].rules]
    measures = {rule.name: Measure(rule) for rule in rules if rule.counts}
    plans = PlanCache(Ruleset(ruleset.limiter, tuple(rules), keys=ruleset.keys), reader)
    order = Order()
    for batch in in_order(reader.batches(), order):
        met = plans.of(batch.columns, len(batch.times))
        limiters = batch.limiters or repeat(None)
        # Not strict, because the costs and limiters that a batch lacks are endless iterators.
        for now, cached, cost, limiter in zip(batch.times, met, batch.costs or repeat(1), limiters, strict=False):
            if limiter in (None, ruleset.limiter):
                for hit in cached.hits:
                    measures[hit.rule.name].count(hit.key, hit.member, now, cost)
        if plans.crowded():
            plans.forget(batch.times[-1])
    return [measure.distribution() for measure in measures.values()], plans.untold


def of_counters(rule: Rule, counted: Sequence[Number]) -> Distribution:
    """Return the distribution of live counters: of the current windows, with the calls counted so far."""
    calls = [ceil(number) for number in counted if number > 0]
    return Distribution(rule, Counter(calls), calls)


def only(ruleset: Ruleset, name: str) -> Ruleset:
    """Return a ruleset of one rule and the skip rules before it.

    Raises LookupError for an unknown rule, in the active language.
    """
    names = [rule.name for rule in ruleset.rules]
    if name not in names:
        known = ", ".join(names)
        if not known:
            raise LookupError(_("limiter %(limiter)s has no rules") % {"limiter": ruleset.limiter})
        raise LookupError(
            _("limiter %(limiter)s has no rule %(rule)s. Its rules are: %(rules)s")
            % {"limiter": ruleset.limiter, "rule": name, "rules": known}
        )
    at = names.index(name)
    skips = [rule for rule in ruleset.rules[:at] if not rule.counts]
    return Ruleset(ruleset.limiter, (*skips, ruleset.rules[at]), keys=ruleset.keys)


def made(ruleset: Ruleset, by: Sequence[str], periods: Sequence[str], match: Match) -> Ruleset:
    """Return a ruleset with one rule for each period, all of which count by these properties. Raises ValueError."""
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
    """Measures the calls of one rule's counters."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._length = int(rule.period) * 1000  # type: ignore[arg-type]
        # By key: the end of the current window, its calls, and its values if the rule counts distinct values.
        self._running: dict[str, tuple[int, Number, set[str] | None]] = {}
        self._windows: Counter[int] = Counter()
        self._busiest: dict[str, int] = {}

    def count(self, key: str, member: str | None, now: int, cost: Number) -> None:
        """Count a call, or its value for a rule that counts distinct values."""
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
        """End the current windows, and return the distribution of all windows."""
        for key, running in self._running.items():
            self._end(key, running[1])
        self._running.clear()
        return Distribution(self._rule, self._windows, self._busiest.values())

    def _end(self, key: str, calls: Number) -> None:
        whole = ceil(calls)
        self._windows[whole] += 1
        self._busiest[key] = max(self._busiest.get(key, 0), whole)
