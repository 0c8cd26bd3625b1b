"""Messages for people, in English and ready to be translated.

A sentence with named placeholders and their values go in. A :class:`Message` comes out: a string in English, which
logs and exceptions use as it is. :func:`translate` renders the same message in another language. The engine knows no
catalogue of translations, so callers pass it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..exceptions import CallableFailed, InvalidRule

# The keys of packed values. No property or field has such a name.
_MESSAGE, _GROUPED = "\0message", "\0grouped"


class Message(str):
    """A string in English that can be rendered in other languages.

    ``singular`` and ``plural`` are the templates with ``%(name)s`` placeholders. ``plural`` is None for a message
    without a number. ``params`` are the placeholders' values: numbers, strings or other messages. Other objects are
    passed by their ``repr``, so that an exception with a message can be pickled.
    """

    __slots__ = ("number", "params", "plural", "singular")

    singular: str
    plural: str | None
    number: int
    params: Mapping[str, Any]

    def __new__(cls, singular: str, plural: str | None, number: int, params: Mapping[str, Any]) -> Message:
        chosen = singular if plural is None or number == 1 else plural
        message = str.__new__(cls, chosen % params)
        message.singular = singular
        message.plural = plural
        message.number = number
        message.params = params
        return message

    def __getnewargs__(self) -> tuple[str, str | None, int, Mapping[str, Any]]:  # type: ignore[override]
        return self.singular, self.plural, self.number, self.params


class Grouped(int):
    """A whole number that people read with separators: 12,000 in English."""

    def __str__(self) -> str:
        return format(int(self), ",")


class Catalogue(NamedTuple):
    """The functions of one language: Django's ``gettext`` and ``ngettext``, and the spelling of a number."""

    gettext: Callable[[str], str]
    ngettext: Callable[[str, str, int], str]
    number: Callable[[int], str]


def _(text: str, /, **params: Any) -> Message:
    """Return a message. Its name is the mark by which texts are collected for translators."""
    return Message(text, None, 0, params)


def ngettext(singular: str, plural: str, number: int, /, **params: Any) -> Message:
    """Return a message that depends on a number, which is the placeholder ``%(number)s`` as well."""
    return Message(singular, plural, number, {"number": Grouped(number), **params})


def gettext_noop(template: str) -> str:
    """Return a template unchanged. Marks it for translators where its values are not known yet."""
    return template


def filled(template: str, /, **params: Any) -> Message:
    """Return the message of a template that :func:`gettext_noop` marked."""
    return Message(template, None, 0, params)


def all_of(texts: Sequence[str]) -> str:
    """Return strings as a list that ends with "and". Raises IndexError for an empty list."""
    if len(texts) == 1:
        return texts[0]
    return _("%(first)s and %(last)s", first=commas(texts[:-1]), last=texts[-1])


def any_of(texts: Sequence[str]) -> str:
    """Return strings as a list that ends with "or". Raises IndexError for an empty list."""
    if len(texts) == 1:
        return texts[0]
    return _("%(first)s or %(last)s", first=commas(texts[:-1]), last=texts[-1])


def commas(texts: Sequence[str]) -> str:
    """Return strings as a list with commas. Raises IndexError for an empty list."""
    listed = texts[0]
    for text in texts[1:]:
        listed = _("%(first)s, %(next)s", first=listed, next=text)
    return listed


def spaced(texts: Sequence[str]) -> str:
    """Return sentences or quantities one after the other. Raises IndexError for an empty list."""
    joined = texts[0]
    for text in texts[1:]:
        joined = _("%(first)s %(next)s", first=joined, next=text)
    return joined


def message_of(error: BaseException) -> str:
    """Return the message of an exception, as a :class:`Message` if the exception was raised with one.

    ``str(error)`` returns the same in English, and cannot be translated any more.
    """
    if isinstance(error, InvalidRule):
        if error.rule:
            return _("rule %(rule)r: %(field)s: %(reason)s", rule=error.rule, field=error.field, reason=error.reason)
        return _("%(field)s: %(reason)s", field=error.field, reason=error.reason)
    if isinstance(error, CallableFailed) and error.subject:
        return _("%(subject)s could not be computed: %(reason)s", subject=error.subject, reason=error.reason)
    return error.args[0] if error.args and isinstance(error.args[0], Message) else str(error)


def translate(text: object, catalogue: Catalogue) -> str:
    """Return a message in the language of a catalogue, its values included. Other strings are returned unchanged."""
    if isinstance(text, Grouped):
        return catalogue.number(int(text))
    if not isinstance(text, Message):
        return str(text)
    if text.plural is None:
        template = catalogue.gettext(text.singular)
    else:
        template = catalogue.ngettext(text.singular, text.plural, text.number)
    translated = {
        name: translate(value, catalogue) if isinstance(value, (Message, Grouped)) else value
        for name, value in text.params.items()
    }
    return template % translated


def packed(value: Any) -> Any:
    """Return a value for JSON in which messages keep their texts and params."""
    if isinstance(value, Message):
        return {_MESSAGE: [value.singular, value.plural, value.number, packed(dict(value.params))]}
    if isinstance(value, Grouped):
        return {_GROUPED: int(value)}
    if isinstance(value, Mapping):
        return {name: packed(inner) for name, inner in value.items()}
    return [packed(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def unpacked(value: Any) -> Any:
    """Return the value that :func:`packed` wrote, with lists instead of tuples."""
    if isinstance(value, list):
        return [unpacked(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if _MESSAGE in value:
        singular, plural, number, params = value[_MESSAGE]
        return Message(singular, plural, number, unpacked(params))
    return Grouped(value[_GROUPED]) if _GROUPED in value else {name: unpacked(inner) for name, inner in value.items()}
