"""Messages in the language that Django has activated for this request."""

from __future__ import annotations

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext

from ..engine.messages import Catalogue, message_of, translate


def grouped(number: float) -> str:
    """Return a number as people read it in the active language: 12,000 in English."""
    # No language groups fewer than four digits, and a page may hold thousands of small numbers.
    if isinstance(number, int) and -1000 < number < 1000:
        return str(number)
    return number_format(number, use_l10n=True, force_grouping=True)


ACTIVE = Catalogue(gettext, ngettext, grouped)


def localized(text: object) -> str:
    """Return a message of the engine, or the message of an exception, in the active language.

    Other values are returned as strings.
    """
    return translate(message_of(text) if isinstance(text, BaseException) else text, ACTIVE)
