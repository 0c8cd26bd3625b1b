"""The pages of versions: lists of versions, and the confirmation that restores a version.

A ruleset or its name goes in. Its versions come out, each with its changes and the link that restores it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...exceptions import InvalidRulesFile
from ...models import Ruleset, RulesetVersion
from ...rulesets import diff as ruleset_diff
from ...rulesets import history
from ...rulesets import text as ruleset_text
from ...runtime.language import localized
from .. import permissions
from ..links import Links
from . import actions
from .base import AdminPage
from .confirmation import PendingChange, confirm

PER_PAGE = 10
GONE_PER_PAGE = 50


class DeletedPage(AdminPage):
    """The deleted rulesets, the last deleted first."""

    name, route = "deleted", "deleted/"
    title = gettext_lazy("Deleted rulesets")
    template = "django_ratelimit_rules/deleted.html"
    list_label = gettext_lazy("Deleted")

    def context(self, request: HttpRequest) -> dict[str, Any]:
        """Return one page of their last versions."""
        newest = RulesetVersion.objects.filter(ruleset=OuterRef("ruleset")).order_by("-number").values("number")[:1]
        there = Ruleset.objects.values("name")
        gone = RulesetVersion.objects.filter(number=Subquery(newest)).exclude(ruleset__in=there).order_by("-created_at")
        page = Paginator(gone, GONE_PER_PAGE).get_page(request.GET.get("page"))
        return {"versions_page": page, "versions": [(version, actions.shown(version.action)) for version in page]}


class PastPage(AdminPage):
    """The versions of a ruleset by its name. Redirects to the history of a ruleset that exists."""

    name, route = "past", "deleted/<slug:limiter>/"
    template = "django_ratelimit_rules/past.html"

    def respond(self, request: HttpRequest, limiter: str) -> HttpResponse:
        """Show the versions."""
        ruleset = Ruleset.objects.filter(name=limiter).first()
        if ruleset is not None:
            return HttpResponseRedirect(self.links.to("history", ruleset.pk))
        context = versions(request, self.links, limiter)
        if not context["versions"]:
            raise Http404
        may_restore = self.admin.has_change_permission(request)
        title = _("History of %(ruleset)s, which was deleted") % {"ruleset": limiter}
        return self.render(request, {**context, "title": title, "may_restore": may_restore})


class UndeletePage(AdminPage):
    """Restores a version of a ruleset by its name, after a confirmation."""

    name, route = "undelete", "deleted/<slug:limiter>/<int:number>/restore/"
    needs = permissions.WRITES

    def respond(self, request: HttpRequest, limiter: str, number: int) -> HttpResponse:
        """Ask for the confirmation, or restore."""
        return _restore(self, request, limiter, number, Ruleset.objects.filter(name=limiter).first())


class RestorePage(AdminPage):
    """Restores a version of a ruleset, after a confirmation."""

    name, route = "restore", "<path:object_id>/history/<int:number>/restore/"
    needs = permissions.WRITES

    def respond(self, request: HttpRequest, object_id: str, number: int) -> HttpResponse:
        """Ask for the confirmation, or restore."""
        ruleset = self.ruleset(request, object_id)
        return _restore(self, request, ruleset.name, number, ruleset)


def versions(request: HttpRequest, links: Links, name: str, ruleset: Ruleset | None = None) -> dict[str, Any]:
    """Return one page of a ruleset's versions, each with its changes and the link that restores it."""
    pages = Paginator(RulesetVersion.objects.filter(ruleset=name).order_by("-number"), PER_PAGE)
    page = pages.get_page(request.GET.get("page"))
    shown = []
    for row in _with_changes(list(page)):
        restore = ("restore", ruleset.pk) if ruleset else ("undelete", name)
        shown.append({**row, "restore": links.to(*restore, row["version"].number)})
    return {"versions": shown, "versions_page": page}


def _restore(page: AdminPage, request: HttpRequest, name: str, number: int, ruleset: Ruleset | None) -> HttpResponse:
    version = RulesetVersion.objects.filter(ruleset=name, number=number).first()
    if version is None:
        raise Http404
    try:
        after = {name: ruleset_text.of_tier(tier) for name, tier in history.tiers(version).items()}
    except InvalidRulesFile as error:
        message = _("This version cannot be restored as it is. %(error)s") % {"error": localized(error)}
        messages.error(request, message)
        return HttpResponseRedirect(page.links.to("past", name))
    pending = PendingChange(
        title=_("Restore version %(number)s of %(ruleset)s") % {"number": number, "ruleset": name},
        action=actions.RESTORED % {"number": number},
        button=_("Restore version %(number)s") % {"number": number},
        names=[name],
        before=ruleset_text.stored([name]),
        after=after,
        perform=lambda author: history.restore(version, author),
        done=page.links.to("change", ruleset.pk) if ruleset else page.links.to("changelist"),
        effects=[
            _(
                "The ruleset becomes the same as in this version, and is kept as a new version."
                " Rules that keep their name keep their counters."
            )
        ],
        ruleset=ruleset,
    )
    return confirm(page, request, pending)


def _with_changes(page: list[RulesetVersion]) -> Iterable[dict[str, Any]]:
    """Yield each version with its changes to the version before."""
    if not page:
        return
    older = RulesetVersion.objects.filter(ruleset=page[0].ruleset, number__lt=page[-1].number).order_by("-number")
    before: list[RulesetVersion | None] = [*page[1:], older.first()]
    for version, previous, text in zip(page, before, history.as_texts(page), strict=True):
        comparable = not version.unreadable and not (previous and previous.unreadable)
        changes = ruleset_diff.compare(history.plain(previous), history.plain(version)) if comparable else None
        yield {"version": version, "action": actions.shown(version.action), "text": text, "changes": changes}
