"""The rules of a ruleset on its page, limited to the changes that the user may make.

A request and the posted rules go in. Errors come out for changes without permission, and for a page that is older than
the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest

from ...models import Rule, Ruleset
from ...rulesets import diff as ruleset_diff
from ...rulesets.text import Plain, PlainForms
from ...runtime.language import localized
from .. import permissions
from ..permissions import Guarded
from .fields import digest
from .formset import RulesFormSet, Stored
from .other_tiers import OVERRIDE
from .ruleset import STALE

if TYPE_CHECKING:
    from django.contrib.admin import StackedInline

    InlineMixin = StackedInline[Rule, Ruleset]
else:
    InlineMixin = object

MAX_KEY = 2**63
MOST_CHANGES = 20


class GuardedFormSet(RulesFormSet):
    """The rules of a ruleset. The user may make the changes that their permissions allow."""

    request: HttpRequest

    def clean(self) -> None:
        """Reject changes without permission here, so that the page keeps the typed values. The save checks again."""
        super().clean()
        # Rules added since the page was made are unchanged. New rules have no key yet, so they come last.
        shown = [Stored(rule.pk or MAX_KEY, rule.position or 0, rule.engine_fields()) for rule in self._kept()]
        before = {self.instance.name: self._before}
        after = {self.instance.name: self._plain([*shown, *self.not_shown])}
        lacking = permissions.missing(self.request, before, after)
        if lacking:
            raise ValidationError(lacking)
        changes = ruleset_diff.compare(before, after)
        if self.data.get(f"{self.prefix}-seen", self.seen) != self.seen and changes and self.instance.pk:
            lines = [f"{change.mark} {localized(change.text)}" for change in changes[:MOST_CHANGES] if change.depth]
            raise ValidationError([STALE, *lines])

    @cached_property
    def seen(self) -> str:
        """A digest of the stored rules. A page with another digest showed other rules."""
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
    """The rules inline. A user who may write limits or skip rules may write here."""

    formset = GuardedFormSet
    writes = adds = (permissions.LIMITS, permissions.SKIPS)

    def get_formset(self, request: HttpRequest, obj: Any = None, **options: Any) -> Any:
        """Pass the request on to the rules. Django makes this class for one request only."""
        made: Any = super().get_formset(request, obj, **options)
        made.request = request
        return made

    def get_extra(self, request: HttpRequest, obj: Any = None, **options: Any) -> int:
        """Add a form for the rule that overrides a rule of code."""
        return max(super().get_extra(request, obj, **options), int(OVERRIDE in request.GET))
