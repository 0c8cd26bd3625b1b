"""What happens now: the last hour beside each rule, and on a page of its own with the fullest counters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch
from django.utils.safestring import SafeString

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
from ..charts.sparkline import Charts, Mark
from ..links import Link, Links
from .base import AdminPage
from .explain_form import ASK

# Not the escapes of a counter's key, its digests, and networks.
_PLAIN = re.compile(r"[0-9a-fA-F.:-]+")
ASKED_BY = (("ip",), ("user",))
OFF = "Not counted: RATELIMIT_RULES_LIVE is off."


class LivePage(AdminPage):
    """A limiter's last hour: what each rule in force met, and the fullest counters."""

    name, route = "live", "live/<slug:limiter>/"
    template = "django_ratelimit_rules/live.html"
    ruleset_label = "Live"

    def context(self, request: HttpRequest, limiter: str) -> dict[str, Any]:
        """Return the hour, or the problem that hides it."""
        context: dict[str, Any] = {
            "title": f"Live: {limiter}",
            "limiter": limiter,
            "limiters": limiter_names.chosen(),
            "ruleset": Ruleset.objects.filter(name=limiter).first(),
        }
        try:
            return context | _panel(limiter, self.links)
        except CountersUnavailable as error:
            return context | {"problem": str(error)}

    def ruleset_links(self, ruleset: Ruleset) -> Iterator[Link]:
        """Yield the link to the ruleset's hour, unless a name written past the admin fits no address."""
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
        "all": drawn.of("all calls", hour.all),
        "lines": lines,
        "gone": gone,
        **_heaviest(limiter, effective.ruleset, links),
    }


def _heaviest(limiter: str, ruleset: Rules, links: Links) -> dict[str, Any]:
    try:
        heaviest = fullest_counters.heaviest(limiter)
    except CountersUnavailable as error:
        # Odd data under one key: the hour is told all the same.
        return {"heavy_problem": str(error)}
    return {"heaviest": heaviest, "heavy": [_shown(limiter, heavy, ruleset, links) for heavy in heaviest.counters]}


def _shown(limiter: str, heavy: Heavy, ruleset: Rules, links: Links) -> dict[str, Any]:
    return {
        **heavy._asdict(),
        "reset": spell_span(1000 * heavy.reset_after),
        "full": heavy.banned or heavy.used >= heavy.limit,
        # Whom a full log counter counts waits for nothing: an operator looks here for those who do.
        "blocks": any(rule.name == heavy.rule and rule.action is Action.LIMIT for rule in ruleset.rules),
        "explain": _explained(limiter, heavy, ruleset, links),
    }


def _explained(limiter: str, heavy: Heavy, ruleset: Rules, links: Links) -> str:
    """Return the address that explains who is counted, where a counter tells that: by one address or one user."""
    by = next((rule.characteristics for rule in ruleset.rules if rule.name == heavy.rule), ())
    if by not in ASKED_BY or not _PLAIN.fullmatch(heavy.who):
        return ""
    return links.to("explain", limiter=limiter, **{by[0]: heavy.who, ASK: "now"})


def _marks(limiter: str, hour: LastHour) -> list[Mark]:
    """Return when the ruleset changed in this hour."""
    since = as_stored(datetime.fromtimestamp(hour.first, UTC) - timedelta(minutes=1))
    versions = RulesetVersion.objects.filter(ruleset=limiter, created_at__gte=since).order_by("number")
    return [
        Mark(when.timestamp(), f"version {number}") for number, when in versions.values_list("number", "created_at")
    ]
