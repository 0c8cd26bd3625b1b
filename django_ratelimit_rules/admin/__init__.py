"""The operators' pages: rulesets, each with its rules inline in the order of their evaluation.

- ``ruleset_form/`` is the page of one ruleset, ``changelist`` the list of all.
- ``pages/`` are those that Django's admin does not have; ``charts/`` are their pictures.
- ``permissions`` says who may do what; ``operations`` joins all of it into one ``ModelAdmin``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.forms import Textarea
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ..engine.fields import Section, lines_of
from ..identifiers import registry
from ..models import Rule, Ruleset
from .changelist import Listing
from .operations import GuardedInline, Operations
from .ruleset_form.formset import RuleForm, copy_of

if TYPE_CHECKING:
    BaseInline = admin.StackedInline[Rule, Ruleset]
    BaseAdmin = admin.ModelAdmin[Ruleset]
else:
    BaseInline, BaseAdmin = admin.StackedInline, admin.ModelAdmin

COPY = "copy"
SCRIPTS = ("vendor/sortable", "rules", "order", "properties", "conditions", "builder", "unused", "unsaved")


class RuleInline(GuardedInline, BaseInline):
    """The rules of a ruleset, from the first evaluated to the last."""

    model = Rule
    form = RuleForm
    extra = 1
    template = "django_ratelimit_rules/admin/rules.html"
    fieldsets = (
        (None, {"fields": lines_of(Section.MAIN)}),
        (Section.RARE.value, {"classes": ("collapse",), "fields": lines_of(Section.RARE)}),
        (Section.ORIGIN.value, {"classes": ("collapse",), "fields": lines_of(Section.ORIGIN)}),
    )

    def get_formset(self, request: HttpRequest, obj: Ruleset | None = None, **options: Any) -> Any:
        """Take the fields that the template shows beside those of the fieldsets."""
        return super().get_formset(request, obj, **{"fields": RuleForm.Meta.fields, **options})


@admin.register(Ruleset)
class RulesetAdmin(Operations, Listing, BaseAdmin):
    """One page per limiter."""

    inlines = (RuleInline,)
    list_display = ("name", "look", "mode_in_short", "number_of_rules", "summary", "changed")
    list_filter = ("mode", "failure_mode", "rules__action", "updated_at")
    search_fields = ("name", "description", "rules__name")
    readonly_fields = ("version_in_force", "properties")
    formfield_overrides = {models.TextField: {"widget": Textarea(attrs={"cols": 80, "rows": 2})}}
    fieldsets = (
        (None, {"fields": (("name", "mode"), "description", "version_in_force")}),
        ("When Redis fails, and Redis Cluster", {"classes": ("collapse",), "fields": ("failure_mode", "partition_by")}),
        ("What rules can ask for", {"classes": ("collapse",), "fields": ("properties",)}),
    )
    save_as = True

    class Media:
        css = {"all": ("django_ratelimit_rules/admin.css", "django_ratelimit_rules/explain.css")}
        js = tuple(f"django_ratelimit_rules/{name}.js" for name in SCRIPTS)

    def get_formset_kwargs(self, request: HttpRequest, obj: Any, inline: Any, prefix: str) -> dict[str, Any]:
        """Open the rules that the address names, and offer the copy of one that it asks for."""
        options: dict[str, Any] = super().get_formset_kwargs(request, obj, inline, prefix)
        if isinstance(inline, RuleInline):
            options["opened"] = request.GET.getlist("open")
            if COPY in request.GET and request.method == "GET" and obj.pk:
                options["initial"] = [copy_of(rule) for rule in obj.rules.all() if rule.name == request.GET[COPY]]
        return options

    @admin.display(description="Properties")
    def properties(self, _ruleset: Ruleset) -> SafeString:
        """All properties a rule can count by or ask for."""
        known = registry.known_properties().values()
        rows = ((each.name, each.description or "given by the code", ", ".join(each.choices)) for each in known)
        lines = format_html_join("", "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>", rows)
        return format_html('<table class="ratelimit-properties">{}</table>', lines)
