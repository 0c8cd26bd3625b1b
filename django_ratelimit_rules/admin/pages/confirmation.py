"""The page in front of every change that is not made in the form: what will happen, why it is done, and one button.

A :class:`Step` goes in; the page comes out, and once it was confirmed the change is made, kept as a version, and noted
in Django's own log. What was shown is what is done: when the rules changed in between, the page is shown again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from ...conf import settings
from ...exceptions import InvalidRulesFile
from ...models import Ruleset
from ...rulesets import diff as ruleset_diff
from ...rulesets import text as ruleset_text
from ...rulesets.history import Author
from ...rulesets.text import Rulesets
from .. import permissions

MAX_REASON = 2000


@dataclass(frozen=True, kw_only=True)
class Step:
    """One change to be confirmed.

    ``names`` are the rulesets it touches, ``before`` and ``after`` what they say now and then; ``perform`` makes it so.
    ``action`` is what the history says was done, ``said`` what is said about it beforehand, ``warnings`` what to think
    of, ``numbers`` what happened in the last hour. ``ruleset`` is the only one touched, if it is one.
    """

    title: str
    action: str
    button: str
    names: Sequence[str]
    before: Rulesets
    after: Rulesets
    perform: Callable[[Author], object]
    done: str
    said: Iterable[str] = ()
    warnings: Iterable[str] = ()
    numbers: Iterable[str] = ()
    hidden: dict[str, str] = field(default_factory=dict)
    ruleset: Ruleset | None = None


def author_of(request: HttpRequest, action: str, reason: str = "") -> Author:
    """Return who is signed in, as versions know an author."""
    return Author(request.user.get_username(), action, reason.strip()[:MAX_REASON], permissions.allow(request))


def confirm(admin: Any, request: HttpRequest, step: Step) -> HttpResponse:
    """Show the page, or make the change when its button was pressed; say what the user lacks for it, as a 403."""
    lacking = permissions.missing(request, step.before, step.after)
    changes = ruleset_diff.compare(step.before, step.after)
    # The state before and after: the text of an import is posted again, and must be the one that was shown.
    seen = hashlib.sha256(ruleset_text.canonical([step.before, step.after]).encode()).hexdigest()
    if request.method == "POST" and "confirmed" in request.POST and not lacking:
        if request.POST["confirmed"] == seen:
            return _perform(admin, request, step)
        messages.warning(request, "The rules have changed since this page was shown. This is what would happen now.")
    context = {
        **admin.admin_site.each_context(request),
        "opts": admin.opts,
        "title": step.title,
        "step": step,
        "changes": changes,
        "lacking": lacking,
        "seen": seen,
        "reason": request.POST.get("reason", ""),
        "max_reason": MAX_REASON,
    }
    return TemplateResponse(request, "django_ratelimit_rules/confirm.html", context, status=403 if lacking else 200)


def in_force() -> str:
    """Return from when on a change is obeyed, as operators are told."""
    return f"In force everywhere within {settings.REFRESH_SECONDS:g} s."


def _perform(admin: Any, request: HttpRequest, step: Step) -> HttpResponse:
    author = author_of(request, step.action, request.POST.get("reason", ""))
    try:
        step.perform(author)
    except InvalidRulesFile as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Done: {step.action}. {in_force()}")
        for ruleset in [step.ruleset] if step.ruleset else Ruleset.objects.filter(name__in=step.names):
            said = f"{step.action}: {author.reason}" if author.reason else step.action
            admin.log_change(request, ruleset, said)
    return HttpResponseRedirect(step.done)
