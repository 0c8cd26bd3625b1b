"""The replay page: the effect that a draft would have had on recorded traffic, next to the effect of the live rules."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.formats import number_format
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from ...engine import Ruleset as EngineRuleset
from ...engine import sentence
from ...engine.durations import spell_span
from ...exceptions import CountersUnavailable, InvalidRulesFile
from ...models import Rule, Ruleset
from ...replay import (
    Refusal,
    Replay,
    Report,
    drafts,
    replay,
)
from ...replay.runner import Blocked
from ...replay.text_report import moment
from ...rulesets import file as rules_file
from ...rulesets import text as ruleset_text
from ...runtime.language import grouped, localized
from ..charts.svg import Stack, figure, hidden_table
from .base import AdminPage
from .traffic_form import TooLarge, TrafficForm

MOST_SHOWN = 20
COLUMNS, STEP, ROWS = 90, 8, 12


class ReplayForm(TrafficForm):
    """A draft, and the traffic to run it over."""

    draft = forms.CharField(
        required=False,
        strip=False,
        label=gettext_lazy("Draft"),
        help_text=gettext_lazy("YAML, as Export writes it. Empty: the rules in force."),
        widget=forms.Textarea(attrs={"rows": 16, "cols": 80, "spellcheck": "false", "class": "ratelimit-json"}),
    )
    enforce = forms.BooleanField(
        required=False,
        label=gettext_lazy("As if it enforced"),
        help_text=gettext_lazy("Block even if the mode is dry run or off."),
    )
    command = "ratelimit_replay"
    field_order = ("limiter", "draft", "enforce", "traffic", "file")

    def clean_draft(self) -> dict[str, Any]:
        """Return the rulesets of the draft, by limiter. Raises ValidationError, with line and reason."""
        try:
            return rules_file.read_text(self.cleaned_data["draft"], "draft")
        except InvalidRulesFile as error:
            raise ValidationError(localized(error)) from error

    def clean(self) -> dict[str, Any]:
        """Reject a draft without rules for the limiter."""
        data = super().clean()
        draft, limiter = data.get("draft"), data.get("limiter")
        if draft and limiter and limiter not in draft:
            message = _("The draft has no rules for %(limiter)s, only for %(others)s.")
            raise ValidationError({"draft": message % {"limiter": limiter, "others": ", ".join(draft)}})
        return data

    def rulesets(self) -> tuple[EngineRuleset | None, EngineRuleset | None]:
        """Return the ruleset to replay and the live ruleset to compare it with.

        Without a draft the live ruleset is replayed. It is compared with itself if it is to be enforced.
        """
        limiter, draft = self.cleaned_data["limiter"], self.cleaned_data["draft"]
        live = drafts.live([limiter]).get(limiter)
        if not draft:
            return live, live if self.cleaned_data["enforce"] else None
        return drafts.drafts({limiter: draft[limiter]})[limiter], live


class ReplayPage(AdminPage):
    """Runs a draft over recorded traffic."""

    name, route = "replay", "replay/"
    title = gettext_lazy("Replay")
    template = "django_ratelimit_rules/replay.html"
    list_label = ruleset_label = gettext_lazy("Replay")

    def context(self, request: HttpRequest) -> dict[str, Any]:
        """Return the form, and the report if the form is valid."""
        if request.method == "POST" and "replay" in request.POST:
            form = ReplayForm(request.POST, request.FILES)
            return _context(form, _replayed(form) if form.is_valid() else {})
        limiter = (request.POST.get("limiter") or request.GET.get("limiter", "")).replace("\0", "")
        draft = request.POST.get("draft") or ruleset_text.dump(ruleset_text.stored([limiter]))
        return _context(_form(limiter, draft))


class ReplayEditedPage(AdminPage):
    """Makes a draft of the unsaved rules on a ruleset's page. Nothing is saved."""

    name, route = "replay_edited", "<path:object_id>/replay/"
    title = ReplayPage.title
    template = ReplayPage.template

    def respond(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the form with the draft, or the ruleset's page again with its errors."""
        ruleset, admin = self.ruleset(request, object_id), self.admin
        if request.method != "POST":
            draft = ruleset_text.dump(ruleset_text.stored([ruleset.name]))
            return self.render(request, _context(_form(ruleset.name, draft)))
        form: Any = admin.get_form(request, ruleset, change=True)(request.POST, request.FILES, instance=ruleset)
        formsets: Any = admin._create_formsets(request, ruleset, change=True)[0]  # type: ignore[attr-defined]
        if not form.is_valid() or not all(formset.is_valid() for formset in formsets):
            # Show the page again with its errors. Django saves no page that is invalid.
            return admin.changeform_view(request, object_id)
        rules = [form.instance for formset in formsets for form in formset.forms if formset._is_rule(form)]
        rules.sort(key=lambda rule: (rule.position or 0, rule.pk or 2**63))
        return self.render(request, _context(_form(ruleset.name, _text(form.instance, rules))))


def _context(form: ReplayForm, replayed: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"form": form, "ruleset": Ruleset.objects.named(form["limiter"].value()), **(replayed or {})}


def _form(limiter: str, draft: str) -> ReplayForm:
    return ReplayForm(initial={"limiter": limiter, "draft": "" if draft == "{}\n" else draft})


def _text(ruleset: Ruleset, rules: list[Rule]) -> str:
    return ruleset_text.dump({ruleset.name: ruleset_text.of_row(ruleset, rules)})


def _replayed(form: ReplayForm) -> dict[str, Any]:
    """Return the context of a valid form: the report, or the problem that prevented it."""
    draft, live = form.rulesets()
    if draft is None:
        return {"problem": _("No rule is in force. Write a draft.")}
    lives = {} if live is None else {draft.limiter: live}
    try:
        reader = form.reader([draft, *lives.values()])
        report = replay({draft.limiter: draft}, lives, reader, enforce=form.cleaned_data["enforce"])
    except (TooLarge, OSError, EOFError, CountersUnavailable) as error:
        return {"problem": localized(error)}
    return shown(report)


def shown(report: Report) -> dict[str, Any]:
    """Return the context of a report of one limiter."""
    (only,) = report.replays
    order, draft = report.order, only.draft
    return {
        "report": report,
        "replay": only,
        "mode": draft.ruleset.mode,
        "first": moment(order.first) if order.first is not None else "",
        "last": moment(order.last),
        "verdict": _verdict(only),
        "lateness": localized(spell_span(order.lateness)),
        "rules": [(rule, localized(sentence(rule)), numbers, before) for rule, numbers, before in only.rules],
        "gone": list(only.gone),
        "clients": [_client(*item) for item in only.heaviest(MOST_SHOWN)],
        "differences": _differences(only),
        "added": only.difference.added.total(),
        "removed": only.difference.removed.total(),
        "chart": _chart(only),
    }


def _verdict(only: Replay) -> str:
    blocked, requests = only.draft.refused, only.draft.requests
    if not requests:
        return _("%(limiter)s: no request was replayed") % {"limiter": only.limiter}
    percent = number_format(f"{100 * blocked / requests:.2f}", use_l10n=True)
    return ngettext(
        "%(limiter)s: %(blocked)s of %(requests)s request would have been blocked (%(percent)s %%)",
        "%(limiter)s: %(blocked)s of %(requests)s requests would have been blocked (%(percent)s %%)",
        requests,
    ) % {"limiter": only.limiter, "blocked": grouped(blocked), "requests": grouped(requests), "percent": percent}


def _client(refusal: Refusal, blocked: Blocked) -> dict[str, Any]:
    spells = [(_when(spell.since, spell.until), spell.calls) for spell in blocked.spells]
    return {
        "rule": refusal.rule,
        "who": refusal.who,
        "calls": blocked.calls,
        "spells": spells,
        "more": blocked.times - len(spells),
        "for": _("for good") if blocked.forever else localized(spell_span(blocked.milliseconds)),
    }


def _when(since: int, until: int | None) -> str:
    if until is None:
        return _("%(moment)s for good") % {"moment": moment(since)}
    return _("%(moment)s for %(duration)s") % {
        "moment": moment(since),
        "duration": localized(spell_span(until - since)),
    }


def _differences(only: Replay) -> list[tuple[str, str, str, int]]:
    if only.live is None:
        return []
    rows = []
    more, no_longer = pgettext("blocked", "more"), pgettext("blocked", "no longer")
    for word, counter in ((more, only.difference.added), (no_longer, only.difference.removed)):
        ranked = sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:MOST_SHOWN]
        rows += [(word, refusal.rule, refusal.who, number) for refusal, number in ranked]
    return rows


def _chart(only: Replay) -> SafeString | str:
    width, columns = only.draft.course.columns(COLUMNS)
    if not columns:
        return ""
    stacks = [Stack(part.calls - part.exceeded, part.exceeded - part.blocked, part.blocked) for part in columns]
    caption = mark_safe(
        ngettext(
            '<strong>%(calls)s</strong> call, <span class="ratelimit-word-exceeded"><strong>%(exceeded)s</strong>'
            ' over a limit</span>, <span class="ratelimit-word-blocked"><strong>%(blocked)s</strong> blocked</span>,'
            " at most %(most)s in %(duration)s.",
            '<strong>%(calls)s</strong> calls, <span class="ratelimit-word-exceeded"><strong>%(exceeded)s</strong>'
            ' over a limit</span>, <span class="ratelimit-word-blocked"><strong>%(blocked)s</strong> blocked</span>,'
            " at most %(most)s in %(duration)s.",
            only.draft.requests,
        )
        % {
            "calls": grouped(only.draft.requests),
            "exceeded": grouped(only.draft.exceeded),
            "blocked": grouped(only.draft.refused),
            "most": grouped(max(part.calls for part in columns)),
            "duration": localized(spell_span(width)),
        }
    )
    ends = moment(columns[0].start), moment(columns[-1].start + width)
    title = _("%(limiter)s: the traffic over time") % {"limiter": only.limiter}
    drawn = figure("ratelimit-replay", title, caption, stacks, ends, STEP)
    span, rows = only.draft.course.columns(ROWS)
    table = hidden_table(
        _("The traffic in steps of %(duration)s") % {"duration": localized(spell_span(span))},
        (_("From"), _("Calls"), _("Over a limit"), _("Blocked")),
        [(moment(part.start), part.calls, part.exceeded, part.blocked) for part in rows],
    )
    return drawn + table
