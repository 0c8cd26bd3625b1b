"""Form fields that show a rule's values as people write them: durations, lists of properties, conditions.

A field shows a value as text and reads the text back. What was typed stays in the form letter by letter, whether or not
it can be read; a value that should not be in the database is shown as it is, so that it can be repaired. What the
values mean is the engine's to judge.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, NoReturn

from django import forms
from django.core.exceptions import ValidationError

from ...engine.durations import format_duration, parse_duration
from ...engine.fields import SPECS, FieldSpec, Kind
from ...engine.values import escape_surrogates

ONE_LINE = 100


class _Typed(str):
    """A text as somebody typed it, to be told from a stored value that happens to be a text."""


class _TextField(forms.CharField):
    """A value that is edited as text. Subclasses say how it is read and shown."""

    def to_text(self, value: Any) -> str:
        """Return the text that :meth:`to_python` reads back as ``value``."""
        raise NotImplementedError

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Keep what was typed."""
        return _Typed(data or "")

    def prepare_value(self, value: Any) -> str:
        """Return what stands in the input."""
        return str(value) if isinstance(value, _Typed) else self.to_text(value)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare as text: to Python, 1, 1.0 and True are equal, but a condition tells them apart."""
        try:
            return self.to_text(self.to_python(data)) != self.to_text(initial)
        except ValidationError:
            return True


class DurationField(_TextField):
    """Whole seconds, typed and shown as ``30s``, ``1m``, ``2h``, ``1d``. Bare digits are seconds; nothing is None."""

    widget = forms.TextInput(attrs={"size": 8})

    def to_text(self, value: Any) -> str:
        """Return the shortest text of a duration."""
        if value is None:
            return ""
        return format_duration(value) if isinstance(value, int) and value > 0 else str(value)

    def to_python(self, value: Any) -> Any:
        """Return seconds. Raises ValidationError for what is not a duration."""
        text = str(value or "").strip()
        if not text:
            return None
        bare = text.isascii() and text.isdigit() and len(text) < 19
        try:
            return parse_duration(int(text) if bare else text)
        except (TypeError, ValueError) as error:
            raise ValidationError(str(error)) from error


class PropertiesField(_TextField):
    """A list of properties, in order, between commas; as JSON where a name could not be read back from that."""

    widget = forms.TextInput(attrs={"size": 60, "class": "vTextField"})

    def to_text(self, value: Any) -> str:
        """Return the names between commas."""
        names = value if isinstance(value, list) else [value]
        plain = all(isinstance(name, str) and name == name.strip() and "," not in name for name in names)
        text = ", ".join(names) if plain and all(names) else ""
        if isinstance(value, list) and (text or not value) and text[:1] not in ("[", "{", '"'):
            return text
        return dump(value)

    def to_python(self, value: Any) -> Any:
        """Return the list of names. Raises ValidationError for a JSON list that cannot be read."""
        text = str(value or "").strip()
        if text[:1] in ("[", "{", '"'):
            return load(text)
        return [name.strip() for name in text.split(",")] if text else []


class ConditionsField(_TextField):
    """Conditions as JSON. ``empty`` makes what an empty text stands for: everything, or no condition at all."""

    widget = forms.Textarea(attrs={"cols": 80, "rows": 3, "spellcheck": "false", "class": "ratelimit-json"})

    def __init__(self, *, empty: type[dict[str, object]] | None = None, **options: Any) -> None:
        self.empty = empty
        super().__init__(**options)

    def to_text(self, value: Any) -> str:
        """Return JSON, indented where it is long."""
        return "" if value is None and self.empty is None else dump(value)

    def to_python(self, value: Any) -> Any:
        """Return what the JSON says. Raises ValidationError, naming the line, for what is not valid JSON."""
        text = str(value or "").strip()
        if not text:
            return self.empty() if self.empty else None
        return load(text)


class PercentField(forms.IntegerField):
    """A percentage; an empty input is the default. The engine checks its range."""

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
    """Return the form field of a rule's field, None if the one that Django makes of the column will do."""
    make = FORM_FIELDS.get(spec.kind)
    return make(spec, {"required": False, "help_text": spec.help_text, "label": spec.title}) if make else None


def widgets() -> dict[str, forms.Widget]:
    """Return the inputs of fields that have not the usual one, by the names of the fields."""
    lines = {spec.name: forms.TextInput(attrs={"size": spec.size}) for spec in SPECS.values() if spec.size}
    notes = {spec.name: forms.Textarea(attrs={"cols": 80, "rows": 2}) for spec in SPECS.values() if spec.multiline}
    return {**lines, **notes}


def _numeric(spec: FieldSpec) -> forms.Widget:
    return forms.TextInput(attrs={"size": spec.size or 12, "inputmode": "numeric"})


def _conditions(spec: FieldSpec, options: dict[str, Any]) -> forms.Field:
    return ConditionsField(empty=dict, initial=dict, **options) if spec.default == {} else ConditionsField(**options)


# By kind: a function that makes the form field. Django's own serve for the other kinds.
FORM_FIELDS: dict[Kind, Callable[[FieldSpec, dict[str, Any]], forms.Field]] = {
    Kind.COUNT: lambda spec, options: forms.IntegerField(widget=_numeric(spec), **options),
    Kind.DURATION: lambda spec, options: DurationField(**options),
    Kind.PROPERTIES: lambda spec, options: PropertiesField(initial=list, **options),
    Kind.CONDITIONS: _conditions,
    Kind.PERCENT: lambda spec, options: PercentField(default=spec.default, widget=_numeric(spec), **options),
}


class KeyField(forms.IntegerField):
    """The key of the row that a form stands for, which is known: the database need not be asked for it."""

    widget = forms.HiddenInput

    def __init__(self, key: int | None) -> None:
        super().__init__(required=False, initial=key)
        self.key = key

    def clean(self, value: Any) -> int | None:
        """Return the key. Raises ValidationError for that of a row that is not there any more."""
        key: int | None = super().clean(value)
        if key != self.key:
            raise ValidationError("Somebody deleted this rule after you opened the page. Reload the page.")
        return key


class SeenField(forms.CharField):
    """What stood in the database when the page was made, as a digest; a page that is shown again has the newest."""

    widget = forms.HiddenInput

    def __init__(self) -> None:
        super().__init__(required=False)

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Show what stands there now."""
        return initial

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Be no change in itself."""
        return False


def digest(value: object) -> str:
    """Return a short text that is another one for other values."""
    return hashlib.sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest()[:20]


def dump(value: Any) -> str:
    """Return JSON that people can read and any page can show: a lone surrogate, which no page can, is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > ONE_LINE:
        text = json.dumps(value, ensure_ascii=False, indent=2)
    return escape_surrogates(text)


def load(text: str) -> Any:
    """Return what a JSON text says. Raises ValidationError with the place and the reason."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        message = f"This is not valid JSON: {error.msg}, at line {error.lineno}, column {error.colno}."
        if "'" in text or "“" in text or "”" in text:
            message += ' Texts stand in straight double quotes: "free".'
        raise ValidationError(message) from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ValidationError(f"This cannot be read: {reason}.") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            # JSON readers keep the last one silently: half of what the operator asked for would be gone.
            raise ValueError(f"{name!r} stands twice in one object; join its conditions, or use a list of objects")
        found[name] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value in JSON")
