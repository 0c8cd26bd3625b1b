"""Versions in the admin: each save keeps one, the history page lists them, and any can be restored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from .. import rulesdiff, rulestext, versions
from ..exceptions import InvalidRulesFile
from ..models import Ruleset, RulesetVersion
from . import guards
from .confirmation import MAX_REASON, Step, author_of, confirm

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

    Mixin = ModelAdmin[Ruleset]
    BaseForm = forms.ModelForm[Ruleset]
else:
    Mixin, BaseForm = object, forms.ModelForm

PER_PAGE = 10
CHANGE_PAGE = "admin:django_ratelimit_rules_ruleset_change"
HISTORY_PAGE = "admin:django_ratelimit_rules_ruleset_history"


class RulesetForm(BaseForm):
    """A ruleset, and why it is saved."""

    change_reason = forms.CharField(
        label="Why this change",
        required=False,
        max_length=MAX_REASON,
        widget=forms.TextInput(attrs={"class": "vTextField", "placeholder": "An incident, a ticket, who asked for it"}),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.instance.rules_come_along = True


class Versioned(Mixin):
    """Keep versions of what is saved and deleted, and show them."""

    def save_model(self, request: HttpRequest, obj: Ruleset, form: Any, change: bool) -> None:
        """Look at what there was, then save."""
        form.names = sorted({obj.name, form.initial.get("name") or obj.name} if change else {obj.name})
        form.begun = versions.begin(form.names)
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the rules; then keep what there is now, or take everything back when the user may not."""
        super().save_related(request, form, formsets, change)
        author = author_of(request, "saved in the admin", form.cleaned_data.get("change_reason") or "")
        versions.finish(form.names, form.begun, author)

    def delete_model(self, request: HttpRequest, obj: Ruleset) -> None:
        """Delete a ruleset, and keep that it is gone."""
        with versions.changing([obj.name], author_of(request, "deleted in the admin")):
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Delete rulesets, and keep that they are gone."""
        with versions.changing([ruleset.name for ruleset in queryset], author_of(request, "deleted in the admin")):
            super().delete_queryset(request, queryset)

    def get_urls(self) -> list[URLPattern]:
        """Add the page that restores a version."""
        view = self.admin_site.admin_view(self.restore_view)
        name = "django_ratelimit_rules_ruleset_restore"
        return [path("<path:object_id>/history/<int:number>/restore/", view, name=name), *super().get_urls()]

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the versions of a ruleset, each with what it changed, above Django's own log."""
        ruleset = self.get_object(request, object_id)
        context = dict(extra_context or {})
        if ruleset is not None:
            pages = Paginator(RulesetVersion.objects.filter(ruleset=ruleset.name).order_by("-number"), PER_PAGE)
            page = pages.get_page(request.GET.get("page"))
            context |= {"versions": list(_with_changes(list(page))), "versions_page": page, "ruleset": ruleset}
            context["may_restore"] = self.has_change_permission(request, ruleset)
        return super().history_view(request, object_id, context)

    def restore_view(self, request: HttpRequest, object_id: str, number: int) -> HttpResponse:
        """Restore a version once that is confirmed."""
        ruleset = self.get_object(request, object_id)
        if ruleset is None:
            raise Http404
        guards.require(request, *self.writes)  # type: ignore[attr-defined]
        version = RulesetVersion.objects.filter(ruleset=ruleset.name, number=number).first()
        if version is None:
            raise Http404
        history = reverse(HISTORY_PAGE, args=[ruleset.pk])
        try:
            after = {name: rulestext.of_tier(said) for name, said in rulestext.load(version.text, str(version)).items()}
        except InvalidRulesFile as error:
            messages.error(request, f"This version cannot be restored as it is. {error}")
            return HttpResponseRedirect(history)
        step = Step(
            title=f"Restore version {number} of {ruleset.name}",
            action=f"restored version {number}",
            button=f"Restore version {number}",
            names=[ruleset.name],
            before=rulestext.stored([ruleset.name]),
            after=after,
            perform=lambda author: versions.restore(version, author),
            done=reverse(CHANGE_PAGE, args=[ruleset.pk]),
            said=["The rules become what they were then, as a new version. Counters go on where rule names stay."],
            ruleset=ruleset,
        )
        return confirm(self, request, step)


def _with_changes(page: list[RulesetVersion]) -> Iterable[dict[str, Any]]:
    """Yield each version with what it changed in the one before."""
    if not page:
        return
    older = RulesetVersion.objects.filter(ruleset=page[0].ruleset, number__lt=page[-1].number).order_by("-number")
    before: list[RulesetVersion | None] = [*page[1:], older.first()]
    said = [versions.plain(version) for version in [page[0], *before]]
    for number, version in enumerate(page):
        yield {"version": version, "changes": rulesdiff.compare(said[number + 1], said[number])}
