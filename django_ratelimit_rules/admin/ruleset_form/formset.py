"""The forms of the ruleset page: one rule, and the rules of a ruleset together.

What the operator typed goes in; checked rows come out, or errors on the fields concerned. The checks themselves are the
model's and the engine's.
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
from django.utils.safestring import SafeString

from ...checks import form_size
from ...conf import settings
from ...engine.fields import ALL, SPECS
from ...engine.lint import Finding
from ...engine.matching import OPERATORS
from ...identifiers import registry
from ...models import ANSWER_PROPERTIES, Rule, Ruleset
from ...rulesets import findings
from ...rulesets.text import POSITION_STEP
from . import rows as lines
from .fields import KeyField, form_field, widgets
from .summaries import rule_summary

if TYPE_CHECKING:
    BaseRuleForm = forms.ModelForm[Rule]
    BaseRulesFormSet = forms.BaseInlineFormSet[Rule, Ruleset, forms.ModelForm[Rule]]
else:
    BaseRulesFormSet = forms.BaseInlineFormSet
    # The fields that Django cannot make of the columns.
    BaseRuleForm = type(forms.ModelForm)(
        "BaseRuleForm", (forms.ModelForm,), {name: made for name, spec in SPECS.items() if (made := form_field(spec))}
    )

# Fields that every rule shows, whether or not it is opened.
HEAD = ("position", "enabled")

# Findings that a rule's summary tells already.
SAID_BY_SUMMARY = ("unreadable", "unknown_property")


class RuleForm(BaseRuleForm):
    """One rule, as text that an operator can type; of a rule that is not opened, only where it stands."""

    position = forms.IntegerField(
        required=False,
        min_value=0,
        widget=forms.TextInput(attrs={"size": 5, "inputmode": "numeric"}),
        help_text="Lowest runs first. Empty: last.",
    )

    class Meta:
        model = Rule
        fields = ("position", *SPECS)
        widgets = widgets()
        help_texts = {name: spec.help_text for name, spec in SPECS.items()}
        labels = {name: spec.title for name, spec in SPECS.items()}

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
            for part, label in zip(self.fields["expires_at"].widget.widgets, ("date", "time"), strict=True):
                part.attrs["aria-label"] = f"Expires at: {label}"
        # Now, before the form writes what was typed into the row: the summary says what is saved.
        self.saved_name, self.saved_action = self.instance.name, self.instance.action
        self._saved = None if self.instance._state.adding else self.instance.engine_fields()

    @property
    def summary(self) -> str:
        """What the saved rule does, in a sentence; nothing for a new one."""
        return "" if self._saved is None else rule_summary(self._saved)

    @cached_property
    def line(self) -> dict[str, Any]:
        """What the page says of every rule; Django's own way into a form is slow, and so are widgets."""
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
        """Its line."""
        return lines.head(self.line, self.formset.allowed)

    @property
    def unopened(self) -> SafeString:
        """What stands in place of its fields."""
        return lines.unopened(self.line, self.index or 0, self.formset.allowed)

    def has_changed(self) -> bool:
        """A new rule is none before more than its place is said; a copy in a new ruleset is one, whatever was typed."""
        if not self.instance._state.adding:
            return super().has_changed()
        if not self.whole and not self.saved_name:
            # A rule that somebody deleted since the page was shown, and nobody opened here: it stays deleted.
            return False
        return bool(self.saved_name) or any(name != "position" for name in self.changed_data)

    def clean(self) -> dict[str, Any]:
        """Leave names used twice to the formset, which alone knows what they are going to be."""
        return self.cleaned_data

    def add_error(self, field: str | None, error: Any) -> None:
        """Show one message a field: what could not be read is not missing as well; the engine's word comes last."""
        if isinstance(error, ValidationError) and hasattr(error, "error_dict"):
            new = {name: messages[-1:] for name, messages in error.error_dict.items() if name not in self.errors}
            error = ValidationError(new)
        super().add_error(field, error)

    def _post_clean(self) -> None:
        if self.whole:
            super()._post_clean()  # type: ignore[misc]
        else:
            # The rest of the row was not shown, so that nobody could repair it: one bad row must not lock the others.
            self.instance = construct_instance(self, self.instance, HEAD)


class Stored(NamedTuple):
    """A rule as it stands in the database."""

    pk: int
    position: int
    fields: dict[str, Any]


class RulesFormSet(BaseRulesFormSet):
    """The rules of one ruleset. ``opened`` are the names of those whose fields somebody asked to see."""

    def __init__(self, *args: Any, opened: Collection[str] = (), **options: Any) -> None:
        self.opened = opened
        self.allowed = lines.Allowed()
        super().__init__(*args, **options)
        # What is stored, before forms write into the rows what was typed.
        self.stored = [Stored(row.pk, row.position, row.engine_fields()) for row in self.get_queryset()]

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        """Say how much of a rule is shown, or was sent: its name is always sent with its fields."""
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
        # By what was shown: initial_form_count() is 0 when all rules are saved as new ones.
        if self.is_bound and self.save_as_new and not self.get_form_kwargs(i)["whole"]:
            options["instance"] = self._copy(self.data.get(f"{self.add_prefix(i)}-id"))
        form = super()._construct_form(i, **options)  # type: ignore[misc]
        # As it is going to be, and without asking the database for it once a rule.
        form.instance.ruleset = self.instance
        return form

    @staticmethod
    def _copy(pk: Any) -> Rule:
        """Return a new rule that says what one says that was not opened."""
        rule = Rule.objects.filter(pk=pk).first() if str(pk).isdecimal() else None
        copy = rule or Rule()
        copy.pk, copy._state.adding = None, True
        return copy

    def add_fields(self, form: Any, index: int | None) -> None:
        """Let a rule that nobody touched pass unchecked: one bad row must not lock the others of its ruleset."""
        super().add_fields(form, index)
        form.fields["id"] = KeyField(form.instance.pk)
        form.empty_permitted = True
        form.formset, form.index = self, index

    def clean(self) -> None:
        """Put a name used twice on its field, and rules without a position at the end."""
        kept = [form for form in self.forms if self._is_rule(form)]
        names = {rule.fields["name"] for rule in self.not_shown}
        for form in kept:
            name = form.instance.name
            if name in names and "name" in form.fields and "name" not in form.errors:
                form.add_error("name", f"Another rule here is named {name!r}; names are unique within a ruleset.")
            names.add(name)
        last = max((form.instance.position or 0 for form in kept), default=0)
        for form in kept:
            given = form.cleaned_data.get("position") if form.instance.pk is None else form.instance.position
            if given is None:
                last = form.instance.position = last - last % POSITION_STEP + POSITION_STEP
        self._check_partition(kept)

    def _check_partition(self, kept: Collection[BaseRuleForm]) -> None:
        """Put what does not count by the ruleset's partition on its field, or above rules that are not opened."""
        closed = []
        for form in kept:
            for field, message in form.instance.partition_problem(self.instance.partition_by).items():
                if field not in form.fields:
                    closed.append(f"{form.instance.name}: {message}")
                elif field not in form.errors:
                    form.add_error(field, message)
        if closed:
            raise ValidationError(closed)

    @property
    def not_shown(self) -> list[Stored]:
        """The rules that came into the ruleset after the page was made."""
        shown = {form.instance.pk for form in self.forms}
        return [rule for rule in self.stored if rule.pk not in shown]

    def save(self, commit: bool = True) -> Any:
        """Save all rules; names may be swapped, rotated or taken over from a rule that is deleted."""
        # Once: Django makes the list anew, and checks all forms for it, whenever it is asked.
        deleted = self.deleted_forms
        freed = [form.instance.pk for form in self.initial_forms if form in deleted or "name" in form.changed_data]
        if commit and freed:
            # No rule can have such a name, so it meets none; the rows get theirs in what follows.
            nameless = Concat(Value("-"), Cast(F("pk"), CharField()))
            Rule.objects.filter(pk__in=freed).update(name=nameless)
        self._moved: list[Rule] = []
        self._moved_in: set[str] = set()
        saved = super().save(commit)
        if self._moved:
            # In one go: one rule moved to the front moves all others.
            Rule.objects.bulk_update(self._moved, self._moved_in)
        return saved

    def save_existing(self, form: Any, obj: Rule, commit: bool = True) -> Rule:
        """Save a rule; one that was only moved, enabled or disabled is saved together with others."""
        changed = {*form.changed_data}
        if commit and changed <= {*HEAD}:
            self._moved.append(obj)
            self._moved_in |= changed
            return obj
        return super().save_existing(form, obj, commit)

    def validate_unique(self) -> None:
        """Leave that to :meth:`clean`, which finds duplicates on the field, and to the model."""

    @cached_property
    def findings(self) -> list[Finding]:
        """What the linter says of the saved rules."""
        if self.instance.pk is None:
            return []
        # Not the rows of the forms, into which is written what was typed.
        rows = Rule.objects.filter(ruleset=self.instance) if self.is_bound else self.get_queryset()
        return findings.of_limiter(self.instance.name, rows)

    @cached_property
    def _findings_by_rule(self) -> dict[str | None, list[Finding]]:
        by_rule: dict[str | None, list[Finding]] = {}
        for finding in self.findings:
            if finding.code not in SAID_BY_SUMMARY:
                by_rule.setdefault(finding.rule, []).append(finding)
        return by_rule

    @property
    def findings_elsewhere(self) -> list[Finding]:
        """Findings about the ruleset, or about rules of other tiers."""
        shown = {form.saved_name for form in self.initial_forms if isinstance(form, RuleForm)}
        return [finding for finding in self.findings if finding.rule not in shown]

    @property
    def too_long(self) -> str:
        """Why the page cannot be saved, where it has more fields than the project lets through."""
        number, most = self.initial_form_count(), form_size.most_rules()
        if most is None or number <= most:
            return ""
        return (
            f"This page cannot be saved: for {number} rules it sends more fields than DATA_UPLOAD_MAX_NUMBER_FIELDS "
            f"({settings.max_form_fields}) lets through. Set that to {form_size.fields_of(number)} or more, or "
            "change the rules by export and import."
        )

    @property
    def vocabulary(self) -> dict[str, list[dict[str, Any]]]:
        """The properties there are, for suggestions: those of a request, and those of an answer."""
        known = registry.known_properties().values()
        answer = {"login": ("failed", "ok")}
        return {
            "match": [{"name": each.name, "hint": each.description, "choices": each.choices} for each in known],
            "response": [
                {"name": name, "hint": "", "choices": answer.get(name, ())} for name in (*ANSWER_PROPERTIES, "header.*")
            ],
        }

    @property
    def options(self) -> list[dict[str, Any]]:
        """The fields that not every rule uses: for which actions, and with which values of other fields."""
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
        """The operators of conditions, in the words of the builder."""
        return [
            {
                "name": row.name,
                "labels": row.labels or row.phrases,
                "operand": row.operand.value,
                "rarely_negated": row.rarely_negated,
                "aliases": row.aliases,
            }
            for row in OPERATORS.values()
        ]

    @staticmethod
    def _is_rule(form: BaseRuleForm) -> bool:
        """Whether the form stands for a rule: not one to be deleted, nor one that was offered and left empty."""
        deleted = form.cleaned_data.get(DELETION_FIELD_NAME, False)
        return not deleted and (form.instance.pk is not None or form.has_changed())


def _as_input(value: object) -> str:
    """Return the text of an input that says a default."""
    return "" if value is None or value == () else str(value)


def copy_of(rule: Rule) -> dict[str, Any]:
    """Return what a new rule starts with that is a copy of another; its name is free, its place the last."""
    taken = set(Rule.objects.filter(ruleset=rule.ruleset_id).values_list("name", flat=True))
    stem = rule.name[:55] + "_copy"
    names = (f"{stem}{number or ''}" for number in range(len(taken) + 1))
    return {
        **model_to_dict(rule, RuleForm.Meta.fields),
        "name": next(name for name in names if name not in taken),
        "position": None,
    }
