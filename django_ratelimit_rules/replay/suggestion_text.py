"""Suggestions as text: distributions go in, lines for a terminal and drafts as YAML come out."""

from __future__ import annotations

from collections.abc import Iterator

from ..engine.durations import spell_duration
from ..rulesets import text as ruleset_text
from .distribution import PERCENTILES, Distribution
from .text_report import Cell, plural, table


def lines(found: Distribution, percent: float) -> Iterator[str]:
    """Yield the lines of a distribution, with the limit that refuses this percentage of clients among others."""
    yield f"{heading(found)}:"
    yield f"{counted(found)}."
    if not found.busiest:
        return
    yield ""
    heads = [f"p{percent}" for percent in PERCENTILES]
    yield from table(["calls a window", *heads, "max"], [["", *map(found.percentile, PERCENTILES), found.most]])
    yield ""
    rows: list[list[Cell]] = [
        [f"{share:g} %", limit, clients, calls] for share, limit, clients, calls in found.shares(percent)
    ]
    yield from table(["refused clients", "limit", "clients", "calls"], rows)


def counted(found: Distribution) -> str:
    """Return how much was measured."""
    numbers = {"call": found.calls, "client": len(found.busiest), "window": found.windows.total()}
    calls, clients, windows = (f"{number:,} {plural(word, number)}" for word, number in numbers.items())
    return f"{calls} of {clients} in {windows}"


def heading(found: Distribution) -> str:
    """Return what was measured."""
    rule = found.rule
    counted = f"different {rule.count_distinct} " if rule.count_distinct else ""
    by = ", ".join(rule.characteristics) or "all together"
    return f"{rule.name}: {counted}by {by}, in {spell_duration(int(rule.period))}"  # type: ignore[arg-type]


def draft(limiter: str, found: Distribution, percent: float) -> str:
    """Return the suggested limit as a ruleset of one rule."""
    return ruleset_text.dump({limiter: {"rules": [ruleset_text.rule_of(found.draft(percent))]}})
