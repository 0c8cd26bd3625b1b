"""Switches: the mode of a ruleset, and a rule from log to limit and back, each after a page that shows the effects."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ... import rulesets
from ...engine import Action
from ...legacy.divergence import TARGET, Divergence
from ...models import Rule, Ruleset
from ...rulesets import history
from ...rulesets import text as ruleset_text
from ...rulesets.history import Author
from ...rulesets.tiers import Tier, TierRules
from ...runtime.language import grouped
from .. import permissions
from ..charts import divergence as divergence_chart
from ..charts import last_hour as hour_of_rules
from ..links import Link
from . import actions
from .base import AdminPage
from .confirmation import PendingChange, confirm

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True, slots=True)
class Switch:
    """A mode that a ruleset can be switched to, with its texts. ``action`` is the entry in the history."""

    label: StrOrPromise
    title: StrOrPromise
    effect: StrOrPromise
    action: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of a rule's action, with its texts. ``entry`` is the entry in the history."""

    before: str
    after: str
    label: StrOrPromise
    title: StrOrPromise
    effect: StrOrPromise
    entry: str


MODES = {
    "enforce": Switch(
        gettext_lazy("Enforce"),
        gettext_lazy("Enforce: %(ruleset)s"),
        gettext_lazy("Clients over a limit are blocked again at once. Counters keep their counts."),
        actions.ENFORCED,
    ),
    "dry_run": Switch(
        gettext_lazy("Dry run"),
        gettext_lazy("Dry run: %(ruleset)s"),
        gettext_lazy(
            "All rules count and report as before, but no request is blocked, and responses have no rate limit headers."
        ),
        actions.DRY_RUN,
    ),
    "off": Switch(
        gettext_lazy("Switch off"),
        gettext_lazy("Switch off: %(ruleset)s"),
        gettext_lazy("Every request passes. Nothing is counted or measured until the ruleset is switched back."),
        actions.SWITCHED_OFF,
    ),
}
TURNS = {
    "promote": Turn(
        "log",
        "limit",
        gettext_lazy("Promote"),
        gettext_lazy("Promote %(rule)s: log → limit"),
        gettext_lazy("Clients over this limit are blocked from now on. The rule keeps its counters."),
        actions.PROMOTED,
    ),
    "demote": Turn(
        "limit",
        "log",
        gettext_lazy("Demote"),
        gettext_lazy("Demote %(rule)s: limit → log"),
        gettext_lazy("This rule no longer blocks any client. It still counts and reports."),
        actions.DEMOTED,
    ),
}


class SwitchPage(AdminPage):
    """Switches a ruleset's mode, after a confirmation."""

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
                # Update only this column, because a rule that cannot be read must not prevent switching off.
                Ruleset.objects.filter(pk=ruleset.pk).update(mode=mode)

        switch = MODES[mode]
        compared = divergence_chart.found(ruleset.name) if mode == "enforce" else None
        pending = PendingChange(
            title=switch.title % {"ruleset": ruleset.name},
            action=switch.action,
            button=str(switch.label),
            names=[ruleset.name],
            before=before,
            after=after,
            perform=perform,
            done=self.links.to("change", ruleset.pk),
            effects=[str(switch.effect), *_blocking(ruleset.name, mode), *_compared(compared)],
            warnings=[*_mode_above(ruleset.name), *_disagreeing(compared)],
            numbers=hour_of_rules.of_ruleset(ruleset.name),
            ruleset=ruleset,
        )
        return confirm(self, request, pending)

    def ruleset_links(self, ruleset: Ruleset) -> Iterator[Link]:
        """Yield a link for each mode that the ruleset can be switched to."""
        for mode, switch in MODES.items():
            if mode != (ruleset.mode or "enforce"):
                yield Link(switch.label, self.links.to(self.name, ruleset.pk, mode))


class TurnPage(AdminPage):
    """Turns a log rule into a limit, or a limit into a log rule, after a confirmation."""

    name, route = "turn", "<path:object_id>/rules/<int:rule_id>/<slug:turn>/"
    needs = (permissions.LIMITS,)

    def respond(self, request: HttpRequest, object_id: str, rule_id: int, turn: str) -> HttpResponse:
        """Ask for the confirmation, or turn the rule."""
        rule = Rule.objects.select_related("ruleset").filter(pk=rule_id).first()
        if rule is None or str(rule.ruleset_id) != object_id or turn not in TURNS or rule.action != TURNS[turn].before:
            raise Http404
        ruleset = rule.ruleset
        texts, action = TURNS[turn], TURNS[turn].after
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
            title=texts.title % {"rule": rule.name},
            action=texts.entry % {"rule": rule.name},
            button=str(texts.label),
            names=[ruleset.name],
            before=before,
            after=after,
            perform=perform,
            done=self.links.to("change", ruleset.pk),
            effects=[str(texts.effect)],
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
    # Include the limits of code and file, because the mode applies to them too. Expired limits are not in force.
    limits = [rule.name for rule in rulesets.get(limiter).rules if rule.action is Action.LIMIT]
    if not limits:
        return
    if mode == "enforce":
        sentence = ngettext(
            "%(number)s limit will block: %(rules)s.", "%(number)s limits will block: %(rules)s.", len(limits)
        )
    else:
        sentence = ngettext(
            "%(number)s limit will no longer block: %(rules)s.",
            "%(number)s limits will no longer block: %(rules)s.",
            len(limits),
        )
    yield sentence % {"number": grouped(len(limits)), "rules": ", ".join(limits)}


def _compared(compared: Divergence | None) -> Iterator[str]:
    if compared:
        yield divergence_chart.said(compared)


def _mode_above(limiter: str) -> Iterator[str]:
    stated = rulesets.stated(limiter).get(Tier.FILE, TierRules()).mode
    if stated:
        sentence = _("The rules file sets the mode %(mode)s and takes precedence, so this has no effect.")
        yield sentence % {"mode": stated}


def _disagreeing(compared: Divergence | None) -> Iterator[str]:
    if compared and compared.day.share > TARGET:
        sentence = _(
            "This limiter and the legacy limiter disagree in more than %(target)s %% of the comparisons, the target."
        )
        yield sentence % {"target": divergence_chart.percent(TARGET)}


def _hidden(ruleset: Ruleset, rule: Rule) -> Iterator[str]:
    if any(above.name == rule.name for above in rulesets.stated(ruleset.name).get(Tier.FILE, TierRules()).rules):
        yield _("The rules file has a rule of this name and takes precedence, so this has no effect.")
    if not rule.enabled:
        yield _("The rule is disabled. This has no effect until it is enabled.")
    if ruleset.mode in ("dry_run", "off"):
        sentence = _("The mode of the ruleset is %(mode)s. No client is blocked until it is switched back.")
        yield sentence % {"mode": ruleset.mode}
