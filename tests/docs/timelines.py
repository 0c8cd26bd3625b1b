"""Drawn time lines of the manual, which are read from a page, replayed with the memory store, and drawn again.

A drawing begins with a line for the rule, such as ``fixed_window  limit 3  period 10s``. Its row ``second`` has the
moments of the calls, at columns that are proportional to time. All other rows follow from the two, so a test can
compare the whole drawing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django_ratelimit_rules.counters.memory import MemoryCounters
from django_ratelimit_rules.engine import KeyWriter, Result, Rule, Ruleset, decide, plan

LABEL = 11
COLUMNS_PER_SECOND = 3
# A moment at which clock-aligned windows of 1 to 12 whole seconds begin.
START = 27_720_000_000_000


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a drawing: its second, and the result of the check."""

    second: int
    result: Result


def rule_of(drawing: str) -> Rule:
    """Return the rule that the first line of a drawing states."""
    algorithm, *options = re.split(r" {2,}", drawing.splitlines()[0].strip())
    fields = dict(option.split(" ") for option in options)
    return Rule("drawn", **{**fields, "algorithm": algorithm, "limit": int(fields["limit"])})


def seconds_of(drawing: str) -> list[int]:
    """Return the seconds of the calls."""
    (row,) = re.findall(r"^second +(.*)$", drawing, re.MULTILINE)
    return [int(second) for second in row.split()]


def replay(rule: Rule, seconds: list[int]) -> list[Call]:
    """Check one call at each second, with a memory store whose clock shows that second."""
    now = START
    store = MemoryCounters(clock=lambda: now)
    ruleset = Ruleset("drawn", (rule,), keys=KeyWriter(b"secret"))
    calls = []
    for second in seconds:
        now = START + second * 1000
        planned = plan(ruleset, {}.get)
        calls.append(Call(second, decide(planned, store.hit(planned.hits))))
    return calls


def draw(drawing: str) -> str:
    """Return the correct drawing for a rule and seconds."""
    rule, seconds = rule_of(drawing), seconds_of(drawing)
    calls = replay(rule, seconds)
    rows = [drawing.splitlines()[0], "", _values("second", seconds, [str(second) for second in seconds])]
    if rule.algorithm != "token_bucket":
        rows.append(_bars("window", _windows(calls)))
    if rule.ban_for:
        rows.append(_bars("ban", _bans(calls)))
    shown = [(call.result, call.result.evaluations[0]) for call in calls]
    rows += [
        _values("answer", seconds, [str(result.action) for result, _ in shown]),
        _values("used", seconds, [str(evaluation.used) for _, evaluation in shown]),
        _values("count", seconds, [str(evaluation.count) for _, evaluation in shown]),
        _values("remaining", seconds, [str(evaluation.remaining) for _, evaluation in shown]),
        _values("reset", seconds, [f"{evaluation.reset_after:g}" for _, evaluation in shown]),
        _values("retry", seconds, [_wait(result.retry_after) for result, _ in shown]),
    ]
    return "\n".join(rows) + "\n"


def _wait(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:g}"


def _windows(calls: list[Call]) -> list[tuple[int, int]]:
    """Return the windows of the calls, from the end that each evaluation reports."""
    spans = set()
    for call in calls:
        evaluation = call.result.evaluations[0]
        if not evaluation.banned:
            end = round(call.second + evaluation.reset_after)
            spans.add((end - evaluation.period, end))
    return sorted(spans)


def _bans(calls: list[Call]) -> list[tuple[int, int]]:
    """Return the bans of the calls: each begins with the first call that reports its end."""
    ends: dict[int, int] = {}
    for call in calls:
        evaluation = call.result.evaluations[0]
        if evaluation.banned:
            ends.setdefault(round(call.second + evaluation.reset_after), call.second)
    return sorted((start, end) for end, start in ends.items())


def _values(label: str, seconds: list[int], values: list[str]) -> str:
    row = label
    for second, value in zip(seconds, values, strict=True):
        column = LABEL + second * COLUMNS_PER_SECOND
        assert len(row) < column, f"{label}: no room for {value} at second {second}"
        row = row.ljust(column) + value
    return row


def _bars(label: str, spans: list[tuple[int, int]]) -> str:
    row = label
    for start, end in spans:
        row = row.ljust(LABEL + start * COLUMNS_PER_SECOND)
        row += "├" + "─" * ((end - start) * COLUMNS_PER_SECOND - 2) + "┤"
    return row
