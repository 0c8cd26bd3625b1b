"""How far a ruleset is from taking over from a legacy limiter: what the pages say of the last day's comparisons."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils import timezone
from django.utils.formats import date_format

from ...exceptions import CountersUnavailable
from ...legacy.divergence import (
    TARGET,
    Divergence,
    Hour,
    last_day,
)


def found(limiter: str) -> Divergence | None:
    """Return the comparisons of a limiter; None when there are none, or Redis cannot be reached."""
    try:
        return last_day(limiter)
    except CountersUnavailable:
        return None


def sentences(limiter: str) -> str:
    """Return what the comparisons say; nothing where nothing was compared."""
    divergence = found(limiter)
    return "" if divergence is None else said(divergence)


def said(divergence: Divergence) -> str:
    """Return the share of the last day, and when the target was last exceeded."""
    day = divergence.day
    at_edge = f" {day.at_boundary:,} of the {day.diverged:,} were at the edge of a window." if day.at_boundary else ""
    shares = (
        f"In the last 24 hours this limiter and the legacy limiter disagreed in {divergence} comparisons.{at_edge}"
        if day.compared
        else "Nothing was compared with the legacy limiter in the last 24 hours."
    )
    target = f"The target of {100 * TARGET:.1f} % was"
    last = divergence.last_exceeded
    exceeded = (
        f"{target} not exceeded in the last eight days." if last is None else f"{target} last exceeded {_when(last)}."
    )
    return f"{shares} {exceeded}"


def _when(hour: Hour) -> str:
    start = datetime.fromtimestamp(hour.start, UTC)
    shown = timezone.localtime(start) if timezone.is_aware(timezone.now()) else timezone.make_naive(start)
    return f"in the hour from {date_format(shown, 'DATETIME_FORMAT')} ({100 * hour.share:.1f} % of {hour.compared:,})"
