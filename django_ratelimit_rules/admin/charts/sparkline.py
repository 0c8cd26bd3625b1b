"""The last hour of a rule as a small picture.

Three numbers a minute go in. A picture with totals and a table comes out. This module knows only the name of the rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...monitoring.last_hour import MINUTES, Series
from ...runtime.language import grouped
from .svg import Picture, hidden_table

HEIGHT, STEP = 36, 4
# Minutes in a row of the table. With one minute in a row, 200 rules would have 12,000 rows.
TOGETHER = 10


class Mark(NamedTuple):
    """A moment to mark on a chart, and the event at that moment."""

    at: float
    label: str


class Charts:
    """The charts of rules in the hour that began at ``first``, a POSIX time.

    The parts that all charts share are written once, because a page may hold hundreds of charts.
    """

    def __init__(self, first: int, marks: Iterable[Mark] = ()) -> None:
        self.first = first
        self.marks = [mark for mark in marks if 0 <= mark.at - first < 60 * MINUTES]

    def of(self, name: str, series: Series, label: str = "") -> SafeString:
        """Return the chart of a rule's hour, with its totals. Returns a short sentence if there were no calls.

        ``label`` is the name that people read. The default is ``name``, which must be unique on the page.
        """
        if not series.totals.calls:
            return self._quiet
        label = label or name
        caption = _("%(name)s: the last hour, in steps of %(minutes)s minutes") % {"name": label, "minutes": TOGETHER}
        picture = self._picture(name, label, series)
        table = hidden_table(caption, self._heads, self._rows(series))
        return mark_safe(f'<div class="ratelimit-chart">{picture}{self._totals(series)}{table}</div>')

    def _picture(self, name: str, label: str, series: Series) -> SafeString:
        calls, exceeded, blocked = series.totals
        passed = [max(all_calls - over, 0) for all_calls, over in zip(series.calls, series.exceeded, strict=True)]
        unblocked = [max(over - refused, 0) for over, refused in zip(series.exceeded, series.blocked, strict=True)]
        key, most = f"ratelimit-chart-{name.replace(' ', '-')}", max(series.calls)
        numbers = ngettext(
            "%(calls)s call, %(exceeded)s over the limit, %(blocked)s blocked, %(most)s a minute at most.",
            "%(calls)s calls, %(exceeded)s over the limit, %(blocked)s blocked, %(most)s a minute at most.",
            calls,
        ) % {
            "calls": grouped(calls),
            "exceeded": grouped(exceeded),
            "blocked": grouped(blocked),
            "most": grouped(most),
        }
        layers = (passed, unblocked, series.blocked)
        title = _("%(name)s: the last hour") % {"name": label}
        return Picture(key, HEIGHT, STEP, most).draw(title, numbers + self._described_marks, layers, self._lines)

    def _totals(self, series: Series) -> str:
        calls, exceeded, blocked = series.totals
        sentence = ngettext(
            '<strong>%(calls)s</strong> call, <span class="ratelimit-word-%(over)s"><strong>%(exceeded)s</strong>'
            ' over the limit</span>, <span class="ratelimit-word-%(refused)s"><strong>%(blocked)s</strong>'
            " blocked</span> in the last hour, at most %(most)s a minute",
            '<strong>%(calls)s</strong> calls, <span class="ratelimit-word-%(over)s"><strong>%(exceeded)s</strong>'
            ' over the limit</span>, <span class="ratelimit-word-%(refused)s"><strong>%(blocked)s</strong>'
            " blocked</span> in the last hour, at most %(most)s a minute",
            calls,
        ) % {
            "over": "exceeded" if exceeded else "none",
            "refused": "blocked" if blocked else "none",
            "calls": grouped(calls),
            "exceeded": grouped(exceeded),
            "blocked": grouped(blocked),
            "most": grouped(max(series.calls)),
        }
        return f"<span>{sentence}{self._named_marks}</span>"

    def _rows(self, series: Series) -> Iterable[tuple[str, int, int, int]]:
        for number, clock in enumerate(self._clocks):
            part = slice(number * TOGETHER, (number + 1) * TOGETHER)
            yield clock, sum(series.calls[part]), sum(series.exceeded[part]), sum(series.blocked[part])

    @cached_property
    def _quiet(self) -> SafeString:
        return format_html('<span class="ratelimit-quiet">{}</span>', _("No calls in the last hour."))

    @cached_property
    def _heads(self) -> tuple[str, ...]:
        return _("From"), _("Calls"), _("Over the limit"), _("Blocked")

    @cached_property
    def _clocks(self) -> list[str]:
        return [_clock(self.first + 60 * minute) for minute in range(0, MINUTES, TOGETHER)]

    @cached_property
    def _lines(self) -> SafeString:
        lines = ((f"{(mark.at - self.first) / 60 * STEP:.1f}", HEIGHT) for mark in self.marks)
        return format_html_join("", '<path class="ratelimit-mark" d="M{} 0v{}"/>', lines)

    @cached_property
    def _named_marks(self) -> SafeString:
        return format_html_join("", '<span class="ratelimit-mark-said"> · {}</span>', ((text,) for text in self._times))

    @cached_property
    def _described_marks(self) -> str:
        return "".join(f" {text}." for text in self._times)

    @cached_property
    def _times(self) -> list[str]:
        return [_("%(event)s at %(time)s") % {"event": mark.label, "time": _clock(mark.at)} for mark in self.marks]


def _clock(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return f"{timezone.localtime(moment):%H:%M}"
