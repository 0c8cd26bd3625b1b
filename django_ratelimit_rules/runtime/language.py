"""Messages in the language that Django has activated for this request."""

from __future__ import annotations

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext

from ..engine.messages import Catalogue, translate


def _number(number: int) -> str:
    return number_format(number, use_l10n=True, force_grouping=True)


ACTIVE = Catalogue(gettext, ngettext, _number)


def localized(text: object) -> str:
    """Return a message of the engine in the active language. Other values are returned as strings."""
    return translate(text, ACTIVE)
