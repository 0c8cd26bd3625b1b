"""Switches: a ruleset to dry run or off and back, a rule from log to limit and back, each after a page that says what
will happen.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from django.http import Http404, HttpRequest, HttpResponse

from ... import rulesets
from ...engine import Action
from ...legacy.divergence import TARGET, Divergence
from ...models import Rule, Ruleset
from ...replay.text_report import plural
from ...rulesets import history
from ...rulesets import text as ruleset_text
from ...rulesets.history import Author
from ...rulesets.tiers import Tier, TierRules
from .. import permissions
from ..charts import divergence as divergence_chart
from ..charts import last_hour as hour_of_rules
from ..links import Link
from .base import AdminPage
from .confirmation import PendingChange, confirm

MODES = {
    "enforce": ("Enforce", "Clients over a limit are blocked again at once; counts go on from where they stand."),
    "dry_run": (
        "Dry run",
        "All rules count and report as before, but nobody is blocked, and answers carry no headers.",
    ),
    "off": ("Switch off", "Every request passes. Nothing is counted or measured until the ruleset is switched back."),
}
# Action of a rule now, and what it becomes.
TURNS = {
    "promote": ("log", "limit", "Clients over this limit are blocked from now on; its counters are kept."),
    "demote": ("limit", "log", "Nobody is blocked by this rule any more; it goes on counting, and reports."),
}


class SwitchPage(AdminPage):
    """Switches a ruleset's mode, once that is confirmed."""

    name, route = "switch", "<path:object_id>/switch/<slug:mode>/"
    needs = (permissions.SWITCH,)

    def respond(self, request: HttpRequest, object_id: str, mode: str) -> HttpResponse:
        """Ask for the confirmation, or switch."""
        ruleset = self.ruleset(request, object_id)
        if mode not in MODES:
            raise Http404
        before = ruleset_text.stored([ruleset.name])
        after = copy.deepcopy(before)
        after[ruleset.name]["mode"] = mode

        def perform(author: Author) -> None:
            with history.changing([ruleset.name], author):
                # Update this column only, because a rule that cannot be read must not block the off switch.
                Ruleset.objects.filter(pk=ruleset.pk).update(mode=mode)

        label, effect = MODES[mode]
        compared = divergence_chart.found(ruleset.name) if mode == "enforce" else None
        pending = PendingChange(
            title=f"{label}: {ruleset.name}",
            action=f"switched to {mode.replace('_', ' ')}",
            button=label,
            names=[ruleset.name],
            before=before,
            after=after,
            perform=perform,
            done=self.links.to("change", ruleset.pk),
            effects=[effect, *_blocking(ruleset.name, mode), *([divergence_chart.said(compared)] if compared else [])],
            warnings=[*_mode_above(ruleset.name), *_disagreeing(compared)],
            numbers=hour_of_rules.of_ruleset(ruleset.name),
            ruleset=ruleset,
        )
        return confirm(self, request, pending)

    def ruleset_links(self, ruleset: Ruleset) -> Iterator[Link]:
        """Yield a link for each mode that the ruleset can be switched to."""
        for mode, (label, _) in MODES.items():
            if mode != (ruleset.mode or "enforce"):
                yield Link(label, self.links.to(self.name, ruleset.pk, mode))


class TurnPage(AdminPage):
    """Makes a log rule a limit, or a limit a log rule, once that is confirmed."""

    name, route = "turn", "<path:object_id>/rules/<int:rule_id>/<slug:turn>/"
    needs = (permissions.LIMITS,)

    def respond(self, request: HttpRequest, object_id: str, rule_id: int, turn: str) -> HttpResponse:
        """Ask for the confirmation, or turn the rule."""
        rule = Rule.objects.select_related("ruleset").filter(pk=rule_id).first()
        if rule is None or str(rule.ruleset_id) != object_id or turn not in TURNS or rule.action != TURNS[turn][0]:
            raise Http404
        ruleset = rule.ruleset
        _, action, effect = TURNS[turn]
        before = ruleset_text.stored([ruleset.name])
        after = copy.deepcopy(before)
        for spec in after[ruleset.name]["rules"]:
            if spec["name"] == rule.name:
                spec.update(ruleset_text.rule_of_row(_turned(rule, action)))
                if action == "limit":
                    spec.pop("action", None)

        def perform(author: Author) -> None:
            with history.changing([ruleset.name], author):
                Rule.objects.filter(pk=rule.pk).update(action=action)

        pending = PendingChange(
            title=f"{turn.capitalize()} {rule.name}: {TURNS[turn][0]} → {action}",
            action=f"{turn}d {rule.name} to {action}",
            button=turn.capitalize(),
            names=[ruleset.name],
            before=before,
            after=after,
            perform=perform,
            done=self.links.to("change", ruleset.pk),
            effects=[effect],
            warnings=list(_hidden(ruleset, rule)),
            numbers=hour_of_rules.of_rule(ruleset.name, rule.name),
            ruleset=ruleset,
        )
        return confirm(self, request, pending)


def _turned(rule: Rule, action: str) -> Rule:
    rule = copy.copy(rule)
    rule.action = action
    return rule


def _blocking(limiter: str, mode: str) -> Iterator[str]:
    # Of all tiers: the mode holds for those of code and file, too, and an expired one blocks nobody anyhow.
    limits = [rule.name for rule in rulesets.get(limiter).rules if rule.action is Action.LIMIT]
    if limits:
        verb = "will block" if mode == "enforce" else "will no longer block"
        yield f"{len(limits)} {plural('limit', len(limits))} {verb}: {', '.join(limits)}."


def _mode_above(limiter: str) -> Iterator[str]:
    stated = rulesets.stated(limiter).get(Tier.FILE, TierRules()).mode
    if stated:
        yield f"The rules file states the mode {stated.replace('_', ' ')}, and takes precedence: this has no effect."


def _disagreeing(compared: Divergence | None) -> Iterator[str]:
    if compared and compared.day.share > TARGET:
        yield f"This limiter and the legacy limiter disagree in more than {TARGET:.1%} of the comparisons, the target."


def _hidden(ruleset: Ruleset, rule: Rule) -> Iterator[str]:
    if any(above.name == rule.name for above in rulesets.stated(ruleset.name).get(Tier.FILE, TierRules()).rules):
        yield "The rules file has a rule of this name, and takes precedence: this has no effect."
    if not rule.enabled:
        yield "The rule is disabled: this has no effect until it is enabled."
    if ruleset.mode in ("dry_run", "off"):
        yield f"The ruleset is in {ruleset.mode.replace('_', ' ')}: nobody is blocked before it is switched back."
