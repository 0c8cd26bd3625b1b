"""Actions in the history of a ruleset: stored in English, shown in the language of the reader.

An action is stored as ``SAVED``, or as ``RESTORED % {"number": 3}``. ``shown`` finds the template of a stored action,
and ``shown_entry`` the template of an entry in Django's own log.
"""

from __future__ import annotations

import re

from django.utils.translation import gettext, gettext_noop

from ...rulesets.history import ELSEWHERE, FIRST

SAVED = gettext_noop("saved in the admin")
DELETED = gettext_noop("deleted in the admin")
RESTORED = gettext_noop("restored version %(number)s")
IMPORTED = gettext_noop("imported %(file)s")
IMPORTED_TEXT = gettext_noop("imported pasted text")
PROMOTED = gettext_noop("promoted %(rule)s to limit")
DEMOTED = gettext_noop("demoted %(rule)s to log")
ENFORCED = gettext_noop("switched to enforce")
DRY_RUN = gettext_noop("switched to dry run")
SWITCHED_OFF = gettext_noop("switched to off")

# Entries in Django's own log only.
RESET_ONE = gettext_noop("Reset 1 counter (%(counters)s). Reason: %(reason)s")
RESET = gettext_noop("Reset %(number)s counters (%(counters)s). Reason: %(reason)s")

# The first template that fits is used.
_TEMPLATES = (
    *(SAVED, DELETED, RESTORED, IMPORTED_TEXT, IMPORTED),
    *(PROMOTED, DEMOTED, ENFORCED, DRY_RUN, SWITCHED_OFF),
    *(RESET_ONE, RESET, FIRST, ELSEWHERE),
)


def _pattern(template: str) -> re.Pattern[str]:
    literals_and_names = re.split(r"%\((\w+)\)s", template)
    parts = [f"(?P<{part}>.+)" if number % 2 else re.escape(part) for number, part in enumerate(literals_and_names)]
    return re.compile("".join(parts), re.DOTALL)


_PATTERNS = {template: _pattern(template) for template in _TEMPLATES}


def shown(action: str) -> str:
    """Return a stored action in the active language. Returns other strings, such as a command's, unchanged."""
    for template, pattern in _PATTERNS.items():
        match = pattern.fullmatch(action)
        if match is not None:
            values = match.groupdict()
            # Without values a percent sign in a translation is not a placeholder.
            return gettext(template) % values if values else gettext(template)
    return action


def entry(action: str, reason: str) -> str:
    """Return the entry for an action in Django's own log, in English."""
    return f"{action}: {reason}" if reason else action


def shown_entry(text: str) -> str:
    """Return an entry of Django's own log in the active language. Returns other entries unchanged."""
    whole = shown(text)
    if whole != text:
        return whole
    action, _colon, reason = text.partition(": ")
    return entry(shown(action), reason)
