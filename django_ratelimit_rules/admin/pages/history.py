"""Versions in the admin: each save keeps one, the history page lists them, and any can be restored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db import router, transaction
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern

from ...exceptions import InvalidRulesFile
from ...models import Ruleset, RulesetVersion, announced_once
from ...rulesets import diff as ruleset_diff
from ...rulesets import history
from ...rulesets import text as ruleset_text
from ...rulesets.text import PlainForms
from .. import permissions
from ..ruleset_form.fields import SeenField, digest
from .base import Pages, page_url
from .confirmation import (
    MAX_REASON,
    Step,
    author_of,
    confirm,
    in_force,
)

if TYPE_CHECKING:
    BaseForm = forms.ModelForm[Ruleset]
else:
    BaseForm = forms.ModelForm

PER_PAGE = 10
GONE_PER_PAGE = 50
STALE = (
    "Somebody else changed this after you opened the page. Nothing was saved; saving again would make these changes:"
)


class RulesetForm(BaseForm):
    """A ruleset, and why it is saved."""

    change_reason = forms.CharField(
        label="Reason for the change",
        required=False,
        max_length=MAX_REASON,
        widget=forms.TextInput(attrs={"class": "vTextField", "placeholder": "An incident, a ticket, who asked for it"}),
    )
    seen = SeenField()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.instance.rules_come_along = True
        self.instance.plain_forms = PlainForms()
        # Of all fields, also those that this user may not change.
        stored = [getattr(self.instance, name) for name in ("name", *ruleset_text.RULESET_FIELDS)]
        self.initial["seen"] = digest(stored)

    def clean(self) -> dict[str, Any]:
        """Refuse to undo what somebody else has changed since the page was shown, unless that is asked for again."""
        said = super().clean() or {}
        fields = [name for name in self.changed_data if name in self.initial]
        stale = said.get("seen") and said["seen"] != self.initial["seen"]
        if stale and fields and not self.instance._state.adding:
            lines = [f"{name}: “{self.initial[name]}” becomes “{said.get(name)}”" for name in fields]
            raise ValidationError([STALE, *lines])
        return said

    def validate_unique(self) -> None:
        """Look for another ruleset of this name only when the name is a new one."""
        if "name" in self.changed_data or self.instance._state.adding:
            super().validate_unique()


class Versioned(Pages):
    """Keep versions of what is saved and deleted, and show them."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Announce a save once, because it writes the rows of many rules."""
        if request.method != "POST":
            return super().changeform_view(request, object_id, form_url, extra_context)
        with transaction.atomic(using=router.db_for_write(Ruleset)), announced_once():
            return super().changeform_view(request, object_id, form_url, extra_context)

    def save_model(self, request: HttpRequest, obj: Ruleset, form: Any, change: bool) -> None:
        """Look at what there was, then save."""
        form.names = sorted({obj.name, form.initial.get("name") or obj.name} if change else {obj.name})
        form.begun = history.begin(form.names, obj.plain_forms)
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the rules; then keep what there is now, or take everything back when the user may not."""
        super().save_related(request, form, formsets, change)
        author = author_of(request, "saved in the admin", form.cleaned_data.get("change_reason") or "")
        history.finish(form.names, form.begun, author)

    def response_add(self, request: HttpRequest, obj: Ruleset, post_url_continue: str | None = None) -> HttpResponse:
        """As Django answers; and say from when on the rules are obeyed."""
        response = super().response_add(request, obj, post_url_continue)
        messages.info(request, in_force())
        return response

    def response_change(self, request: HttpRequest, obj: Ruleset) -> HttpResponse:
        """As :meth:`response_add`."""
        response = super().response_change(request, obj)
        messages.info(request, in_force())
        return response

    def delete_model(self, request: HttpRequest, obj: Ruleset) -> None:
        """Delete a ruleset, and keep that it is gone."""
        with history.changing([obj.name], author_of(request, "deleted in the admin")):
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Delete rulesets, and keep that they are gone."""
        with history.changing([ruleset.name for ruleset in queryset], author_of(request, "deleted in the admin")):
            super().delete_queryset(request, queryset)

    def get_urls(self) -> list[URLPattern]:
        """Add the page that restores a version, and those of rulesets that are not there any more."""
        return [
            self.route("deleted/", self.deleted_view, "deleted"),
            self.route("deleted/<slug:limiter>/", self.past_view, "past"),
            self.route("deleted/<slug:limiter>/<int:number>/restore/", self.undelete_view, "undelete"),
            self.route("<path:object_id>/history/<int:number>/restore/", self.restore_view, "restore"),
            *super().get_urls(),
        ]

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the versions of a ruleset, each with what it changed, above Django's own log."""
        ruleset = self.get_object(request, object_id)
        context = dict(extra_context or {})
        if ruleset is not None:
            context |= {"ruleset": ruleset, "now": ruleset.version, **self._versions(request, ruleset.name, ruleset)}
        return super().history_view(request, object_id, context)

    def deleted_view(self, request: HttpRequest) -> HttpResponse:
        """List the rulesets that were deleted, the last one first."""
        self._may_look(request)
        newest = RulesetVersion.objects.filter(ruleset=OuterRef("ruleset")).order_by("-number").values("number")[:1]
        there = Ruleset.objects.values("name")
        gone = RulesetVersion.objects.filter(number=Subquery(newest)).exclude(ruleset__in=there).order_by("-created_at")
        page = Paginator(gone, GONE_PER_PAGE).get_page(request.GET.get("page"))
        return self._page(request, "deleted.html", {"title": "Deleted rulesets", "versions_page": page})

    def past_view(self, request: HttpRequest, limiter: str) -> HttpResponse:
        """Show the versions of a ruleset by its name; of one that is there, on its own page."""
        self._may_look(request)
        ruleset = Ruleset.objects.filter(name=limiter).first()
        if ruleset is not None:
            return HttpResponseRedirect(page_url("history", ruleset.pk))
        context = self._versions(request, limiter, None)
        if not context["versions"]:
            raise Http404
        return self._page(request, "past.html", {"title": f"History of {limiter}, which was deleted", **context})

    def restore_view(self, request: HttpRequest, object_id: str, number: int) -> HttpResponse:
        """Restore a version once that is confirmed."""
        ruleset = self.get_object(request, object_id)
        if ruleset is None:
            raise Http404
        return self._restore(request, ruleset.name, number, ruleset)

    def undelete_view(self, request: HttpRequest, limiter: str, number: int) -> HttpResponse:
        """Restore a version of a ruleset by its name, once that is confirmed."""
        return self._restore(request, limiter, number, Ruleset.objects.filter(name=limiter).first())

    def _restore(self, request: HttpRequest, name: str, number: int, ruleset: Ruleset | None) -> HttpResponse:
        permissions.require(request, *self.writes)  # type: ignore[attr-defined]
        version = RulesetVersion.objects.filter(ruleset=name, number=number).first()
        if version is None:
            raise Http404
        try:
            after = {name: ruleset_text.of_tier(tier) for name, tier in history.tiers(version).items()}
        except InvalidRulesFile as error:
            messages.error(request, f"This version cannot be restored as it is. {error}")
            return HttpResponseRedirect(page_url("past", name))
        step = Step(
            title=f"Restore version {number} of {name}",
            action=f"restored version {number}",
            button=f"Restore version {number}",
            names=[name],
            before=ruleset_text.stored([name]),
            after=after,
            perform=lambda author: history.restore(version, author),
            done=page_url("change", ruleset.pk) if ruleset else page_url("changelist"),
            said=["The rules become what they were then, as a new version. Counters go on where rule names stay."],
            ruleset=ruleset,
        )
        return confirm(self, request, step)

    def _versions(self, request: HttpRequest, name: str, ruleset: Ruleset | None) -> dict[str, Any]:
        pages = Paginator(RulesetVersion.objects.filter(ruleset=name).order_by("-number"), PER_PAGE)
        page = pages.get_page(request.GET.get("page"))
        shown = []
        for each in _with_changes(list(page)):
            restore = ("restore", ruleset.pk) if ruleset else ("undelete", name)
            shown.append({**each, "restore": page_url(*restore, each["version"].number)})
        return {
            "versions": shown,
            "versions_page": page,
            "may_restore": self.has_change_permission(request, ruleset),
        }

    def _may_look(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _page(self, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
        context = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, f"django_ratelimit_rules/{template}", context)


def _with_changes(page: list[RulesetVersion]) -> Iterable[dict[str, Any]]:
    """Yield each version with what it changed in the one before."""
    if not page:
        return
    older = RulesetVersion.objects.filter(ruleset=page[0].ruleset, number__lt=page[-1].number).order_by("-number")
    before: list[RulesetVersion | None] = [*page[1:], older.first()]
    for version, previous, text in zip(page, before, history.as_texts(page), strict=True):
        comparable = not version.unreadable and not (previous and previous.unreadable)
        changes = ruleset_diff.compare(history.plain(previous), history.plain(version)) if comparable else None
        yield {"version": version, "text": text, "changes": changes}
