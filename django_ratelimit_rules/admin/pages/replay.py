"""The replay page: what a draft would have done to recorded traffic, beside what the live rules would."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

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
from ...replay.text_report import moment, share
from ...rulesets import file as rules_file
from ...rulesets import text as ruleset_text
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
        label="Draft",
        help_text="As Export writes it. Empty: the rules in force.",
        widget=forms.Textarea(attrs={"rows": 16, "cols": 80, "spellcheck": "false", "class": "ratelimit-json"}),
    )
    enforce = forms.BooleanField(
        required=False, label="As if it enforced", help_text="Also when its mode is dry run or off."
    )
    field_order = ("limiter", "draft", "enforce", "traffic", "file")

    def clean_draft(self) -> dict[str, Any]:
        """Return what the draft says, by limiter. Raises ValidationError, with line and reason."""
        try:
            return rules_file.read_text(self.cleaned_data["draft"], "draft")
        except InvalidRulesFile as error:
            raise ValidationError(str(error)) from error

    def clean(self) -> dict[str, Any]:
        """Refuse a draft that says nothing of the limiter."""
        said = super().clean()
        draft, limiter = said.get("draft"), said.get("limiter")
        if draft and limiter and limiter not in draft:
            raise ValidationError({"draft": f"It says nothing of {limiter}, only of {', '.join(draft)}."})
        return said

    def rulesets(self) -> tuple[EngineRuleset | None, EngineRuleset | None]:
        """Return what would be in force, and what is; the latter alone is what would be, where there is no draft."""
        limiter, draft = self.cleaned_data["limiter"], self.cleaned_data["draft"]
        live = drafts.live([limiter]).get(limiter)
        if not draft:
            return live, live if self.cleaned_data["enforce"] else None
        return drafts.drafts({limiter: draft[limiter]})[limiter], live


class ReplayPage(AdminPage):
    """Runs a draft over recorded traffic."""

    name, route = "replay", "replay/"
    title = "Replay"
    template = "django_ratelimit_rules/replay.html"
    list_label = ruleset_label = "Replay"

    def context(self, request: HttpRequest) -> dict[str, Any]:
        """Return the form, and what a valid one did."""
        if request.method == "POST" and "replay" in request.POST:
            form = ReplayForm(request.POST, request.FILES)
            return _context(form, _replayed(form) if form.is_valid() else {})
        limiter = (request.POST.get("limiter") or request.GET.get("limiter", "")).replace("\0", "")
        draft = request.POST.get("draft") or ruleset_text.dump(ruleset_text.stored([limiter]))
        return _context(_form(limiter, draft))


class ReplayEditedPage(AdminPage):
    """Takes a ruleset's page as it was edited for the draft. Nothing is saved."""

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
        rules = [each.instance for formset in formsets for each in formset.forms if formset._is_rule(each)]
        rules.sort(key=lambda rule: (rule.position or 0, rule.pk or 2**63))
        return self.render(request, _context(_form(ruleset.name, _text(form.instance, rules))))


def _context(form: ReplayForm, replayed: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"form": form, "ruleset": Ruleset.objects.named(form["limiter"].value()), **(replayed or {})}


def _form(limiter: str, draft: str) -> ReplayForm:
    return ReplayForm(initial={"limiter": limiter, "draft": "" if draft == "{}\n" else draft})


def _text(ruleset: Ruleset, rules: list[Rule]) -> str:
    return ruleset_text.dump({ruleset.name: ruleset_text.of_row(ruleset, rules)})


def _replayed(form: ReplayForm) -> dict[str, Any]:
    """Return what a replay says, as the page shows it."""
    draft, live = form.rulesets()
    if draft is None:
        return {"problem": "No rule is in force: write a draft."}
    lives = {} if live is None else {draft.limiter: live}
    try:
        reader = form.reader([draft, *lives.values()])
        report = replay({draft.limiter: draft}, lives, reader, enforce=form.cleaned_data["enforce"])
    except (TooLarge, OSError, EOFError, CountersUnavailable) as error:
        return {"problem": str(error)}
    return shown(report)


def shown(report: Report) -> dict[str, Any]:
    """Return a report of one limiter as the page shows it."""
    (only,) = report.replays
    order, draft = report.order, only.draft
    return {
        "report": report,
        "replay": only,
        "mode": draft.ruleset.mode,
        "first": moment(order.first) if order.first is not None else "",
        "last": moment(order.last),
        "blocked": share(draft.refused, draft.requests),
        "lateness": spell_span(order.lateness),
        "rules": [(rule, sentence(rule), numbers, before) for rule, numbers, before in only.rules],
        "gone": list(only.gone),
        "clients": [_client(*each) for each in only.heaviest(MOST_SHOWN)],
        "differences": _differences(only),
        "added": only.difference.added.total(),
        "removed": only.difference.removed.total(),
        "chart": _chart(only),
    }


def _client(refusal: Refusal, blocked: Blocked) -> dict[str, Any]:
    spells = [
        (moment(spell.since), "for good" if spell.until is None else f"for {spell_span(spell.until - spell.since)}",
         spell.calls)
        for spell in blocked.spells
    ]  # fmt: skip
    return {
        "rule": refusal.rule,
        "who": refusal.who,
        "calls": blocked.calls,
        "spells": spells,
        "more": blocked.times - len(spells),
        "for": "for good" if blocked.forever else spell_span(blocked.milliseconds),
    }


def _differences(only: Replay) -> list[tuple[str, str, str, int]]:
    if only.live is None:
        return []
    rows = []
    for word, counter in (("more", only.difference.added), ("no longer", only.difference.removed)):
        ranked = sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:MOST_SHOWN]
        rows += [(word, refusal.rule, refusal.who, number) for refusal, number in ranked]
    return rows


def _chart(only: Replay) -> SafeString | str:
    width, columns = only.draft.course.columns(COLUMNS)
    if not columns:
        return ""
    stacks = [Stack(each.calls - each.exceeded, each.exceeded - each.blocked, each.blocked) for each in columns]
    caption = format_html(
        '<strong>{}</strong> calls, <span class="ratelimit-word-exceeded"><strong>{}</strong> over a limit</span>, '
        '<span class="ratelimit-word-blocked"><strong>{}</strong> blocked</span>; at most {} in {}.',
        *(f"{number:,}" for number in (only.draft.requests, only.draft.exceeded, only.draft.refused)),
        *(f"{max(each.calls for each in columns):,}", spell_span(width)),
    )
    ends = moment(columns[0].start), moment(columns[-1].start + width)
    drawn = figure("ratelimit-replay", f"{only.limiter}: the traffic over time", caption, stacks, ends, STEP)
    span, rows = only.draft.course.columns(ROWS)
    table = hidden_table(
        f"The traffic by {spell_span(span)}",
        ("From", "Calls", "Over a limit", "Blocked"),
        [(moment(each.start), each.calls, each.exceeded, each.blocked) for each in rows],
    )
    return drawn + table
