"""An hour of a rule as a small picture: three numbers a minute go in, inline SVG with a table for screen readers comes
out. Knows nothing of rules but the name it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ..live import Series

HEIGHT, STEP, GAP = 36, 4, 1
# Rows of the table stand for some minutes together, or 200 rules would be 12,000 rows.
TOGETHER = 10
QUIET = SafeString('<span class="ratelimit-quiet">No calls in the last hour.</span>')
HEADS = ("From", "Calls", "Over the limit", "Blocked")


class Mark(NamedTuple):
    """A moment to mark on a chart, and what happened then."""

    at: float
    label: str


def chart(name: str, series: Series, first: int, marks: Iterable[Mark] = ()) -> SafeString:
    """Return the chart of a rule's hour that began at ``first``, with its totals; a few words when nothing happened."""
    calls, exceeded, blocked = series.totals
    if not calls:
        return QUIET
    shown = [mark for mark in marks if 0 <= mark.at - first < 60 * len(series.calls)]
    changes = "".join(f" {mark.label} at {_clock(mark.at)}." for mark in shown)
    numbers = (
        f"{calls:,} calls, {exceeded:,} over the limit, {blocked:,} blocked, {max(series.calls):,} a minute at most."
    )
    width, key = STEP * len(series.calls), f"ratelimit-chart-{name.replace(' ', '-')}"
    picture = format_html(
        '<svg viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-labelledby="{}-title {}-desc">'
        '<title id="{}-title">{}: the last hour</title><desc id="{}-desc">{}{}</desc>{}{}</svg>',
        *(
            width,
            HEIGHT,
            width,
            HEIGHT,
            key,
            key,
            key,
            name,
            key,
            numbers,
            changes,
            _stacks(series),
            _lines(shown, first),
        ),
    )
    table = _table(name, series, first)
    return format_html(
        '<div class="ratelimit-chart">{}<span>{}{}</span>{}</div>', picture, _totals(series), _said(shown), table
    )


def _stacks(series: Series) -> SafeString:
    """Return what passed, what was over the limit but not blocked, and what was blocked, on top of each other."""
    passed = [calls - over for calls, over in zip(series.calls, series.exceeded, strict=True)]
    over = [exceeded - blocked for exceeded, blocked in zip(series.exceeded, series.blocked, strict=True)]
    most = max(series.calls)
    stacks = (
        ("passed", _bars(passed, [0] * len(passed), most)),
        ("exceeded", _bars(over, passed, most)),
        ("blocked", _bars(series.blocked, [sum(both) for both in zip(passed, over, strict=True)], most)),
    )
    return format_html_join("", '<path class="ratelimit-bar-{}" d="{}"/>', stacks)


def _totals(series: Series) -> SafeString:
    return format_html(
        '<strong>{}</strong> calls, <span class="ratelimit-word-exceeded"><strong>{}</strong> over the limit</span>, '
        '<span class="ratelimit-word-blocked"><strong>{}</strong> blocked</span> in the last hour',
        *(f"{number:,}" for number in series.totals),
    )


def _bars(numbers: Sequence[int], below: Sequence[int], most: int) -> str:
    """Return the bars as one path, each on top of what stands below it."""
    path = []
    for index, (number, under) in enumerate(zip(numbers, below, strict=True)):
        if number > 0:
            # A single call in a busy hour must still be seen.
            height = max(number * HEIGHT / most, 1)
            bottom = HEIGHT - under * HEIGHT / most
            path.append(f"M{index * STEP} {bottom:.1f}v-{height:.1f}h{STEP - GAP}v{height:.1f}z")
    return "".join(path)


def _lines(marks: Iterable[Mark], first: int) -> SafeString:
    lines = ((f"{(mark.at - first) / 60 * STEP:.1f}", HEIGHT) for mark in marks)
    return format_html_join("", '<path class="ratelimit-mark" d="M{} 0v{}"/>', lines)


def _said(marks: Iterable[Mark]) -> SafeString:
    words = ((mark.label, _clock(mark.at)) for mark in marks)
    return format_html_join("", '<span class="ratelimit-mark-said"> · {} at {}</span>', words)


def _table(name: str, series: Series, first: int) -> SafeString:
    rows = []
    for start in range(0, len(series.calls), TOGETHER):
        part = slice(start, start + TOGETHER)
        sums = [sum(numbers[part]) for numbers in (series.calls, series.exceeded, series.blocked)]
        rows.append((_clock(first + 60 * start), *sums))
    heads = format_html_join("", '<th scope="col">{}</th>', ((head,) for head in HEADS))
    lines = format_html_join("", '<tr><th scope="row">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>', rows)
    return format_html(
        '<table class="visually-hidden"><caption>{}: the last hour, by {} minutes</caption>'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table>",
        *(name, TOGETHER, heads, lines),
    )


def _clock(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return f"{timezone.localtime(moment):%H:%M}"
