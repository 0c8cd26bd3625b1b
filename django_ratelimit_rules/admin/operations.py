"""What operators do on a ruleset's page besides typing: each in a module of its own, joined here for the admin."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ..models import Rule, Ruleset
from ..rulesets import diff as ruleset_diff
from ..rulesets.text import Plain, PlainForms
from . import permissions
from .charts import divergence as divergence_chart
from .pages.base import page_url
from .pages.explain import Explains
from .pages.history import STALE, RulesetForm, Versioned
from .pages.import_export import Transfer
from .pages.live import Live, charts
from .pages.replay import Replays
from .pages.suggest import Suggests
from .pages.switch import Switches, switch_links
from .permissions import Guarded
from .ruleset_form.fields import digest
from .ruleset_form.formset import RulesFormSet, Stored
from .ruleset_form.other_tiers import OVERRIDE, OtherTiers
from .ruleset_form.rows import Allowed

if TYPE_CHECKING:
    from django.contrib.admin import StackedInline

    InlineMixin = StackedInline[Rule, Ruleset]
else:
    InlineMixin = object

MAX_KEY = 2**63
MOST_CHANGES = 20


class GuardedFormSet(RulesFormSet):
    """The rules of a ruleset, of which the user may change only what their permissions say."""

    request: HttpRequest

    def clean(self) -> None:
        """Say what the user may not do while the page still holds what they typed; the save asks again."""
        super().clean()
        # Rules that came in after the page was made stay as they are; new ones have no key yet, and come last.
        shown = [Stored(rule.pk or MAX_KEY, rule.position or 0, rule.engine_fields()) for rule in self._kept()]
        before = {self.instance.name: self._before}
        after = {self.instance.name: self._plain([*shown, *self.not_shown])}
        lacking = permissions.missing(self.request, before, after)
        if lacking:
            raise ValidationError(lacking)
        changes = ruleset_diff.compare(before, after)
        if self.data.get(f"{self.prefix}-seen", self.seen) != self.seen and changes and self.instance.pk:
            lines = [f"{change.mark} {change.text}" for change in changes[:MOST_CHANGES] if change.depth]
            raise ValidationError([STALE, *lines])

    @cached_property
    def seen(self) -> str:
        """What the rules say now, as a digest: whoever sends back another one has seen other rules."""
        return digest(self._before)

    @cached_property
    def _before(self) -> Plain:
        return self._plain(self.stored)

    def _plain(self, rules: Iterable[Stored]) -> Plain:
        forms: PlainForms = self.instance.plain_forms or PlainForms()
        ordered = sorted(rules, key=lambda rule: (rule.position, rule.pk))
        return {"rules": [forms.rule(rule.fields) for rule in ordered]}

    def _kept(self) -> Iterable[Rule]:
        return (form.instance for form in self.forms if self._is_rule(form))


class GuardedInline(Guarded, InlineMixin):
    """The rules inline: written by whoever may write limits or skip rules."""

    formset = GuardedFormSet
    writes = adds = (permissions.LIMITS, permissions.SKIPS)

    def get_formset(self, request: HttpRequest, obj: Any = None, **options: Any) -> Any:
        """Let the rules know who changes them; the class is made for this request alone."""
        made: Any = super().get_formset(request, obj, **options)
        made.request = request
        return made

    def get_extra(self, request: HttpRequest, obj: Any = None, **options: Any) -> int:
        """Make room for the rule that overrides one of code."""
        return max(super().get_extra(request, obj, **options), int(OVERRIDE in request.GET))


class Operations(Guarded, Versioned, Switches, Transfer, OtherTiers, Explains, Live, Replays, Suggests):
    """Mixed into the admin of rulesets."""

    form = RulesetForm

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Leave open what the user may change."""
        fixed = [*super().get_readonly_fields(request, obj)]
        if not permissions.may(request, permissions.SWITCH):
            fixed.append("mode")
        if not permissions.may(request, permissions.LIMITS):
            fixed += ["name", "description", "failure_mode", "partition_by"]
        return fixed

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Offer the import to whoever may write."""
        context = {**(extra_context or {}), "may_import": self.has_change_permission(request)}
        return super().changelist_view(request, context)

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Ruleset | None = None,
    ) -> HttpResponse:
        """Show the rules of the other tiers, and the switches that the user may use."""
        context |= self.other_tiers(request, obj)
        context["limiter"] = obj.name if obj else request.GET.get("name", "")
        for inline in context["inline_admin_formsets"]:
            copy = f"{inline.formset.prefix}-{inline.formset.initial_form_count()}" if inline.has_add_permission else ""
            turn = permissions.may(request, permissions.LIMITS)
            inline.formset.allowed = Allowed(inline.has_change_permission, inline.has_delete_permission, copy, turn)
        if obj is not None and permissions.may(request, permissions.SWITCH):
            context["switches"] = switch_links(obj)
        context["divergence"] = divergence_chart.sentences(obj.name) if obj else ""
        drawn = charts(obj.name) if obj else {}
        for inline in context["inline_admin_formsets"] if drawn else ():
            for form in inline.formset.initial_forms:
                form.instance.chart = drawn.get(form.saved_name, drawn[""])
        return super().render_change_form(request, context, add, change, form_url, obj)

    def version_in_force(self, ruleset: Ruleset) -> SafeString | str:
        """The number of the version, and the way to all of them."""
        if not ruleset.pk:
            return "-"
        history = page_url("history", ruleset.pk)
        return format_html('{} (<a href="{}">history</a>)', ruleset.version or "none kept yet", history)

    version_in_force.short_description = "Version"  # type: ignore[attr-defined]
