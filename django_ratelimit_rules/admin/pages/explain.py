"""The explain page: the answer that a limiter would give now, or the answer that blocked a request in the last hour.

The page only reads, except for one button that resets the counters of the identifier in the form.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ...engine import Explanation, Mode, Outcome
from ...engine.durations import spell_duration, spell_span
from ...engine.values import ANONYMOUS, escape_surrogates
from ...exceptions import CountersUnavailable
from ...limiter import Limiter
from ...models import Ruleset
from ...monitoring import decisions
from ...rulesets import limiter_names
from ...runtime.language import grouped, localized
from .. import permissions
from ..ruleset_form.ruleset import MAX_REASON
from . import actions
from .base import AdminPage
from .explain_form import ASK, ASKABLE, AskingForm

MAX_KEYS_NOTED = 20


class ExplainPage(AdminPage):
    """Explains answers, and resets counters."""

    name, route = "explain", "explain/"
    title = gettext_lazy("Explain")
    template = "django_ratelimit_rules/explain.html"
    list_label = ruleset_label = gettext_lazy("Explain")

    def context(self, request: HttpRequest) -> dict[str, Any]:
        """Return the form with its explanation, or the explanation kept for ``?decision=``."""
        limiters = limiter_names.chosen()
        asked = request.POST if request.method == "POST" else request.GET if ASK in request.GET else None
        initial = {name: request.GET[name] for name in ASKABLE if name in request.GET}
        form = AskingForm(asked, initial=initial, limiters=limiters, host=request.get_host())
        decision = _pasted(request.GET.get("decision", ""))
        context: dict[str, Any] = {"form": form, "decision": decision, "max_reason": MAX_REASON}
        explanation = None
        if asked is not None and form.is_valid():
            explanation = self._answer(request, form)
            context["counters"] = [rule for rule in explanation.rules if rule.counter]
            context["may_reset"] = permissions.may(request, permissions.RESET)
        elif decision:
            explanation, context["at"] = _kept(request, decision)
            form.initial.update(_asked_then(explanation) if explanation else {})
        if explanation:
            ruleset = Ruleset.objects.filter(name=explanation.limiter).first()
            context["editable"] = set(ruleset.rules.values_list("name", flat=True)) if ruleset else set()
            context |= {"said": _shown(explanation), "ruleset": ruleset}
        return context

    def _answer(self, request: HttpRequest, form: AskingForm) -> Explanation:
        identifier, made_up, lacking = form.identifier()
        for problem in lacking:
            messages.warning(request, problem)
        limiter = Limiter(form.cleaned_data["limiter"])
        reason = request.POST.get("reason", "").strip()[:MAX_REASON]
        if "reset" in request.POST:
            permissions.require(request, permissions.RESET)
            if reason:
                self._reset(request, limiter, identifier, limiter.explain(identifier, made_up), reason)
            else:
                messages.error(request, _("Nothing was reset. Enter a reason for the history."))
        return limiter.explain(identifier, made_up)

    def _reset(
        self, request: HttpRequest, limiter: Limiter, identifier: dict[str, Any], seen: Explanation, reason: str
    ) -> None:
        try:
            number = limiter.reset(identifier)
        except CountersUnavailable as error:
            messages.error(request, _("Nothing was reset: %(error)s") % {"error": localized(error)})
            return
        message = ngettext(
            "Reset %(number)s counter of %(limiter)s.", "Reset %(number)s counters of %(limiter)s.", number
        )
        messages.success(request, message % {"number": grouped(number), "limiter": limiter.name})
        keys = [f"{rule.name} {rule.counter}" for rule in seen.rules if rule.counter]
        noted = ", ".join(keys[:MAX_KEYS_NOTED]) + (" and more" if len(keys) > MAX_KEYS_NOTED else "")
        ruleset = Ruleset.objects.filter(name=limiter.name).first()
        entry = actions.RESET_ONE if number == 1 else actions.RESET
        # ModelAdmin.log_change needs a row, but a limiter of code or file has none. The entry is stored in English.
        LogEntry.objects.create(
            user_id=str(request.user.pk),
            content_type_id=ContentType.objects.get_for_model(Ruleset).pk,
            object_id=str(ruleset.pk) if ruleset else None,
            object_repr=limiter.name,
            action_flag=CHANGE,
            change_message=entry % {"number": number, "counters": noted, "reason": reason},
        )


def _kept(request: HttpRequest, decision: str) -> tuple[Explanation | None, datetime | None]:
    """Return the explanation kept for a decision, and its time.

    Adds a message and returns (None, None) if there is none.
    """
    try:
        kept = decisions.find(decision)
        if kept is not None:
            at = timezone.localtime(datetime.fromtimestamp(float(kept.get("at", 0)), UTC))
            return Explanation.from_dict(kept), at
    except CountersUnavailable as error:
        messages.error(request, localized(error))
        return None, None
    except (LookupError, TypeError, ValueError):
        # The explanation was kept by another release of this app, with other fields.
        pass
    message = _(
        "There is no record of decision “%(decision)s”. Only some blocked requests are recorded, each for an hour."
    )
    messages.warning(request, message % {"decision": decision})
    return None, None


def _pasted(text: str) -> str:
    """Return the decision id in a string pasted from a response or a log line."""
    return re.split(r'[\s:="]+', text[:80].strip(' \t",.'))[-1][:40]


def _asked_then(explanation: Explanation) -> dict[str, str]:
    """Return the form's fields for the blocked client, so that operators can ask again and reset its counters."""
    known = {**dict(explanation.values), "limiter": explanation.limiter}
    return {name: text for name, text in known.items() if name in ASKABLE and text not in (None, ANONYMOUS)}


def verdict(explanation: Explanation) -> str:
    """Return the answer in one sentence."""
    if explanation.mode is Mode.OFF:
        return _("Allowed: the ruleset is off, and nothing is counted.")
    blocked = explanation.action is Outcome.BLOCK
    if explanation.error:
        if blocked:
            return _("Blocked: the check failed, so the failure mode decided.")
        return _("Allowed: the check failed, so the failure mode decided.")
    wait = explanation.retry_after
    if blocked and wait is None:
        return _("Blocked by %(rule)s. Waiting does not help.") % {"rule": explanation.rule}
    if blocked and wait is not None:
        sentence = _("Blocked by %(rule)s. The request may pass in %(time)s.")
        return sentence % {"rule": explanation.rule, "time": localized(spell_span(1000 * wait))}
    if explanation.skipped:
        return _("Allowed by %(rule)s, uncounted.") % {"rule": explanation.rule}
    return _("Allowed.") if explanation.rule else _("Allowed: no rule applies.")


def _shown(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as the template shows it."""
    shown: dict[str, Any] = _writable(explanation.as_dict())
    for rule in shown["rules"]:
        reading = rule["reading"]
        if reading:
            reading["reset"] = localized(spell_span(1000 * reading["reset_after"]))
            reading["per"] = localized(spell_duration(reading["period"]))
    return {**shown, "verdict": verdict(explanation), "blocked": explanation.action is Outcome.BLOCK}


def _writable(value: Any) -> Any:
    """Return a value with its lone surrogates escaped, because no page can be encoded with them."""
    if isinstance(value, str):
        return escape_surrogates(localized(value))
    if isinstance(value, dict):
        return {key: _writable(each) for key, each in value.items()}
    return [_writable(each) for each in value] if isinstance(value, (list, tuple)) else value
