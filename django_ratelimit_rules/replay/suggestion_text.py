"""Suggestions as text: distributions go in, lines in the active language and drafts as YAML come out."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..engine.durations import spell_duration
from ..rulesets import text as ruleset_text
from ..runtime.language import localized
from .distribution import PERCENTILES, Distribution
from .text_report import Cell, grouped, table


def lines(distribution: Distribution, percent: float) -> Iterator[str]:
    """Yield the lines of a distribution. One of its limits refuses this percentage of clients."""
    yield f"{heading(distribution)}:"
    yield f"{counted(distribution)}."
    if not distribution.busiest:
        return
    yield ""
    heads = [f"p{percentile}" for percentile in PERCENTILES]
    numbers = map(distribution.percentile, PERCENTILES)
    yield from table([_("calls a window"), *heads, _("max")], [["", *numbers, distribution.most]])
    yield ""
    rows: list[list[Cell]] = [
        [_("%(share)s %%") % {"share": number_format(f"{share:g}", use_l10n=True)}, limit, clients, calls]
        for share, limit, clients, calls in distribution.shares(percent)
    ]
    yield from table([_("refused clients"), _("limit"), _("clients"), _("calls")], rows)


def counted(distribution: Distribution) -> str:
    """Return the numbers of measured calls, clients and windows: ``"9,999 calls of 1 client in 4 windows"``."""
    calls, clients, windows = distribution.calls, len(distribution.busiest), distribution.windows.total()
    return _("%(calls)s of %(clients)s in %(windows)s") % {
        "calls": ngettext("%(number)s call", "%(number)s calls", calls) % {"number": grouped(calls)},
        "clients": ngettext("%(number)s client", "%(number)s clients", clients) % {"number": grouped(clients)},
        "windows": ngettext("%(number)s window", "%(number)s windows", windows) % {"number": grouped(windows)},
    }


def heading(distribution: Distribution) -> str:
    """Return the rule that was measured, its properties and its period."""
    rule = distribution.rule
    params = {
        "rule": rule.name,
        "property": rule.count_distinct,
        "properties": ", ".join(rule.characteristics),
        "period": localized(spell_duration(int(rule.period))),  # type: ignore[arg-type]
    }
    if rule.count_distinct and rule.characteristics:
        return _("%(rule)s: distinct %(property)s by %(properties)s, in %(period)s") % params
    if rule.count_distinct:
        return _("%(rule)s: distinct %(property)s of all clients together, in %(period)s") % params
    if rule.characteristics:
        return _("%(rule)s: by %(properties)s, in %(period)s") % params
    return _("%(rule)s: all clients together, in %(period)s") % params


def draft(limiter: str, distribution: Distribution, percent: float) -> str:
    """Return the suggested limit as a ruleset of one rule, in YAML."""
    return ruleset_text.dump({limiter: {"rules": [ruleset_text.rule_of(distribution.draft(percent))]}})
