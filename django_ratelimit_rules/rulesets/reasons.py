"""The reasons of exceptions as messages, which pages and commands show in the reader's language."""

from __future__ import annotations

from ..engine.messages import Message, _
from ..exceptions import InvalidRule


def message_of(error: Exception) -> str:
    """Return the same words as ``str(error)``, as a message if the exception was made from a message."""
    if isinstance(error, InvalidRule):
        if error.rule:
            return _("rule %(rule)r: %(field)s: %(reason)s", rule=error.rule, field=error.field, reason=error.reason)
        return _("%(field)s: %(reason)s", field=error.field, reason=error.reason)
    if len(error.args) == 1 and isinstance(error.args[0], Message):
        return error.args[0]
    return str(error)
