"""An hour of a rule as a small picture: three numbers a minute go in, a picture with totals and a table comes out.

Knows nothing of rules but the name it is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from ...monitoring.last_hour import MINUTES, Series
from .svg import Picture, hidden_table

HEIGHT, STEP = 36, 4
# A row of the table adds up some minutes, because 200 rules would take 12,000 rows otherwise.
TOGETHER = 10
QUIET = SafeString('<span class="ratelimit-quiet">No calls in the last hour.</span>')
HEADS = ("From", "Calls", "Over the limit", "Blocked")


class Mark(NamedTuple):
    """A moment to mark on a chart, and what happened then."""

    at: float
    label: str


class Charts:
    """The charts of rules in the hour that began at ``first``, a POSIX time.

    Parts that they have in common are written once, because a page may hold hundreds of charts.
    """

    def __init__(self, first: int, marks: Iterable[Mark] = ()) -> None:
        self.first = first
        self.marks = [mark for mark in marks if 0 <= mark.at - first < 60 * MINUTES]

    def of(self, name: str, series: Series) -> SafeString:
        """Return the chart of a rule's hour, with its totals; a few words when nothing happened."""
        if not series.totals.calls:
            return QUIET
        picture, rows = self._picture(name, series), self._rows(series)
        table = hidden_table(f"{name}: the last hour, by {TOGETHER} minutes", HEADS, rows)
        return mark_safe(f'<div class="ratelimit-chart">{picture}{self._totals(series)}{table}</div>')

    def _picture(self, name: str, series: Series) -> SafeString:
        calls, exceeded, blocked = series.totals
        passed = [max(all_calls - over, 0) for all_calls, over in zip(series.calls, series.exceeded, strict=True)]
        unblocked = [max(over - refused, 0) for over, refused in zip(series.exceeded, series.blocked, strict=True)]
        key, most = f"ratelimit-chart-{name.replace(' ', '-')}", max(series.calls)
        numbers = f"{calls:,} calls, {exceeded:,} over the limit, {blocked:,} blocked, {most:,} a minute at most."
        layers = (passed, unblocked, series.blocked)
        picture = Picture(key, HEIGHT, STEP, most)
        return picture.draw(f"{name}: the last hour", numbers + self._described_marks, layers, self._lines)

    def _totals(self, series: Series) -> str:
        calls, exceeded, blocked = series.totals
        over, refused = ("exceeded" if exceeded else "none"), ("blocked" if blocked else "none")
        return (
            f"<span><strong>{calls:,}</strong> calls, "
            f'<span class="ratelimit-word-{over}"><strong>{exceeded:,}</strong> over the limit</span>, '
            f'<span class="ratelimit-word-{refused}"><strong>{blocked:,}</strong> blocked</span>'
            f" in the last hour; at most {max(series.calls):,} calls a minute{self._named_marks}</span>"
        )

    def _rows(self, series: Series) -> Iterable[tuple[str, int, int, int]]:
        for number, clock in enumerate(self._clocks):
            part = slice(number * TOGETHER, (number + 1) * TOGETHER)
            yield clock, sum(series.calls[part]), sum(series.exceeded[part]), sum(series.blocked[part])

    @cached_property
    def _clocks(self) -> list[str]:
        return [_clock(self.first + 60 * minute) for minute in range(0, MINUTES, TOGETHER)]

    @cached_property
    def _lines(self) -> SafeString:
        lines = ((f"{(mark.at - self.first) / 60 * STEP:.1f}", HEIGHT) for mark in self.marks)
        return format_html_join("", '<path class="ratelimit-mark" d="M{} 0v{}"/>', lines)

    @cached_property
    def _named_marks(self) -> SafeString:
        words = ((mark.label, _clock(mark.at)) for mark in self.marks)
        return format_html_join("", '<span class="ratelimit-mark-said"> · {} at {}</span>', words)

    @cached_property
    def _described_marks(self) -> str:
        return "".join(f" {mark.label} at {_clock(mark.at)}." for mark in self.marks)


def _clock(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return f"{timezone.localtime(moment):%H:%M}"
