"""An hour of a rule as a small picture: three numbers a minute go in, inline SVG with a table for screen readers comes
out. Knows nothing of rules but the name it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

from django.utils import timezone
from django.utils.html import escape, format_html_join
from django.utils.safestring import SafeString, mark_safe

from ...monitoring.last_hour import MINUTES, Series

HEIGHT, STEP, GAP = 36, 4, 1
WIDTH = STEP * MINUTES
# Heights are written to a tenth; a page of long rulesets writes tens of thousands.
TENTHS = [f"{tenth / 10:.1f}" for tenth in range(10 * HEIGHT + 1)]
# Rows of the table stand for some minutes together, or 200 rules would be 12,000 rows.
TOGETHER = 10
QUIET = SafeString('<span class="ratelimit-quiet">No calls in the last hour.</span>')
HEADS = '<tr><th scope="col">From</th><th scope="col">Calls</th><th scope="col">Over the limit</th>'
HEADS += '<th scope="col">Blocked</th></tr>'


class Mark(NamedTuple):
    """A moment to mark on a chart, and what happened then."""

    at: float
    label: str


class Charts:
    """The charts of rules in the hour that began at ``first``, a POSIX time.

    What they have in common is written once, and numbers need no escaping: a page may hold hundreds of them.
    """

    def __init__(self, first: int, marks: Iterable[Mark] = ()) -> None:
        self.first = first
        self.marks = [mark for mark in marks if 0 <= mark.at - first < 60 * MINUTES]

    def of(self, name: str, series: Series) -> SafeString:
        """Return the chart of a rule's hour, with its totals; a few words when nothing happened."""
        if not series.totals.calls:
            return QUIET
        shown = escape(name)
        picture, table = self._picture(shown, series), self._table(shown, series)
        return mark_safe(f'<div class="ratelimit-chart">{picture}{self._totals(series)}{table}</div>')

    def _picture(self, name: str, series: Series) -> str:
        calls, exceeded, blocked = series.totals
        key, most = f"ratelimit-chart-{name.replace(' ', '-')}", max(series.calls)
        numbers = f"{calls:,} calls, {exceeded:,} over the limit, {blocked:,} blocked, {most:,} a minute at most."
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img"'
            f' aria-labelledby="{key}-title {key}-desc"><title id="{key}-title">{name}: the last hour</title>'
            f'<desc id="{key}-desc">{numbers}{self._told}</desc>{_stacks(series, most)}{self._lines}</svg>'
        )

    def _totals(self, series: Series) -> str:
        calls, exceeded, blocked = series.totals
        over, refused = ("exceeded" if exceeded else "none"), ("blocked" if blocked else "none")
        return (
            f"<span><strong>{calls:,}</strong> calls, "
            f'<span class="ratelimit-word-{over}"><strong>{exceeded:,}</strong> over the limit</span>, '
            f'<span class="ratelimit-word-{refused}"><strong>{blocked:,}</strong> blocked</span>'
            f" in the last hour; at most {max(series.calls):,} calls a minute{self._said}</span>"
        )

    def _table(self, name: str, series: Series) -> str:
        return (
            f'<table class="visually-hidden"><caption>{name}: the last hour, by {TOGETHER} minutes</caption>'
            f"<thead>{HEADS}</thead><tbody>{self._rows(series)}</tbody></table>"
        )

    def _rows(self, series: Series) -> str:
        rows = []
        for number, clock in enumerate(self._clocks):
            part = slice(number * TOGETHER, (number + 1) * TOGETHER)
            calls, exceeded, blocked = sum(series.calls[part]), sum(series.exceeded[part]), sum(series.blocked[part])
            rows.append(
                f'<tr><th scope="row">{clock}</th><td>{calls:,}</td><td>{exceeded:,}</td><td>{blocked:,}</td></tr>'
            )
        return "".join(rows)

    @cached_property
    def _clocks(self) -> list[str]:
        return [_clock(self.first + 60 * minute) for minute in range(0, MINUTES, TOGETHER)]

    @cached_property
    def _lines(self) -> SafeString:
        lines = ((f"{(mark.at - self.first) / 60 * STEP:.1f}", HEIGHT) for mark in self.marks)
        return format_html_join("", '<path class="ratelimit-mark" d="M{} 0v{}"/>', lines)

    @cached_property
    def _said(self) -> SafeString:
        words = ((mark.label, _clock(mark.at)) for mark in self.marks)
        return format_html_join("", '<span class="ratelimit-mark-said"> · {} at {}</span>', words)

    @cached_property
    def _told(self) -> SafeString:
        return format_html_join("", " {} at {}.", ((mark.label, _clock(mark.at)) for mark in self.marks))


def _stacks(series: Series, most: int) -> str:
    """Return what passed, what was over the limit but not blocked, and what was blocked, on top of each other."""
    passed = [max(calls - over, 0) for calls, over in zip(series.calls, series.exceeded, strict=True)]
    over = [max(exceeded - blocked, 0) for exceeded, blocked in zip(series.exceeded, series.blocked, strict=True)]
    below = [sum(both) for both in zip(passed, over, strict=True)]
    return (
        f'<path class="ratelimit-bar-passed" d="{_bars(passed, [0] * MINUTES, most)}"/>'
        f'<path class="ratelimit-bar-exceeded" d="{_bars(over, passed, most)}"/>'
        f'<path class="ratelimit-bar-blocked" d="{_bars(series.blocked, below, most)}"/>'
    )


def _bars(numbers: Sequence[int], below: Sequence[int], most: int) -> str:
    """Return the bars as one path, each on top of what stands below it."""
    path = []
    scale, x, floor = 10 * HEIGHT / max(most, 1), 0, len(TENTHS) - 1
    for number, under in zip(numbers, below, strict=True):
        if number > 0:
            # A single call in a busy hour must still be seen. Of numbers that contradict each other what fits.
            height = TENTHS[min(max(round(number * scale), 10), floor)]
            path.append(f"M{x} {TENTHS[max(floor - round(under * scale), 0)]}v-{height}h{STEP - GAP}v{height}z")
        x += STEP
    return "".join(path)


def _clock(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return f"{timezone.localtime(moment):%H:%M}"
