"""The suggest page: the number of calls that clients make, and a draft rule that blocks a chosen share of clients."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ... import rulesets
from ...engine import Ruleset as EngineRuleset
from ...engine.durations import parse_duration
from ...exceptions import CountersUnavailable
from ...models import Ruleset
from ...monitoring import fullest_counters
from ...replay import distribution, suggestion_text
from ...replay.distribution import PERCENTILES, Distribution
from ...runtime.language import grouped, localized
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
    """The calls to measure, and the traffic that contains them."""

    rule = forms.CharField(
        required=False,
        max_length=64,
        label=gettext_lazy("Rule"),
        help_text=gettext_lazy("Measure the calls that this rule counts. Empty: use the next three fields."),
    )
    by = forms.CharField(
        required=False,
        initial="ip",
        max_length=500,
        label=gettext_lazy("Count by"),
        help_text=gettext_lazy("Properties, separated by commas."),
    )
    period = forms.CharField(
        required=False, initial="1m", max_length=20, label=gettext_lazy("Period"), help_text="30s, 1m, 2h, 1d"
    )
    match = ConditionsField(
        required=False,
        empty=dict,
        initial=dict,
        label=gettext_lazy("Match (JSON)"),
        help_text=gettext_lazy("Measure only requests that match."),
    )
    percent = forms.FloatField(
        min_value=0,
        max_value=100,
        initial=1.0,
        label=gettext_lazy("Block"),
        help_text=gettext_lazy("Percent of all clients, at most."),
    )
    command = "ratelimit_suggest"
    field_order = ("limiter", "rule", "by", "period", "match", "percent", "traffic", "file")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        traffic: Any = self.fields["traffic"]
        traffic.choices = [
            (COUNTERS, _("The present counters of the rule")),
            (RECORD, _("The recorded calls")),
            (UPLOAD, _("A file")),
        ]

    def clean(self) -> dict[str, Any]:
        """Add the ruleset to measure as ``ruleset``."""
        data = super().clean()
        if data.get("traffic") == COUNTERS and not data.get("rule"):
            raise ValidationError({"rule": _("Enter the name of a rule in force, whose counters are to be measured.")})
        if not self.errors:
            data["ruleset"] = self._ruleset(data)
        return data

    def _ruleset(self, data: dict[str, Any]) -> EngineRuleset:
        live = rulesets.get(data["limiter"])
        try:
            if data["rule"]:
                return distribution.only(live, data["rule"])
        except LookupError as error:
            raise ValidationError({"rule": localized(error)}) from error
        try:
            parse_duration(data["period"] or "1m")
        except ValueError as error:
            raise ValidationError({"period": localized(error)}) from error
        by = [name.strip() for name in data["by"].split(",") if name.strip()]
        try:
            return distribution.made(live, by, [data["period"] or "1m"], data["match"])
        except ValueError as error:
            raise ValidationError({"match" if "match" in str(error) else "by": localized(error)}) from error


class SuggestPage(AdminPage):
    """Measures how many calls clients make, and suggests a limit."""

    name, route = "suggest", "suggest/"
    title = gettext_lazy("Suggest a limit")
    template = "django_ratelimit_rules/suggest.html"
    ruleset_label = gettext_lazy("Suggest")

    def context(self, request: HttpRequest) -> dict[str, Any]:
        """Return the form, and the measurement if the form is valid."""
        measured: dict[str, Any] = {}
        if request.method == "POST":
            form = SuggestForm(request.POST, request.FILES)
            measured = _measured(form) if form.is_valid() else {}
        else:
            initial = {name: request.GET[name] for name in ("limiter", "rule") if name in request.GET}
            form = SuggestForm(initial={"traffic": COUNTERS if initial.get("rule") else RECORD, **initial})
        return {"form": form, "ruleset": Ruleset.objects.named(form["limiter"].value()), **measured}


def _measured(form: SuggestForm) -> dict[str, Any]:
    data = form.cleaned_data
    ruleset: EngineRuleset = data["ruleset"]
    rule = ruleset.rules[-1]
    if not rule.counts:
        return {"problem": _("Rule %(rule)s counts nothing.") % {"rule": rule.name}}
    bad, complete = 0, True
    missing: list[str] = []
    try:
        if data["traffic"] == COUNTERS:
            counted, complete = fullest_counters.pressures(ruleset.limiter, rule.name)
            measured = distribution.of_counters(rule, counted)
        else:
            reader = form.reader([ruleset])
            (measured,), missing = distribution.measure(ruleset, reader)
            bad = reader.bad.total
    except (TooLarge, OSError, EOFError, CountersUnavailable) as error:
        return {"problem": localized(error)}
    except ValueError:
        problem = _("The limit or period of %(rule)s is computed for each request.") % {"rule": rule.name}
        return {"problem": problem}
    percent = data["percent"]
    return {
        "found": measured,
        "heading": localized(suggestion_text.heading(measured)),
        "bad": bad,
        "complete": complete,
        "counted": localized(suggestion_text.counted(measured)),
        "untold": missing,
        "percentiles": [(f"p{number}", measured.percentile(number)) for number in PERCENTILES],
        "shares": measured.shares(percent),
        "percent": percent,
        "limit": measured.limit_for(percent),
        "chart": _chart(measured, percent) if measured.busiest else "",
        "draft": suggestion_text.draft(ruleset.limiter, measured, percent) if measured.busiest else "",
    }


def _chart(measured: Distribution, percent: float) -> SafeString:
    """Return a chart of clients by the calls of their busiest window.

    Each column covers twice as many numbers of calls as the column before. Clients over the limit are on top.
    """
    limit = measured.limit_for(percent)
    last = measured.most.bit_length()
    stacks, rows = [], []
    for bits in range(last + 1):
        low, high = (1 << bits) >> 1, (1 << bits) - 1
        within = [calls for calls in measured.busiest if low <= calls <= high]
        refused = sum(calls > limit for calls in within)
        stacks.append(Stack(len(within) - refused, 0, refused))
        rows.append((_range(low, high), len(within), refused))
    clients = measured.refused(limit)[0]
    caption = mark_safe(
        ngettext(
            "%(clients)s client by the calls of its busiest window. A limit of %(limit)s blocks"
            ' <span class="ratelimit-word-blocked"><strong>%(blocked)s</strong> of them</span>.',
            "%(clients)s clients by the calls of their busiest window. A limit of %(limit)s blocks"
            ' <span class="ratelimit-word-blocked"><strong>%(blocked)s</strong> of them</span>.',
            len(measured.busiest),
        )
        % {"clients": grouped(len(measured.busiest)), "limit": grouped(limit), "blocked": grouped(clients)}
    )
    title, labels = _("Clients by their busiest window"), [row[0] for row in rows[1:]]
    drawn = figure("ratelimit-suggest", title, caption, stacks[1:], labels, STEP)
    return drawn + hidden_table(title, (_("Calls"), _("Clients"), _("Blocked")), rows[1:])


def _range(low: int, high: int) -> str:
    if low >= high:
        return str(low)
    return _("%(low)s to %(high)s") % {"low": grouped(low), "high": grouped(high)}
