"""Sentences about the last day's comparisons with a legacy limiter. They show whether it can be replaced."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...exceptions import CountersUnavailable
from ...legacy.divergence import (
    TARGET,
    Divergence,
    Hour,
    last_day,
)
from ...runtime.language import grouped


def found(limiter: str) -> Divergence | None:
    """Return the comparisons of a limiter. Returns None if there are none, or if Redis cannot be reached."""
    try:
        return last_day(limiter)
    except CountersUnavailable:
        return None


def sentences(limiter: str) -> str:
    """Return the sentences about a limiter's comparisons. Returns an empty string if there are none."""
    divergence = found(limiter)
    return "" if divergence is None else said(divergence)


def said(divergence: Divergence) -> str:
    """Return the share of the last day, and when the target was last exceeded."""
    return " ".join([*_last_day(divergence.day), _last_exceeded(divergence.last_exceeded)])


def percent(share: float) -> str:
    """Return a share from 0 to 1 as the number of a percentage in the active language."""
    return number_format(f"{100 * share:.1f}", use_l10n=True)


def _last_day(day: Hour) -> list[str]:
    if not day.compared:
        return [_("Nothing was compared with the legacy limiter in the last 24 hours.")]
    share = ngettext(
        "In the last 24 hours this limiter and the legacy limiter disagreed in %(share)s %% of %(compared)s"
        " comparison.",
        "In the last 24 hours this limiter and the legacy limiter disagreed in %(share)s %% of %(compared)s"
        " comparisons.",
        day.compared,
    ) % {"share": percent(day.share), "compared": grouped(day.compared)}
    if not day.at_boundary:
        return [share]
    at_edge = ngettext(
        "%(boundary)s of the %(diverged)s was at the edge of a window.",
        "%(boundary)s of the %(diverged)s were at the edge of a window.",
        day.at_boundary,
    ) % {"boundary": grouped(day.at_boundary), "diverged": grouped(day.diverged)}
    return [share, at_edge]


def _last_exceeded(hour: Hour | None) -> str:
    if hour is None:
        target = _("The target of %(target)s %% was not exceeded in the last eight days.")
        return target % {"target": percent(TARGET)}
    start = datetime.fromtimestamp(hour.start, UTC)
    shown = timezone.localtime(start) if timezone.is_aware(timezone.now()) else timezone.make_naive(start)
    return _(
        "The target of %(target)s %% was last exceeded in the hour from %(start)s (%(share)s %% of %(compared)s)."
    ) % {
        "target": percent(TARGET),
        "start": date_format(shown, "DATETIME_FORMAT"),
        "share": percent(hour.share),
        "compared": grouped(hour.compared),
    }
