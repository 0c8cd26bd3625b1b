"""Names of properties: how they are spelled, which of them a client wrote, and the filters behind ``|``."""

from __future__ import annotations

from collections.abc import Callable

CLIENT_FAMILIES = ("header.", "cookie.", "query.", "post.", "json.")
FAMILIES = (*CLIENT_FAMILIES, "kwarg.")

# Those of a request that are there to be read. Others take the body, the session or whatever a project looks up.
AT_HAND = frozenset(("ip", "method", "path", "route", "view", "host", "bypass", "preflight"))
_FAMILIES_AT_HAND = ("header.", "cookie.", "query.", "kwarg.")

FILTERS: dict[str, Callable[[str], str]] = {"lower": str.lower, "strip": str.strip, "upper": str.upper}

MAX_NAME = 200


def normalise(name: object) -> str:
    """Return a property's name in its one spelling: header names in lower case with hyphens, filters without blanks.

    Raises TypeError for what is no text; ValueError for an empty name, one over 200 characters, one with control
    characters, or an unknown filter.
    """
    if not isinstance(name, str):
        raise TypeError(f"a property's name must be a text, not {type(name).__name__}")
    base, *filters = [part.strip() for part in name.split("|")]
    if not base or len(name) > MAX_NAME or not name.isprintable():
        raise ValueError(f"{name[:MAX_NAME]!r} is not a property name: it has 1 to {MAX_NAME} printable characters")
    for filter_name in filters:
        if filter_name not in FILTERS:
            raise ValueError(
                f"property {name!r}: unknown filter {filter_name!r}; there are {', '.join(sorted(FILTERS))}"
            )
    if base[:7].lower() == "header.":
        # HTTP header names have no case, and WSGI servers cannot tell "-" from "_".
        base = base.lower().replace("_", "-")
    return "|".join([base, *filters])


def base_of(name: str) -> str:
    """Return the property that ``name``'s filters work on."""
    return name.partition("|")[0]


def is_client_written(name: str) -> bool:
    """Tell whether a client chose this property's value freely: headers, cookies, query and body."""
    return name.startswith(CLIENT_FAMILIES)


def is_at_hand(name: str) -> bool:
    """Tell whether a request has this property without looking anything up: what it decides is decided first."""
    return name.startswith(_FAMILIES_AT_HAND) or base_of(name) in AT_HAND


def apply_filters(name: str, value: str | None) -> str | None:
    """Return the base property's ``value`` after all filters of ``name``, from left to right."""
    if value is not None:
        for filter_name in name.split("|")[1:]:
            value = FILTERS[filter_name](value)
    return value
