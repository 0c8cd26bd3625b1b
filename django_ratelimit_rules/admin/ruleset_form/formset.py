"""The forms of the ruleset page: one rule, and the rules of a ruleset together.

The posted values go in. Checked rows come out, or errors on the invalid fields. The model and the engine check them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import CharField, F, Value
from django.db.models.functions import Cast, Concat
from django.forms.formsets import DELETION_FIELD_NAME
from django.forms.models import construct_instance, model_to_dict
from django.utils.formats import number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ...checks import form_size
from ...conf import settings
from ...engine.fields import ALL, SPECS
from ...engine.lint import Finding
from ...engine.matching import OPERATORS
from ...identifiers import registry
from ...models import ANSWER_PROPERTIES, Rule, Ruleset
from ...rulesets import findings
from ...rulesets.text import POSITION_STEP
from ...runtime.language import localized
from . import rows as lines
from .fields import KeyField, form_field, help_text, label, widgets
from .summaries import rule_summary

if TYPE_CHECKING:
    BaseRuleForm = forms.ModelForm[Rule]
    BaseRulesFormSet = forms.BaseInlineFormSet[Rule, Ruleset, forms.ModelForm[Rule]]
else:
    BaseRulesFormSet = forms.BaseInlineFormSet
    # Add the fields that Django cannot derive from the columns.
    BaseRuleForm = type(forms.ModelForm)(
        "BaseRuleForm", (forms.ModelForm,), {name: made for name, spec in SPECS.items() if (made := form_field(spec))}
    )

# Fields on the line of every rule, which shows before the rule is opened.
HEAD = ("position", "enabled")

# Findings that are left out, because the rule's summary contains them.
IN_SUMMARY = ("unreadable", "unknown_property")


class RuleForm(BaseRuleForm):
    """One rule with the spellings that an operator types. A rule that is not opened has only the fields of its line."""

    position = forms.IntegerField(
        label=_("Position"),
        required=False,
        min_value=0,
        widget=forms.TextInput(attrs={"size": 5, "inputmode": "numeric"}),
        help_text=_("The lowest position runs first. Empty: last."),
    )

    class Meta:
        model = Rule
        fields = ("position", *SPECS)
        widgets = widgets()
        help_texts = {name: help_text(spec) for name, spec in SPECS.items()}
        labels = {name: label(spec) for name, spec in SPECS.items()}

    formset: RulesFormSet
    index: int | None

    def __init__(
        self, *args: Any, whole: bool = True, opened: bool = False, about: Collection[Finding] = (), **options: Any
    ) -> None:
        self.whole, self.opened, self.findings = whole, opened, about
        if not whole:
            self.base_fields = {name: self.base_fields[name] for name in HEAD}  # type: ignore[misc]
        super().__init__(*args, **options)
        if whole and hasattr(self.fields["expires_at"].widget, "widgets"):
            labels = (gettext("Expires at: date"), gettext("Expires at: time"))
            for part, text in zip(self.fields["expires_at"].widget.widgets, labels, strict=True):
                part.attrs["aria-label"] = text
        # Keep the saved values for the summary, because the form will write the typed values into the row.
        self.saved_name, self.saved_action = self.instance.name, self.instance.action
        self._saved = None if self.instance._state.adding else self.instance.engine_fields()

    @property
    def summary(self) -> str:
        """The sentence of the saved rule. Empty for a new rule."""
        return "" if self._saved is None else rule_summary(self._saved)

    @cached_property
    def line(self) -> dict[str, Any]:
        """The values of the rule's line. Rendering bound fields and widgets for every rule would be too slow."""
        values = {name: self[name].value() for name in (*HEAD, DELETION_FIELD_NAME) if name in self.fields}
        return {
            **{"name": self.saved_name, "prefix": self.prefix, "pk": self.instance.pk, "owner": self.instance.owner},
            **{"summary": self.summary, "whole": self.whole, "findings": self.findings},
            **{"action": self.saved_action, "ruleset": self.instance.ruleset_id},
            **{"invalid": self.is_bound and bool(self.errors), "opened": self.opened},
            **values,
        }

    @property
    def head(self) -> SafeString:
        """The HTML of its line."""
        return lines.head(self.line, self.formset.allowed)

    @property
    def unopened(self) -> SafeString:
        """The HTML that is shown instead of its fields."""
        return lines.unopened(self.line, self.index or 0, self.formset.allowed)

    def has_changed(self) -> bool:
        """Return whether to save the rule. A new rule needs more than a position. A copy in a new ruleset is saved."""
        if not self.instance._state.adding:
            return super().has_changed()
        if not self.whole and not self.saved_name:
            # The rule was deleted after the page was shown, and is not opened here, so it stays deleted.
            return False
        return bool(self.saved_name) or any(name != "position" for name in self.changed_data)

    def clean(self) -> dict[str, Any]:
        """Skip the check for duplicate names. The formset checks them, because it has the new names of all rules."""
        return self.cleaned_data

    def add_error(self, field: str | None, error: Any) -> None:
        """Show one message per field, the engine's last. An unreadable value is not reported as missing too."""
        if isinstance(error, ValidationError) and hasattr(error, "error_dict"):
            new = {name: messages[-1:] for name, messages in error.error_dict.items() if name not in self.errors}
            error = ValidationError(new)
        super().add_error(field, error)

    def _post_clean(self) -> None:
        if self.whole:
            super()._post_clean()  # type: ignore[misc]
        else:
            # Skip the other fields, because the user cannot repair fields that were not shown. An invalid row must not
            # prevent changes to other rules.
            self.instance = construct_instance(self, self.instance, HEAD)


class Stored(NamedTuple):
    """A rule in the database."""

    pk: int
    position: int
    fields: dict[str, Any]


class RulesFormSet(BaseRulesFormSet):
    """The rules of one ruleset. ``opened`` are the names of the rules that the user opened."""

    def __init__(self, *args: Any, opened: Collection[str] = (), **options: Any) -> None:
        self.opened = opened
        self.allowed = lines.Allowed()
        super().__init__(*args, **options)
        # Keep the stored rules, because the forms will write the typed values into the rows.
        self.stored = [Stored(row.pk, row.position, row.engine_fields()) for row in self.get_queryset()]

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        """Add whether the fields of a rule are shown or were posted. They were posted if its name was."""
        options: dict[str, Any] = super().get_form_kwargs(index)
        if self.is_bound:
            shown = self.management_form.cleaned_data["INITIAL_FORMS"] or 0
            whole = index is None or index >= shown or f"{self.add_prefix(index)}-name" in self.data
            return {**options, "whole": whole}
        rows = self.get_queryset()
        if index is None or index >= len(rows):
            return options
        name = rows[index].name
        about = self._findings_by_rule.get(name, ())
        whole = len(rows) <= form_size.OPEN_AT_ONCE or name in self.opened
        return {**options, "whole": whole, "opened": name in self.opened, "about": about}

    def _construct_form(self, i: int, **options: Any) -> Any:
        # Don't use initial_form_count(), because it is 0 if all rules are saved as new rules.
        if self.is_bound and self.save_as_new and not self.get_form_kwargs(i)["whole"]:
            options["instance"] = self._copy(self.data.get(f"{self.add_prefix(i)}-id"))
        form = super()._construct_form(i, **options)  # type: ignore[misc]
        # Set the ruleset with its typed values. This also saves a query per rule.
        form.instance.ruleset = self.instance
        return form

    @staticmethod
    def _copy(pk: Any) -> Rule:
        """Return a new rule with the values of a saved rule that was not opened."""
        rule = Rule.objects.filter(pk=pk).first() if str(pk).isdecimal() else None
        copy = rule or Rule()
        copy.pk, copy._state.adding = None, True
        return copy

    def add_fields(self, form: Any, index: int | None) -> None:
        """Skip the checks of an unchanged rule, because an invalid row must not prevent changes to other rules."""
        super().add_fields(form, index)
        form.fields["id"] = KeyField(form.instance.pk)
        form.empty_permitted = True
        form.formset, form.index = self, index

    def clean(self) -> None:
        """Report duplicate names on their field, and move rules without a position to the end."""
        kept = [form for form in self.forms if self._is_rule(form)]
        names = {rule.fields["name"] for rule in self.not_shown}
        for form in kept:
            name = form.instance.name
            if name in names and "name" in form.fields and "name" not in form.errors:
                message = gettext("Another rule here is named “%(name)s”. Names are unique within a ruleset.")
                form.add_error("name", message % {"name": name})
            names.add(name)
        last = max((form.instance.position or 0 for form in kept), default=0)
        for form in kept:
            given = form.cleaned_data.get("position") if form.instance.pk is None else form.instance.position
            if given is None:
                last = form.instance.position = last - last % POSITION_STEP + POSITION_STEP
        self._check_partition(kept)

    def _check_partition(self, kept: Collection[BaseRuleForm]) -> None:
        """Report rules that don't count by the partition, on their field, or above the rules if they are not opened."""
        closed = []
        for form in kept:
            for field, message in form.instance.partition_problem(self.instance.partition_by).items():
                if field not in form.fields:
                    closed.append(f"{form.instance.name}: {localized(message)}")
                elif field not in form.errors:
                    form.add_error(field, localized(message))
        if closed:
            raise ValidationError(closed)

    @property
    def not_shown(self) -> list[Stored]:
        """The rules that were added to the ruleset after the page was made."""
        shown = {form.instance.pk for form in self.forms}
        return [rule for rule in self.stored if rule.pk not in shown]

    def save(self, commit: bool = True) -> Any:
        """Save all rules. Names may be swapped, rotated or taken over from a deleted rule."""
        # Read the property once, because Django checks all forms on each access.
        deleted = self.deleted_forms
        freed = [form.instance.pk for form in self.initial_forms if form in deleted or "name" in form.changed_data]
        if commit and freed:
            # No rule can have such a name, so the names are unique. The rows get their new names below.
            nameless = Concat(Value("-"), Cast(F("pk"), CharField()))
            Rule.objects.filter(pk__in=freed).update(name=nameless)
        self._moved: list[Rule] = []
        self._moved_in: set[str] = set()
        saved = super().save(commit)
        if self._moved:
            # Use one query, because moving one rule to the front moves all others.
            Rule.objects.bulk_update(self._moved, self._moved_in)
        return saved

    def save_existing(self, form: Any, obj: Rule, commit: bool = True) -> Rule:
        """Save a rule. A rule that was only moved, enabled or disabled is saved later, together with others."""
        changed = {*form.changed_data}
        if commit and changed <= {*HEAD}:
            self._moved.append(obj)
            self._moved_in |= changed
            return obj
        return super().save_existing(form, obj, commit)

    def validate_unique(self) -> None:
        """Do nothing, because :meth:`clean` reports duplicates on the field, and the model checks them too."""

    @cached_property
    def findings(self) -> list[Finding]:
        """The linter's findings about the saved rules."""
        if self.instance.pk is None:
            return []
        # Don't use the rows of the forms, because they have the typed values.
        rows = Rule.objects.filter(ruleset=self.instance) if self.is_bound else self.get_queryset()
        return findings.of_limiter(self.instance.name, rows)

    @cached_property
    def _findings_by_rule(self) -> dict[str | None, list[Finding]]:
        by_rule: dict[str | None, list[Finding]] = {}
        for finding in self.findings:
            if finding.code not in IN_SUMMARY:
                by_rule.setdefault(finding.rule, []).append(finding)
        return by_rule

    @property
    def findings_elsewhere(self) -> list[Finding]:
        """Findings about the ruleset, or about rules of other tiers."""
        shown = {form.saved_name for form in self.initial_forms if isinstance(form, RuleForm)}
        return [finding for finding in self.findings if finding.rule not in shown]

    @property
    def too_long(self) -> str:
        """The reason if the page cannot be saved because it has more fields than the project accepts."""
        number, most = self.initial_form_count(), form_size.most_rules()
        if most is None or number <= most:
            return ""
        return ngettext(
            "This page cannot be saved: for %(number)s rule it sends more fields than DATA_UPLOAD_MAX_NUMBER_FIELDS "
            "(%(maximum)s) allows. Set that to %(needed)s or more, or change the rules by export and import.",
            "This page cannot be saved: for %(number)s rules it sends more fields than DATA_UPLOAD_MAX_NUMBER_FIELDS "
            "(%(maximum)s) allows. Set that to %(needed)s or more, or change the rules by export and import.",
            number,
        ) % {
            "number": number_format(number, use_l10n=True, force_grouping=True),
            # The setting is Python code, so its values have no separators.
            "maximum": settings.max_form_fields,
            "needed": form_size.fields_of(number),
        }

    @property
    def vocabulary(self) -> dict[str, list[dict[str, Any]]]:
        """The properties of requests and of responses, for suggestions. Their hints are in the active language."""
        known = registry.known_properties().values()
        choices = {"login": ("failed", "ok")}
        return {
            "match": [{"name": row.name, "hint": localized(row.description), "choices": row.choices} for row in known],
            "response": [
                {"name": name, "hint": "", "choices": choices.get(name, ())}
                for name in (*ANSWER_PROPERTIES, "header.*")
            ],
        }

    @property
    def options(self) -> list[dict[str, Any]]:
        """The fields that not every rule uses, with the actions and the values of other fields that use them."""
        return [
            {
                "name": spec.name,
                "neutral": _as_input(spec.default),
                "actions": spec.actions,
                "requirements": {
                    name: [_as_input(value) for value in allowed()] for name, allowed, _ in spec.requirements
                },
            }
            for spec in SPECS.values()
            if spec.actions != ALL
        ]

    @property
    def operators(self) -> list[dict[str, Any]]:
        """The operators of conditions, with their labels in the active language."""
        return [
            {
                "name": row.name,
                "labels": tuple(localized(text) for text in row.labels or row.phrases),
                "operand": row.operand.value,
                "rarely_negated": row.rarely_negated,
                "aliases": row.aliases,
            }
            for row in OPERATORS.values()
        ]

    @staticmethod
    def _is_rule(form: BaseRuleForm) -> bool:
        """Whether the form has a rule that will be kept. A rule to be deleted and an empty form do not count."""
        deleted = form.cleaned_data.get(DELETION_FIELD_NAME, False)
        return not deleted and (form.instance.pk is not None or form.has_changed())


def _as_input(value: object) -> str:
    """Return the string for an input that has a default value."""
    return "" if value is None or value == () else str(value)


def copy_of(rule: Rule) -> dict[str, Any]:
    """Return the initial values of a copy of a rule. It has an unused name and the last position."""
    taken = set(Rule.objects.filter(ruleset=rule.ruleset_id).values_list("name", flat=True))
    stem = rule.name[:55] + "_copy"
    names = (f"{stem}{number or ''}" for number in range(len(taken) + 1))
    return {
        **model_to_dict(rule, RuleForm.Meta.fields),
        "name": next(name for name in names if name not in taken),
        "position": None,
    }
