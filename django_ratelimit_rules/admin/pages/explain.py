"""The explain page: what a limiter would answer somebody now and why, or why it refused a request in the last hour.

Reads only, but for one button that forgets the counters of whoever is asked about.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern
from django.utils import timezone

from ...engine import Explanation
from ...engine.durations import spell_duration, spell_span
from ...engine.values import ANONYMOUS, escape_surrogates
from ...exceptions import CountersUnavailable
from ...limiter import Limiter
from ...models import Ruleset
from ...monitoring import decisions
from ...rulesets import limiter_names
from .. import permissions
from .base import Pages
from .confirmation import MAX_REASON
from .explain_form import AskingForm

MAX_KEYS_NOTED = 20
# What a link to this page may say; with ASK it is answered at once, as looking changes nothing.
ASKABLE = ("limiter", "user", "ip", "path", "method")
ASK = "explain"


class Explains(Pages):
    """The page that explains answers, and resets counters."""

    def get_urls(self) -> list[URLPattern]:
        """Add the page."""
        return [self.route("explain/", self.explain_view, "explain"), *super().get_urls()]

    def explain_view(self, request: HttpRequest) -> HttpResponse:
        """Ask who, and explain; with ``?decision=`` show a refusal that was kept."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        limiters = limiter_names.chosen()
        asked = request.POST if request.method == "POST" else request.GET if ASK in request.GET else None
        initial = {name: request.GET[name] for name in ASKABLE if name in request.GET}
        form = AskingForm(asked, initial=initial, limiters=limiters, host=request.get_host())
        context: dict[str, Any] = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Explain",
            "form": form,
            "decision": _pasted(request.GET.get("decision", "")),
            "may_reset": permissions.may(request, permissions.RESET),
            "max_reason": MAX_REASON,
        }
        if asked is not None and form.is_valid():
            context |= self._answer(request, form)
        elif context["decision"]:
            context |= self._kept(request, context["decision"])
            form.initial.update(_asked_then(context.get("said", {})))
        if "said" in context:
            ruleset = Ruleset.objects.filter(name=context["said"]["limiter"]).first()
            editable = set(ruleset.rules.values_list("name", flat=True)) if ruleset else set()
            context |= {"ruleset": ruleset, "editable": editable}
        return TemplateResponse(request, "django_ratelimit_rules/explain.html", context)

    def _answer(self, request: HttpRequest, form: AskingForm) -> dict[str, Any]:
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
                messages.error(request, "Nothing was reset: say why, for the history.")
        explanation = limiter.explain(identifier, made_up)
        counters = [rule for rule in explanation.rules if rule.counter]
        return {"said": _shown(explanation.as_dict()), "counters": counters}

    def _reset(
        self, request: HttpRequest, limiter: Limiter, identifier: dict[str, Any], seen: Explanation, reason: str
    ) -> None:
        try:
            number = limiter.reset(identifier)
        except CountersUnavailable as error:
            messages.error(request, f"Nothing was reset: {error}")
            return
        messages.success(request, f"Reset {number} counter{'' if number == 1 else 's'} of {limiter.name}.")
        keys = [f"{rule.name} {rule.counter}" for rule in seen.rules if rule.counter]
        noted = ", ".join(keys[:MAX_KEYS_NOTED]) + (" and more" if len(keys) > MAX_KEYS_NOTED else "")
        ruleset = Ruleset.objects.filter(name=limiter.name).first()
        # Not ModelAdmin.log_change, which needs a row: a limiter of code or file has none.
        LogEntry.objects.create(
            user_id=str(request.user.pk),
            content_type_id=ContentType.objects.get_for_model(Ruleset).pk,
            object_id=str(ruleset.pk) if ruleset else None,
            object_repr=limiter.name,
            action_flag=CHANGE,
            change_message=f"Reset {number} counter{'' if number == 1 else 's'} ({noted}). Reason: {reason}",
        )

    def _kept(self, request: HttpRequest, decision: str) -> dict[str, Any]:
        try:
            kept = decisions.find(decision)
        except CountersUnavailable as error:
            messages.error(request, str(error))
            return {}
        if kept is None:
            messages.warning(
                request, f"Nothing is kept under {decision!r}: refusals are kept for an hour, and not all of them."
            )
            return {}
        return {"said": _shown(kept), "at": timezone.localtime(datetime.fromtimestamp(float(kept.get("at", 0)), UTC))}


def _pasted(text: str) -> str:
    """Return a decision id, which may come with what stands around it in an answer or a log line."""
    return re.split(r'[\s:="]+', text[:80].strip(' \t",.'))[-1][:40]


def _asked_then(said: dict[str, Any]) -> dict[str, str]:
    """Return what is known of who was refused, so that they can be asked about now, and reset."""
    known = dict(said.get("values", ()), limiter=said.get("limiter"))
    return {name: text for name, text in known.items() if name in ASKABLE and text not in (None, ANONYMOUS)}


def verdict(said: dict[str, Any]) -> str:
    """Return the answer in one sentence."""
    if said["mode"] == "off":
        return "Let through: the ruleset is off, and nothing is counted."
    blocked = said["action"] == "block"
    if said["error"]:
        return f"{'Blocked' if blocked else 'Let through'}: the check failed, so the failure mode decided."
    if blocked:
        wait = said["retry_after"]
        when = "waiting does not help" if wait is None else f"it may pass in {spell_span(1000 * wait)}"
        return f"Blocked by {said['rule']}; {when}."
    if said["skipped"]:
        return f"Let through by {said['rule']}, uncounted."
    return "Let through." if said["rule"] else "Let through: no rule applies."


def _shown(said: dict[str, Any]) -> dict[str, Any]:
    """Return an explanation as the page shows it."""
    said = _writable(said)
    for rule in said["rules"]:
        reading = rule["reading"]
        if reading:
            reading["reset"] = spell_span(1000 * reading["reset_after"])
            reading["per"] = spell_duration(reading["period"])
    return {**said, "verdict": verdict(said), "blocked": said["action"] == "block"}


def _writable(value: Any) -> Any:
    """Escape lone surrogates, which no page can be encoded with."""
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, dict):
        return {key: _writable(each) for key, each in value.items()}
    return [_writable(each) for each in value] if isinstance(value, (list, tuple)) else value
