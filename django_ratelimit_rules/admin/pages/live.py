"""The last hour of a limiter: a chart for each rule, and a page with the charts and the fullest counters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import rulesets
from ...engine import Action, sentence
from ...engine import Ruleset as Rules
from ...engine.durations import spell_span
from ...exceptions import CountersUnavailable
from ...models import Ruleset, RulesetVersion, as_stored
from ...monitoring import fullest_counters, last_hour
from ...monitoring.fullest_counters import Heavy
from ...monitoring.last_hour import LastHour
from ...rulesets import limiter_names
from ...runtime.language import localized
from ..charts.sparkline import Charts, Mark
from ..links import Link, Links
from .base import AdminPage
from .explain_form import ASK

# Excludes escaped parts of a counter's key, digests and networks.
_PLAIN = re.compile(r"[0-9a-fA-F.:-]+")
ASKED_BY = (("ip",), ("user",))
OFF = gettext_lazy("The last hour is not counted, because RATELIMIT_RULES_LIVE is off.")


class LivePage(AdminPage):
    """A limiter's last hour: the calls of each rule in force, and the fullest counters."""

    name, route = "live", "live/<slug:limiter>/"
    template = "django_ratelimit_rules/live.html"
    ruleset_label = gettext_lazy("Live")

    def context(self, request: HttpRequest, limiter: str) -> dict[str, Any]:
        """Return the hour, or the problem if it cannot be read."""
        context: dict[str, Any] = {
            "title": _("Live: %(limiter)s") % {"limiter": limiter},
            "limiter": limiter,
            "limiters": limiter_names.chosen(),
            "ruleset": Ruleset.objects.filter(name=limiter).first(),
        }
        try:
            return context | _panel(limiter, self.links)
        except CountersUnavailable as error:
            return context | {"problem": localized(error)}

    def ruleset_links(self, ruleset: Ruleset) -> Iterator[Link]:
        """Yield the link to the ruleset's hour.

        Yields nothing for a name that no address can contain. The admin rejects such names, but SQL does not.
        """
        with suppress(NoReverseMatch):
            yield Link(self.ruleset_label, self.links.to(self.name, ruleset.name))


def charts(limiter: str) -> dict[str, SafeString]:
    """Return the chart of each rule of a limiter by its name, and the chart for rules without calls under ``""``.

    Returns an empty dictionary if the last hour is not counted, or if Redis cannot be reached.
    """
    try:
        hour = last_hour.of_limiter(limiter)
    except CountersUnavailable:
        return {}
    if hour is None:
        return {}
    drawn = Charts(hour.first, _marks(limiter, hour))
    found = {name: drawn.of(name, series) for name, series in hour.rules.items()}
    return {**found, "": drawn.of("", hour.of(""))}


def _panel(limiter: str, links: Links) -> dict[str, Any]:
    hour = last_hour.of_limiter(limiter)
    if hour is None:
        return {"problem": OFF}
    effective = rulesets.effective(limiter)
    drawn = Charts(hour.first, _marks(limiter, hour))
    lines = [
        {"rule": rule, "tier": tier, "sentence": sentence(rule), "chart": drawn.of(rule.name, hour.of(rule.name))}
        for rule, tier in effective.rules
    ]
    known = {rule.name for rule in effective.ruleset.rules}
    gone = [{"name": name, "chart": drawn.of(name, hour.of(name))} for name in hour.rules if name not in known]
    return {
        "mode": effective.ruleset.mode,
        "version": effective.ruleset.version,
        "all": drawn.of("all calls", hour.all, _("all calls")),
        "lines": lines,
        "gone": gone,
        **_heaviest(limiter, effective.ruleset, links),
    }


def _heaviest(limiter: str, ruleset: Rules, links: Links) -> dict[str, Any]:
    try:
        heaviest = fullest_counters.heaviest(limiter)
    except CountersUnavailable as error:
        # Show the hour even if one key of Redis holds unexpected data.
        return {"heavy_problem": localized(error)}
    return {"heaviest": heaviest, "heavy": [_shown(limiter, heavy, ruleset, links) for heavy in heaviest.counters]}


def _shown(limiter: str, heavy: Heavy, ruleset: Rules, links: Links) -> dict[str, Any]:
    return {
        **heavy._asdict(),
        "reset": spell_span(1000 * heavy.reset_after),
        "full": heavy.banned or heavy.used >= heavy.limit,
        # A full `log` counter blocks no client. Operators look here for clients that are really blocked.
        "blocks": any(rule.name == heavy.rule and rule.action is Action.LIMIT for rule in ruleset.rules),
        "explain": _explained(limiter, heavy, ruleset, links),
    }


def _explained(limiter: str, heavy: Heavy, ruleset: Rules, links: Links) -> str:
    """Return the address that explains the client of a counter.

    Returns an empty string unless the counter counts by exactly one address or one user.
    """
    by = next((rule.characteristics for rule in ruleset.rules if rule.name == heavy.rule), ())
    if by not in ASKED_BY or not _PLAIN.fullmatch(heavy.who):
        return ""
    return links.to("explain", limiter=limiter, **{by[0]: heavy.who, ASK: "now"})


def _marks(limiter: str, hour: LastHour) -> list[Mark]:
    """Return a mark for each change of the ruleset in this hour."""
    since = as_stored(datetime.fromtimestamp(hour.first, UTC) - timedelta(minutes=1))
    versions = RulesetVersion.objects.filter(ruleset=limiter, created_at__gte=since).order_by("number")
    return [
        Mark(when.timestamp(), _("version %(number)s") % {"number": number})
        for number, when in versions.values_list("number", "created_at")
    ]
