"""The operators' pages: rulesets, each with its rules inline in the order of their evaluation.

Everything on them is shown and checked by :mod:`forms <.forms>`, :mod:`fields <.fields>` and :mod:`summaries
<.summaries>`; this module says what stands where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.db.models import Count, Prefetch, QuerySet
from django.forms import Textarea
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from .. import registry
from ..models import Rule, Ruleset
from .forms import RuleForm, copy_of
from .operations import GuardedInline, Operations
from .summaries import rules_summary

if TYPE_CHECKING:
    BaseInline = admin.StackedInline[Rule, Ruleset]
    BaseAdmin = admin.ModelAdmin[Ruleset]
else:
    BaseInline, BaseAdmin = admin.StackedInline, admin.ModelAdmin

SUMMARY_RULES = 3
SCRIPTS = ("vendor/sortable", "rules", "order", "properties", "conditions", "unused", "unsaved")


class RuleInline(GuardedInline, BaseInline):
    """The rules of a ruleset, from the first evaluated to the last."""

    model = Rule
    form = RuleForm
    extra = 1
    template = "django_ratelimit_rules/admin/rules.html"
    fieldsets = (
        (
            None,
            {"fields": (("name", "action"), ("limit", "period"), "characteristics", "match", "description")},
        ),
        (
            "Rarely needed: algorithm, distinct values, bans, charging by the answer, warnings",
            {"classes": ("collapse",), "fields": ("algorithm", "count_distinct", "ban_for", "response", "warn_at")},
        ),
        (
            "Who asked for it, and until when",
            {"classes": ("collapse",), "fields": (("owner", "ticket"), "reason", "expires_at")},
        ),
    )

    def get_formset(self, request: HttpRequest, obj: Ruleset | None = None, **options: Any) -> Any:
        """Take the fields that the template shows beside those of the fieldsets."""
        return super().get_formset(request, obj, **{"fields": RuleForm.Meta.fields, **options})


@admin.register(Ruleset)
class RulesetAdmin(Operations, BaseAdmin):
    """One page per limiter."""

    inlines = (RuleInline,)
    list_display = ("name", "look", "mode_in_short", "number_of_rules", "summary", "updated_at")
    list_filter = ("mode", "failure_mode", "rules__action", "updated_at")
    search_fields = ("name", "description", "rules__name")
    readonly_fields = ("version_in_force", "properties")
    formfield_overrides = {models.TextField: {"widget": Textarea(attrs={"cols": 80, "rows": 2})}}
    fieldsets = (
        (None, {"fields": (("name", "mode"), "description", "version_in_force")}),
        ("When Redis fails", {"classes": ("collapse",), "fields": ("failure_mode",)}),
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
            copied = obj.rules.filter(name=request.GET.get("copy")).first() if obj.pk else None
            if copied and request.method == "GET":
                options["initial"] = [copy_of(copied)]
        return options

    def get_queryset(self, request: HttpRequest) -> QuerySet[Ruleset]:
        """Load with each ruleset the few rules that the list shows, and how many there are."""
        first = Prefetch("rules", Rule.objects.order_by("position", "pk")[:SUMMARY_RULES], to_attr="first_rules")
        return super().get_queryset(request).annotate(rule_count=Count("rules", distinct=True)).prefetch_related(first)

    @admin.display(description="mode", ordering="mode")
    def mode_in_short(self, ruleset: Ruleset) -> SafeString | str:
        """The mode, without its explanation; a ruleset that states none enforces. Others stand out."""
        if ruleset.mode in ("", "enforce"):
            return "enforce"
        return format_html('<strong class="ratelimit-mode">{}</strong>', ruleset.mode.replace("_", " "))

    @admin.display(description="rules", ordering="rule_count")
    def number_of_rules(self, ruleset: Any) -> int:
        """How many rules there are, disabled ones included."""
        count: int = ruleset.rule_count
        return count

    @admin.display(description="summary")
    def summary(self, ruleset: Any) -> SafeString:
        """The first rules, as sentences."""
        return rules_summary(ruleset.first_rules, ruleset.rule_count - len(ruleset.first_rules))

    @admin.display(description="now")
    def look(self, ruleset: Ruleset) -> SafeString:
        """The ways to see what a ruleset does, beside its name: during an incident they are what is looked for."""
        name = "admin:django_ratelimit_rules_ruleset"
        return format_html(
            '<a href="{}">Live<span class="visually-hidden">: {}</span></a> '
            '<a href="{}?limiter={}">Explain<span class="visually-hidden">: {}</span></a>',
            *(reverse(f"{name}_live", args=[ruleset.name]), ruleset.name),
            *(reverse(f"{name}_explain"), ruleset.name, ruleset.name),
        )

    @admin.display(description="Properties")
    def properties(self, _ruleset: Ruleset) -> SafeString:
        """All properties a rule can count by or ask for."""
        known = registry.known_properties().values()
        rows = ((each.name, each.description or "given by the code", ", ".join(each.choices)) for each in known)
        lines = format_html_join("", "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>", rows)
        return format_html('<table class="ratelimit-properties">{}</table>', lines)
