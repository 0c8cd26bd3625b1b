"""The suggest page: how many calls clients make, and the limit that refuses a chosen share of them, as a draft rule."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ... import rulesets
from ...engine import Ruleset as EngineRuleset
from ...engine.durations import parse_duration
from ...exceptions import CountersUnavailable
from ...models import Ruleset
from ...monitoring import fullest_counters
from ...replay import distribution, suggestion_text
from ...replay.distribution import PERCENTILES, Distribution
from ...replay.text_report import plural
from ..charts.svg import Stack, figure, hidden_table
from ..ruleset_form.fields import ConditionsField
from .base import AdminPage
from .traffic_form import (
    RECORD,
    UPLOAD,
    TooLarge,
    TrafficForm,
)

COUNTERS = "counters"
STEP = 72


class SuggestForm(TrafficForm):
    """What to measure, and in which traffic."""

    rule = forms.CharField(
        required=False,
        max_length=64,
        help_text="Measure what this rule counts, such as a log rule. Empty: use the next three fields.",
    )
    by = forms.CharField(
        required=False, initial="ip", max_length=500, label="Count by", help_text="Properties, joined by commas."
    )
    period = forms.CharField(required=False, initial="1m", max_length=20, help_text="30s, 1m, 2h, 1d")
    match = ConditionsField(
        required=False, empty=dict, initial=dict, label="Match (JSON)", help_text="Only requests that fit."
    )
    percent = forms.FloatField(
        min_value=0, max_value=100, initial=1.0, label="Refuse", help_text="Percent of all clients, at most."
    )
    field_order = ("limiter", "rule", "by", "period", "match", "percent", "traffic", "file")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        traffic: Any = self.fields["traffic"]
        traffic.choices = [
            (COUNTERS, "The counters of the rule, as they stand now"),
            (RECORD, "What was recorded"),
            (UPLOAD, "A file"),
        ]

    def clean(self) -> dict[str, Any]:
        """Make the rules to measure of what was said."""
        said = super().clean()
        if said.get("traffic") == COUNTERS and not said.get("rule"):
            raise ValidationError({"rule": "Say whose counters: the name of a rule in force."})
        if not self.errors:
            said["ruleset"] = self._ruleset(said)
        return said

    def _ruleset(self, said: dict[str, Any]) -> EngineRuleset:
        found = rulesets.get(said["limiter"])
        try:
            if said["rule"]:
                return distribution.only(found, said["rule"])
        except LookupError as error:
            raise ValidationError({"rule": str(error)}) from error
        try:
            parse_duration(said["period"] or "1m")
        except ValueError as error:
            raise ValidationError({"period": str(error)}) from error
        by = [name.strip() for name in said["by"].split(",") if name.strip()]
        try:
            return distribution.made(found, by, [said["period"] or "1m"], said["match"])
        except ValueError as error:
            raise ValidationError({"match" if "match" in str(error) else "by": str(error)}) from error


class SuggestPage(AdminPage):
    """Measures how many calls clients make, and suggests a limit."""

    name, route = "suggest", "suggest/"
    title = "Suggest a limit"
    template = "django_ratelimit_rules/suggest.html"
    ruleset_label = "Suggest"

    def context(self, request: HttpRequest) -> dict[str, Any]:
        """Return the form, and what a valid one measured."""
        measured: dict[str, Any] = {}
        if request.method == "POST":
            form = SuggestForm(request.POST, request.FILES)
            measured = _measured(form) if form.is_valid() else {}
        else:
            initial = {name: request.GET[name] for name in ("limiter", "rule") if name in request.GET}
            form = SuggestForm(initial={"traffic": COUNTERS if initial.get("rule") else RECORD, **initial})
        return {"form": form, "ruleset": Ruleset.objects.named(form["limiter"].value()), **measured}


def _measured(form: SuggestForm) -> dict[str, Any]:
    said = form.cleaned_data
    ruleset: EngineRuleset = said["ruleset"]
    rule = ruleset.rules[-1]
    if not rule.counts:
        return {"problem": f"Rule {rule.name} counts nothing."}
    bad, complete = 0, True
    untold: list[str] = []
    try:
        if said["traffic"] == COUNTERS:
            counted, complete = fullest_counters.pressures(ruleset.limiter, rule.name)
            found = distribution.of_counters(rule, counted)
        else:
            reader = form.reader([ruleset])
            (found,), untold = distribution.measure(ruleset, reader)
            bad = reader.bad.total
    except (TooLarge, OSError, EOFError, CountersUnavailable) as error:
        return {"problem": str(error)}
    except ValueError:
        return {"problem": f"The limit or period of {rule.name} is computed for each request."}
    percent = said["percent"]
    return {
        "found": found,
        "heading": suggestion_text.heading(found),
        "bad": bad,
        "complete": complete,
        "counted": suggestion_text.counted(found),
        "untold": untold,
        "percentiles": [(f"p{each}", found.percentile(each)) for each in PERCENTILES],
        "shares": found.shares(percent),
        "percent": percent,
        "limit": found.limit_for(percent),
        "chart": _chart(found, percent) if found.busiest else "",
        "draft": suggestion_text.draft(ruleset.limiter, found, percent) if found.busiest else "",
    }


def _chart(found: Distribution, percent: float) -> SafeString:
    """Return clients by the calls of their busiest window, each column twice as wide as the one before; those that the
    limit would refuse stand on top."""
    limit = found.limit_for(percent)
    last = found.most.bit_length()
    stacks, rows = [], []
    for bits in range(last + 1):
        low, high = (1 << bits) >> 1, (1 << bits) - 1
        within = [calls for calls in found.busiest if low <= calls <= high]
        refused = sum(calls > limit for calls in within)
        stacks.append(Stack(len(within) - refused, 0, refused))
        rows.append((str(low) if low >= high else f"{low:,} to {high:,}", len(within), refused))
    clients, _ = found.refused(limit)
    caption = format_html(
        "{} {} by the calls of their busiest window; a limit of {} refuses"
        ' <span class="ratelimit-word-blocked"><strong>{}</strong> of them</span>.',
        *(f"{len(found.busiest):,}", plural("client", len(found.busiest)), f"{limit:,}", f"{clients:,}"),
    )
    title, labels = "Clients by their busiest window", [str(name) for name, *_ in rows[1:]]
    drawn = figure("ratelimit-suggest", title, caption, stacks[1:], labels, STEP)
    return drawn + hidden_table(title, ("Calls", "Clients", "Refused"), rows[1:])
