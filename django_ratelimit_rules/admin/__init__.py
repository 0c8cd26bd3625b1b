"""The admin: rulesets, each with its rules inline in the order of their evaluation.

- ``ruleset_form/`` is the page of one ruleset, ``changelist`` is the list of all rulesets.
- ``pages/`` are the pages that Django's admin does not have, each a class. ``charts/`` are their pictures.
- ``permissions`` checks users, ``saving`` keeps versions, ``links`` are the addresses within one site.

``RulesetAdmin`` joins them. A new page is a class with its template, and its place in ``RulesetAdmin.pages``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.db.models import QuerySet
from django.forms import Textarea
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..engine.fields import Section, lines_of
from ..identifiers import registry
from ..models import Rule, Ruleset
from ..runtime.language import localized
from . import changelist, permissions
from .charts import divergence
from .links import Links
from .pages import actions
from .pages.base import AdminPage
from .pages.explain import ExplainPage
from .pages.history import DeletedPage, PastPage, RestorePage, UndeletePage, versions
from .pages.import_export import ExportAllPage, ExportPage, ImportPage
from .pages.live import LivePage, charts
from .pages.replay import ReplayEditedPage, ReplayPage
from .pages.suggest import SuggestPage
from .pages.switch import SwitchPage, TurnPage
from .permissions import Guarded
from .ruleset_form import other_tiers
from .ruleset_form.formset import RuleForm, copy_of
from .ruleset_form.guarded import GuardedInline
from .ruleset_form.rows import Allowed
from .ruleset_form.ruleset import RulesetForm
from .saving import Versioned

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
        (gettext_lazy(Section.RARE.value), {"classes": ("collapse",), "fields": lines_of(Section.RARE)}),
        (gettext_lazy(Section.ORIGIN.value), {"classes": ("collapse",), "fields": lines_of(Section.ORIGIN)}),
    )

    def get_formset(self, request: HttpRequest, obj: Ruleset | None = None, **options: Any) -> Any:
        """Return the formset with the fields that only the template shows, besides the fields of the fieldsets."""
        return super().get_formset(request, obj, **{"fields": RuleForm.Meta.fields, **options})


@admin.register(Ruleset)
class RulesetAdmin(Versioned, Guarded, BaseAdmin):
    """One page per limiter, and the pages that Django's admin does not have."""

    # In the order of their links. Routes with a fixed beginning come before routes that begin with a ruleset's key.
    pages: tuple[type[AdminPage], ...] = (
        *(LivePage, ExplainPage, ReplayPage, SuggestPage, ExportAllPage, ImportPage),
        *(DeletedPage, PastPage, UndeletePage),
        *(SwitchPage, TurnPage, ExportPage, RestorePage, ReplayEditedPage),
    )
    form = RulesetForm
    inlines = (RuleInline,)
    list_display = (
        *("name", "look", changelist.mode_in_short, changelist.number_of_rules, changelist.summary, changelist.changed),
    )  # type: ignore[assignment]  # django-stubs know columns of str and bool only
    list_filter = ("mode", "failure_mode", "rules__action", "updated_at")
    search_fields = ("name", "description", "rules__name")
    readonly_fields = ("version_in_force", "properties")
    formfield_overrides = {models.TextField: {"widget": Textarea(attrs={"cols": 80, "rows": 2})}}
    fieldsets = (
        (None, {"fields": (("name", "mode"), "description", "version_in_force")}),
        (
            gettext_lazy("When Redis fails, and Redis Cluster"),
            {"classes": ("collapse",), "fields": ("failure_mode", "partition_by")},
        ),
        (gettext_lazy("Properties that rules can use"), {"classes": ("collapse",), "fields": ("properties",)}),
    )
    save_as = True

    class Media:
        css = {"all": ("django_ratelimit_rules/admin.css", "django_ratelimit_rules/explain.css")}
        js = tuple(f"django_ratelimit_rules/{name}.js" for name in SCRIPTS)

    @cached_property
    def links(self) -> Links:
        """The links within the site that serves these pages."""
        return Links(self.admin_site.name)

    @cached_property
    def served(self) -> list[AdminPage]:
        """The pages as this site serves them."""
        return [page(self) for page in self.pages]

    def get_urls(self) -> list[URLPattern]:
        """Return the routes of all pages."""
        return [*(page.path() for page in self.served), *super().get_urls()]

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[changelist.RulesetList]:
        """Return the list with rules."""
        return changelist.RulesetList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rulesets that contain the words, also in the names of their rules."""
        return changelist.search(queryset, search_term), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list with links to the pages that the user may open."""
        links = [link for page in self.served if page.is_open_to(request) for link in page.list_links()]
        return super().changelist_view(request, {**(extra_context or {}), "page_links": links})

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields that the user may not change."""
        fixed = [*super().get_readonly_fields(request, obj)]
        if not permissions.may(request, permissions.SWITCH):
            fixed.append("mode")
        if not permissions.may(request, permissions.LIMITS):
            fixed += ["name", "description", "failure_mode", "partition_by"]
        return fixed

    def get_formset_kwargs(self, request: HttpRequest, obj: Any, inline: Any, prefix: str) -> dict[str, Any]:
        """Open the rules named in the address, and add the copy or the override that the address requests."""
        options: dict[str, Any] = super().get_formset_kwargs(request, obj, inline, prefix)
        overriding = other_tiers.override(request, obj)
        if overriding:
            options["initial"] = overriding
        if isinstance(inline, RuleInline):
            options["opened"] = request.GET.getlist("open")
            if COPY in request.GET and request.method == "GET" and obj.pk:
                options["initial"] = [copy_of(rule) for rule in obj.rules.all() if rule.name == request.GET[COPY]]
        return options

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Ruleset | None = None,
    ) -> HttpResponse:
        """Show the rules of the other tiers, the last hour, and links to the pages that the user may open."""
        context |= other_tiers.panels(request, obj)
        context["limiter"] = obj.name if obj else request.GET.get("name", "")
        turn = self.links if permissions.may(request, permissions.LIMITS) else None
        for inline in context["inline_admin_formsets"]:
            copy = f"{inline.formset.prefix}-{inline.formset.initial_form_count()}" if inline.has_add_permission else ""
            inline.formset.allowed = Allowed(inline.has_change_permission, inline.has_delete_permission, copy, turn)
        if obj is not None:
            open_pages = [page for page in self.served if page.is_open_to(request)]
            context["page_links"] = [link for page in open_pages for link in page.ruleset_links(obj)]
            context["divergence"] = divergence.sentences(obj.name)
            _add_charts(context, obj.name)
        return super().render_change_form(request, context, add, change, form_url, obj)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the versions of a ruleset, each with its changes, above Django's own log."""
        ruleset = self.get_object(request, object_id)
        context = dict(extra_context or {})
        if ruleset is not None:
            context |= {"ruleset": ruleset, "now": ruleset.version}
            context |= versions(request, self.links, ruleset.name, ruleset)
            context["may_restore"] = self.has_change_permission(request, ruleset)
        response = super().history_view(request, object_id, context)
        for entry in (getattr(response, "context_data", None) or {}).get("action_list", ()):
            # Django shows an entry as it is stored, which is in English.
            entry.change_message = actions.shown_entry(entry.change_message)
        return response

    @admin.display(description=gettext_lazy("now"))
    def look(self, ruleset: Ruleset) -> SafeString:
        """Return the links to the pages that show the effect of a ruleset."""
        return changelist.look(ruleset, self.links)

    @admin.display(description=gettext_lazy("Version"))
    def version_in_force(self, ruleset: Ruleset) -> SafeString | str:
        """Return the number of the version, with a link to all versions."""
        if not ruleset.pk:
            return "-"
        history = self.links.to("history", ruleset.pk)
        number = ruleset.version or _("none kept yet")
        return format_html('{} (<a href="{}">{}</a>)', number, history, _("history"))

    @admin.display(description=gettext_lazy("Properties"))
    def properties(self, _ruleset: Ruleset) -> SafeString:
        """Return all properties that a rule can count by or match."""
        known = registry.known_properties().values()
        rows = (
            (item.name, localized(item.description) or _("passed by the code"), ", ".join(item.choices))
            for item in known
        )
        lines = format_html_join("", "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>", rows)
        return format_html('<table class="ratelimit-properties">{}</table>', lines)


def _add_charts(context: dict[str, Any], limiter: str) -> None:
    drawn = charts(limiter)
    for inline in context["inline_admin_formsets"] if drawn else ():
        for form in inline.formset.initial_forms:
            form.instance.chart = drawn.get(form.saved_name, drawn[""])
