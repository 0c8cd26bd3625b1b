"""Form fields that show a rule's values as people write them: durations, lists of properties, conditions.

A field shows a value as a string and parses the string. The form keeps a typed string unchanged, valid or not. Invalid
values in the database are shown as they are, so that they can be repaired. The engine checks the values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, NoReturn

from django import forms
from django.core.exceptions import ValidationError
from django.utils.functional import lazy
from django.utils.translation import gettext as _

from ...engine.durations import format_duration, parse_duration
from ...engine.fields import SPECS, FieldSpec, Kind
from ...engine.values import escape_surrogates
from ...runtime.language import localized

ONE_LINE = 100

# For labels and helps, which are set before a language is active.
lazily_localized = lazy(localized, str)


class _Typed(str):
    """A string that the user typed. A stored value may be a string too, and must not be confused with it."""


class _TextField(forms.CharField):
    """A value that is edited as a string. Subclasses parse and format it."""

    def to_text(self, value: Any) -> str:
        """Return the string that :meth:`to_python` parses to ``value``."""
        raise NotImplementedError

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Keep the typed string."""
        return _Typed(data or "")

    def prepare_value(self, value: Any) -> str:
        """Return the string for the input."""
        return str(value) if isinstance(value, _Typed) else self.to_text(value)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare strings, because Python's 1, 1.0 and True are equal, but differ in a condition."""
        try:
            return self.to_text(self.to_python(data)) != self.to_text(initial)
        except ValidationError:
            return True


class DurationField(_TextField):
    """Whole seconds, typed and shown as ``30s``, ``1m``, ``2h``, ``1d``. Digits alone are seconds. Empty is None."""

    widget = forms.TextInput(attrs={"size": 8})

    def to_text(self, value: Any) -> str:
        """Return the shortest spelling of a duration."""
        if value is None:
            return ""
        return format_duration(value) if isinstance(value, int) and value > 0 else str(value)

    def to_python(self, value: Any) -> Any:
        """Return seconds. Raises ValidationError if the string is not a duration."""
        text = str(value or "").strip()
        if not text:
            return None
        bare = text.isascii() and text.isdigit() and len(text) < 19
        try:
            return parse_duration(int(text) if bare else text)
        except (TypeError, ValueError) as error:
            raise ValidationError(localized(error.args[0])) from error


class PropertiesField(_TextField):
    """A list of properties in order, separated by commas. It is shown as JSON if a name contains a comma."""

    widget = forms.TextInput(attrs={"size": 60, "class": "vTextField"})

    def to_text(self, value: Any) -> str:
        """Return the names separated by commas, or JSON."""
        names = value if isinstance(value, list) else [value]
        plain = all(isinstance(name, str) and name == name.strip() and "," not in name for name in names)
        text = ", ".join(names) if plain and all(names) else ""
        if isinstance(value, list) and (text or not value) and text[:1] not in ("[", "{", '"'):
            return text
        return dump(value)

    def to_python(self, value: Any) -> Any:
        """Return the list of names. Raises ValidationError for invalid JSON."""
        text = str(value or "").strip()
        if text[:1] in ("[", "{", '"'):
            return load(text)
        return [name.strip() for name in text.split(",")] if text else []


class ConditionsField(_TextField):
    """Conditions as JSON. ``empty`` makes the value of an empty string, which is None without it."""

    widget = forms.Textarea(attrs={"cols": 80, "rows": 3, "spellcheck": "false", "class": "ratelimit-json"})

    def __init__(self, *, empty: type[dict[str, object]] | None = None, **options: Any) -> None:
        self.empty = empty
        super().__init__(**options)

    def to_text(self, value: Any) -> str:
        """Return JSON, indented if it is long."""
        return "" if value is None and self.empty is None else dump(value)

    def to_python(self, value: Any) -> Any:
        """Return the value of the JSON. Raises ValidationError, which names the line, for invalid JSON."""
        text = str(value or "").strip()
        if not text:
            return self.empty() if self.empty else None
        return load(text)


class PercentField(forms.IntegerField):
    """A percentage. An empty input is the default. The engine checks the range."""

    def __init__(self, *, default: int, **options: Any) -> None:
        self.default = default
        super().__init__(initial=default, **options)

    def to_python(self, value: Any) -> int | None:
        """Return the number."""
        return super().to_python(self.default if value in self.empty_values else value)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Treat an empty value as the default, so that a form posted without this field does not count as changed."""
        return super().has_changed(initial, self.default if data in self.empty_values else data)


def form_field(spec: FieldSpec) -> forms.Field | None:
    """Return the form field of a rule's field, or None if the form uses Django's field for the column."""
    make = FORM_FIELDS.get(spec.kind)
    return make(spec, {"required": False, "help_text": help_text(spec), "label": label(spec)}) if make else None


def label(spec: FieldSpec) -> Any:
    """Return the label of a field, in the language that is active when it is shown."""
    return lazily_localized(spec.title)


def help_text(spec: FieldSpec) -> Any:
    """Return the help of a field as HTML, in the language that is active when it is shown."""
    return lazily_localized(spec.help_text) if spec.help_text else ""


def widgets() -> dict[str, forms.Widget]:
    """Return the widgets of fields that need another widget than Django's, by the names of the fields."""
    lines = {spec.name: forms.TextInput(attrs={"size": spec.size}) for spec in SPECS.values() if spec.size}
    notes = {spec.name: forms.Textarea(attrs={"cols": 80, "rows": 2}) for spec in SPECS.values() if spec.multiline}
    return {**lines, **notes}


def _numeric(spec: FieldSpec) -> forms.Widget:
    return forms.TextInput(attrs={"size": spec.size or 12, "inputmode": "numeric"})


def _conditions(spec: FieldSpec, options: dict[str, Any]) -> forms.Field:
    return ConditionsField(empty=dict, initial=dict, **options) if spec.default == {} else ConditionsField(**options)


# A function that makes the form field, by kind. Other kinds use Django's field for the column.
FORM_FIELDS: dict[Kind, Callable[[FieldSpec, dict[str, Any]], forms.Field]] = {
    Kind.COUNT: lambda spec, options: forms.IntegerField(widget=_numeric(spec), **options),
    Kind.DURATION: lambda spec, options: DurationField(**options),
    Kind.PROPERTIES: lambda spec, options: PropertiesField(initial=list, **options),
    Kind.CONDITIONS: _conditions,
    Kind.PERCENT: lambda spec, options: PercentField(default=spec.default, widget=_numeric(spec), **options),
}


class KeyField(forms.IntegerField):
    """The primary key of the form's row. It is known already, so no query is needed to check it."""

    widget = forms.HiddenInput

    def __init__(self, key: int | None) -> None:
        super().__init__(required=False, initial=key)
        self.key = key

    def clean(self, value: Any) -> int | None:
        """Return the key. Raises ValidationError if the row was deleted."""
        key: int | None = super().clean(value)
        if key != self.key:
            raise ValidationError(_("Somebody deleted this rule after you opened the page. Reload the page."))
        return key


class SeenField(forms.CharField):
    """A digest of the stored values when the page was made. A page that is shown again gets the current digest."""

    widget = forms.HiddenInput

    def __init__(self) -> None:
        super().__init__(required=False)

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Show the current digest."""
        return initial

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return False, because the user does not edit the digest."""
        return False


def digest(value: object) -> str:
    """Return a short string that differs for different values."""
    return hashlib.sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest()[:20]


def dump(value: Any) -> str:
    """Return readable JSON. Escapes lone surrogates, because no page can contain them."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > ONE_LINE:
        text = json.dumps(value, ensure_ascii=False, indent=2)
    return escape_surrogates(text)


def load(text: str) -> Any:
    """Return the value of a JSON string. Raises ValidationError with the place and the reason."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValidationError(_syntax_error(text, error)) from error
    except RecursionError as error:
        raise ValidationError(_("This cannot be read, because it is nested too deeply.")) from error
    except ValueError as error:
        raise ValidationError(_("This cannot be read: %(reason)s.") % {"reason": error}) from error


def _syntax_error(text: str, error: json.JSONDecodeError) -> str:
    if any(quote in text for quote in "'“”"):
        message = _(
            "This is not valid JSON: %(reason)s, at line %(line)s, column %(column)s. Write strings in straight double "
            'quotes: "free".'
        )
    else:
        message = _("This is not valid JSON: %(reason)s, at line %(line)s, column %(column)s.")
    return message % {"reason": error.msg, "line": error.lineno, "column": error.colno}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            # Without this check json.loads keeps only the last value, and drops the other conditions.
            message = _("“%(name)s” is repeated in one object. Join its conditions, or use a list of objects.")
            raise ValidationError(message % {"name": escape_surrogates(name)})
        members[name] = value
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise ValidationError(_("%(name)s is not a value in JSON.") % {"name": name})
