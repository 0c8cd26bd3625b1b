"""The forms of the ruleset page: one rule, and the rules of a ruleset together.

What the operator typed goes in; checked rows come out, or errors on the fields concerned. The checks themselves are the
model's and the engine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.formsets import DELETION_FIELD_NAME

from ..models import Rule, Ruleset
from .fields import ConditionsField, DurationField, PropertiesField
from .summaries import rule_summary

if TYPE_CHECKING:
    BaseRuleForm = forms.ModelForm[Rule]
    BaseRulesFormSet = forms.BaseInlineFormSet[Rule, Ruleset, forms.ModelForm[Rule]]
else:
    BaseRuleForm, BaseRulesFormSet = forms.ModelForm, forms.BaseInlineFormSet

POSITION_STEP = 10


class RuleForm(BaseRuleForm):
    """One rule, as text that an operator can type."""

    position = forms.IntegerField(
        required=False,
        min_value=0,
        widget=forms.TextInput(attrs={"size": 5, "inputmode": "numeric"}),
        help_text="Lowest runs first. Empty: last.",
    )
    limit = forms.IntegerField(
        required=False,
        widget=forms.TextInput(attrs={"size": 12, "inputmode": "numeric"}),
        help_text="How many pass per period. 0: nothing passes. None for skip.",
    )
    period = DurationField(required=False, help_text="30s, 5m, 2h, 1d; digits alone: seconds. None for skip.")
    characteristics = PropertiesField(
        required=False,
        initial=list,
        label="Count by",
        help_text="Properties between commas, in order: <code>ip</code>, or <code>user, header.x-team</code>. Each "
        "combination of their values has a counter of its own. Empty: one counter for everyone together.",
    )
    match = ConditionsField(
        required=False,
        empty=dict,
        initial=dict,
        label="Applies when",
        help_text='JSON; every condition must hold. <code>{}</code> is every request. <code>{"path": {"prefix": '
        '"/api/"}, "plan": ["free", "trial"]}</code>. A list of such objects: one of them must hold.',
    )
    ban_for = DurationField(
        required=False,
        help_text="Whoever goes over the limit stays blocked for this long: 15m, 1h. Empty: no ban.",
    )
    response = ConditionsField(
        required=False,
        label="Charge by the answer",
        help_text='JSON; count only requests that were answered like this: <code>{"status": 401}</code>, '
        '<code>{"login": "failed"}</code>, <code>{"header.x-cache": "miss"}</code>. Empty: count every request.',
    )

    class Meta:
        model = Rule
        fields = (
            *("position", "name", "action", "description", "match", "characteristics", "limit", "period"),
            *("algorithm", "count_distinct", "ban_for", "response", "enabled", "expires_at"),
        )
        widgets = {
            "description": forms.Textarea(attrs={"cols": 80, "rows": 2}),
            "count_distinct": forms.TextInput(attrs={"size": 40}),
        }
        help_texts = {
            "name": "Small letters, digits, _. Renaming restarts its counts.",
            "action": "limit blocks above the limit; log only counts, nobody is blocked; skip lets the request through "
            "at once, and the rules below never see it.",
            "description": "For people: why this rule is here, who asked for it.",
            "algorithm": "fixed window: starts with the first call and ends one period later. sliding window: smoother "
            "at the edges. token bucket: refills evenly, allows bursts up to the limit.",
            "count_distinct": "Count the different values of this property instead of requests: with "
            "<code>post.username</code>, how many accounts somebody tries. Empty: count requests.",
            "enabled": "Off: out of force, kept here.",
            "expires_at": "From then on the rule is as if it were not here.",
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        rule: Any = self.instance
        if not rule._state.adding:
            # Now, before the form writes what was typed into the row: the summary says what is saved.
            rule.summary_as_saved = rule_summary(rule)

    def add_error(self, field: str | None, error: Any) -> None:
        """Show one message a field: what could not be read is not missing as well; the engine's word comes last."""
        if isinstance(error, ValidationError) and hasattr(error, "error_dict"):
            new = {name: messages[-1:] for name, messages in error.error_dict.items() if name not in self.errors}
            error = ValidationError(new)
        super().add_error(field, error)


class RulesFormSet(BaseRulesFormSet):
    """The rules of one ruleset."""

    def add_fields(self, form: BaseRuleForm, index: int | None) -> None:
        """Let a rule that nobody touched pass unchecked: one bad row must not lock the others of its ruleset."""
        super().add_fields(form, index)
        form.empty_permitted = True

    def clean(self) -> None:
        """Put a name used twice on its field, and rules without a position at the end."""
        kept = [form for form in self.forms if self._is_rule(form)]
        names: set[str] = set()
        for form in kept:
            name = form.instance.name
            if name in names and "name" not in form.errors:
                form.add_error("name", f"Another rule here is named {name!r}; names are unique within a ruleset.")
            names.add(name)
        last = max((form.instance.position or 0 for form in kept), default=0)
        for form in kept:
            given = form.cleaned_data.get("position") if form.instance.pk is None else form.instance.position
            if given is None:
                last = form.instance.position = last - last % POSITION_STEP + POSITION_STEP

    def validate_unique(self) -> None:
        """Leave that to :meth:`clean`, which finds duplicates on the field, and to the model."""

    @staticmethod
    def _is_rule(form: BaseRuleForm) -> bool:
        """Whether the form stands for a rule: not one to be deleted, nor one that was offered and left empty."""
        deleted = form.cleaned_data.get(DELETION_FIELD_NAME, False)
        return not deleted and (form.instance.pk is not None or form.has_changed())
