"""The number of form fields that the admin's page of a ruleset sends, and the longest ruleset that Django can save.

This is outside ``admin``, because a project may run without the admin and the system check must not import it.
"""

from __future__ import annotations

from ..conf import settings
from ..engine.fields import SPECS

# A rule that is not opened sends its key, its position and its switch.
FIELDS_A_RULE = 3
# Rulesets with more rules than this show the fields of a rule only after it is opened. Twenty fields for two hundred
# rules take seconds to render, and exceed DATA_UPLOAD_MAX_NUMBER_FIELDS.
OPEN_AT_ONCE = 10
# An opened or new rule sends its fields, its key, its position, the mark for deletion, and a second input for the time
# of expires_at. OWN_FIELDS are the fields of the ruleset itself.
FIELDS_OPENED, OWN_FIELDS = len(SPECS) + 4, 20
BESIDES = OPEN_AT_ONCE * FIELDS_OPENED + OWN_FIELDS


def most_rules() -> int | None:
    """Return the most rules that fit in DATA_UPLOAD_MAX_NUMBER_FIELDS. Returns None if there is no bound."""
    return None if settings.max_form_fields is None else (settings.max_form_fields - BESIDES) // FIELDS_A_RULE


def fields_of(rules: int) -> int:
    """Return the number of fields that a page with this many rules sends."""
    return rules * FIELDS_A_RULE + BESIDES
