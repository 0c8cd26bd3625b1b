"""How many fields the admin's page of a ruleset sends, and so how long a ruleset may be that Django lets it save.

Not in ``admin``, which a project may do without: the system check that warns of it must not import it.
"""

from __future__ import annotations

from ..conf import settings
from ..engine.fields import SPECS

# Of each rule that is not opened: its key, place and switch.
FIELDS_A_RULE = 3
# Rulesets with more rules than this show the fields of a rule once it is opened: twenty fields times two hundred rules
# take seconds to render, and more than DATA_UPLOAD_MAX_NUMBER_FIELDS allows to send.
OPEN_AT_ONCE = 10
# Of each rule that is opened or new: its fields, key and place, the mark for deletion, and a second input for the time
# of expires_at. Then the ruleset's own.
FIELDS_OPENED, OWN_FIELDS = len(SPECS) + 4, 20
BESIDES = OPEN_AT_ONCE * FIELDS_OPENED + OWN_FIELDS


def most_rules() -> int | None:
    """Return how many rules the page may have to be saved within DATA_UPLOAD_MAX_NUMBER_FIELDS; None for any number."""
    return None if settings.max_form_fields is None else (settings.max_form_fields - BESIDES) // FIELDS_A_RULE


def fields_of(rules: int) -> int:
    """Return how many fields the page sends that has this many rules."""
    return rules * FIELDS_A_RULE + BESIDES
