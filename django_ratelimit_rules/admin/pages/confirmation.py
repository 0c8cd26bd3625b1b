"""The page before every change that is not made in the form. It shows the effects, asks for a reason, and has a button.

A :class:`PendingChange` goes in, the page comes out. After the confirmation the change is made, kept as a version, and
noted in Django's own log. If the rules changed in between, the page is shown again, so that only a change that was
shown is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from ...conf import settings
from ...exceptions import InvalidRulesFile
from ...models import Ruleset
from ...rulesets import diff as ruleset_diff
from ...rulesets import text as ruleset_text
from ...rulesets.history import Author
from ...rulesets.text import Rulesets
from ...runtime.language import localized
from .. import permissions
from ..ruleset_form.ruleset import MAX_REASON
from . import actions
from .base import AdminPage


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """One change to be confirmed.

    ``names`` are the rulesets that it touches. ``before`` and ``after`` are their content before and after the change,
    which ``perform`` makes. ``action`` is its entry in the history, in English. ``effects`` and ``warnings`` are
    sentences about the change, ``numbers`` are sentences about the last hour. ``hidden`` are fields to post again.
    ``ruleset`` is the only ruleset touched, or None if there may be several. ``done`` is the address after the change.
    """

    title: str
    action: str
    button: str
    names: Sequence[str]
    before: Rulesets
    after: Rulesets
    perform: Callable[[Author], object]
    done: str
    effects: Iterable[str] = ()
    warnings: Iterable[str] = ()
    numbers: Iterable[str] = ()
    hidden: dict[str, str] = field(default_factory=dict)
    ruleset: Ruleset | None = None


def author_of(request: HttpRequest, action: str, reason: str = "") -> Author:
    """Return the signed-in user as the author of a version."""
    return Author(request.user.get_username(), action, reason.strip()[:MAX_REASON], permissions.allow(request))


def confirm(page: AdminPage, request: HttpRequest, pending: PendingChange) -> HttpResponse:
    """Show the confirmation, or make the change if its button was pressed.

    The status is 403 if the user may not make the change. The page then names the missing permissions.
    """
    lacking = permissions.missing(request, pending.before, pending.after)
    changes = ruleset_diff.compare(pending.before, pending.after)
    # Cover the state after the change as well, because the text of an import is posted again and may differ.
    seen = hashlib.sha256(ruleset_text.canonical([pending.before, pending.after]).encode()).hexdigest()
    if request.method == "POST" and "confirmed" in request.POST and not lacking:
        if request.POST["confirmed"] == seen:
            return _perform(page, request, pending)
        message = _("The rules have changed since this page was shown. These are the changes that would be made now.")
        messages.warning(request, message)
    context = {
        "title": pending.title,
        "pending": pending,
        "changes": changes,
        "lacking": lacking,
        "seen": seen,
        "reason": request.POST.get("reason", ""),
        "max_reason": MAX_REASON,
    }
    template, status = "django_ratelimit_rules/confirm.html", 403 if lacking else 200
    return page.render(request, context, template=template, status=status)


def in_force() -> str:
    """Return the sentence about when a change takes effect."""
    seconds = number_format(f"{settings.REFRESH_SECONDS:g}", use_l10n=True)
    return _("In force everywhere within %(seconds)s s.") % {"seconds": seconds}


def _perform(page: AdminPage, request: HttpRequest, pending: PendingChange) -> HttpResponse:
    author = author_of(request, pending.action, request.POST.get("reason", ""))
    try:
        pending.perform(author)
    except InvalidRulesFile as error:
        messages.error(request, localized(error))
    else:
        done = _("Done: %(action)s.") % {"action": actions.shown(pending.action)}
        messages.success(request, f"{done} {in_force()}")
        entry = actions.entry(pending.action, author.reason)
        for ruleset in [pending.ruleset] if pending.ruleset else Ruleset.objects.filter(name__in=pending.names):
            page.admin.log_change(request, ruleset, entry)
    return HttpResponseRedirect(pending.done)
