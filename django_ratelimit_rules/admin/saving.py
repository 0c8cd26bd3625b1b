"""Versions of rulesets that are saved or deleted in the admin.

A request and the rows of Django's forms go in. A version with its author comes out. If the user may not make the
change, an error rolls everything back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.db import router, transaction
from django.http import HttpRequest, HttpResponse

from ..models import Ruleset, announced_once
from ..rulesets import history
from .pages import actions
from .pages.confirmation import author_of, in_force

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

    BaseAdmin = ModelAdmin[Ruleset]
else:
    BaseAdmin = object


class Versioned(BaseAdmin):
    """Part of the admin of rulesets that keeps a version of each save and each deletion."""

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
        """Note the stored rules, then save."""
        form.names = sorted({obj.name, form.initial.get("name") or obj.name} if change else {obj.name})
        form.begun = history.begin(form.names, obj.plain_forms)
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the rules, then keep a version. Raises PermissionDenied for a forbidden change."""
        super().save_related(request, form, formsets, change)
        author = author_of(request, actions.SAVED, form.cleaned_data.get("change_reason") or "")
        history.finish(form.names, form.begun, author)

    def response_add(self, request: HttpRequest, obj: Ruleset, post_url_continue: str | None = None) -> HttpResponse:
        """Add a message about when the rules take effect."""
        response = super().response_add(request, obj, post_url_continue)
        messages.info(request, in_force())
        return response

    def response_change(self, request: HttpRequest, obj: Ruleset) -> HttpResponse:
        """Add a message about when the rules take effect."""
        response = super().response_change(request, obj)
        messages.info(request, in_force())
        return response

    def delete_model(self, request: HttpRequest, obj: Ruleset) -> None:
        """Delete a ruleset, and keep a version of the deletion."""
        with history.changing([obj.name], author_of(request, actions.DELETED)):
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Delete rulesets, and keep a version of each deletion."""
        with history.changing([ruleset.name for ruleset in queryset], author_of(request, actions.DELETED)):
            super().delete_queryset(request, queryset)
