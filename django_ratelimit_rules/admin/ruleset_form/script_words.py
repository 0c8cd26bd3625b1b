"""The texts that the scripts of the ruleset page show, in the active language.

The page contains them as JSON. A script gets one by its key, and fills in the ``%(name)s`` placeholders itself.
"""

from __future__ import annotations

from django.utils.translation import gettext as _


def script_words() -> dict[str, str]:
    """Return the translated texts by the keys that the scripts use."""
    return {**_of_builder(), **_of_conditions(), **_of_order(), **_of_properties(), **_of_page()}


def _of_builder() -> dict[str, str]:
    return {
        "conditions": _("Conditions of %(field)s"),
        "every_request": _("Every request."),
        "every_response": _("Every response."),
        "when": _("When …"),
        "only_when": _("Only when …"),
        "and": _("And …"),
        "or": _("or"),
        "or_else": _("Or …"),
        "count_every_request": _("Count every request"),
        "property": _("Property"),
        "property_here": _("property"),
        "operator": _("Operator"),
        "value": _("Value"),
        "value_here": _("value"),
        "values_here": _("one value, or several between commas"),
        "not_all_of": _("What %(property)s must not all be"),
        "not_all_of_it": _("What the property must not all be"),
        "remove": _("Remove"),
        "remove_part": _("Remove this part"),
        "remove_condition": _("Remove this condition"),
        "remove_condition_on": _("Remove the condition on %(property)s"),
        "remove_alternative": _("Remove this alternative"),
        "not_written": _("Not written to the JSON: %(reason)s"),
        "edit_json": _("%(reason)s Edit the JSON above."),
    }


def _of_conditions() -> dict[str, str]:
    return {
        "is_not_all_of": _("is not all of"),
        "too_much": _("This says more than the builder can show."),
        "too_much_on": _("The condition on %(property)s says more than the builder can show."),
        "invalid_json": _("This is not valid JSON yet. The builder returns when it is."),
        "no_match": _("This is not a match: it must be an object, or a list of objects."),
        "repeated_property": _("A name is repeated in one object."),
        "respelled_number": _("The builder would change how a number here is written."),
        "same_operator": _("A condition inside has two conditions of one kind (%(operator)s): join them in one."),
        "same_operator_on": _("%(property)s has two conditions of one kind (%(operator)s): join them in one."),
    }


def _of_order() -> dict[str, str]:
    return {
        "moved": _("%(rule)s is now rule %(place)s of %(total)s, once you save."),
        "moved_new": _("The new rule is now rule %(place)s of %(total)s, once you save."),
        "move_up": _("Move up"),
        "move_down": _("Move down"),
        "move_rule_up": _("Move %(rule)s up"),
        "move_rule_down": _("Move %(rule)s down"),
        "move_new_up": _("Move the new rule up"),
        "move_new_down": _("Move the new rule down"),
        "drag": _("Drag to move"),
    }


def _of_properties() -> dict[str, str]:
    return {
        "characteristics": _("Characteristics, in order"),
        "count_by": _("Property to count by"),
        "earlier": _("Earlier"),
        "earlier_property": _("Earlier: %(property)s"),
        "later": _("Later"),
        "later_property": _("Later: %(property)s"),
        "remove_property": _("Remove: %(property)s"),
        "add": _("Add"),
    }


def _of_page() -> dict[str, str]:
    return {
        "unsaved": _("Unsaved changes."),
        "not_loaded": _("The fields could not be loaded. Open them on a new page"),
    }
