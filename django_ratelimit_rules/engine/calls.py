"""What one call of a limiter says: whom it is about, and at which cost; checked, and as the texts that rules compare.

What callers hand over goes in; canonical texts and numbers come out. Wrong types are errors of the caller's code,
raised before anything is counted. Knows neither rules nor stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from typing import Any

from .matching import ValueOf
from .properties import apply_filters, base_of, normalise
from .results import Number
from .values import MAX_TEXT, bounded, canonical

Identifier = Mapping[str, Any]
# Whole numbers below this one are finite whatever becomes of them.
SAFE = 2**53
_PLAIN = frozenset((str, int, float, bool, type(None)))


def values(identifier: Identifier) -> ValueOf:
    """Return a function that returns the canonical string of a property. Raises TypeError for anything but an
    identifier."""
    texts = texts_of(identifier)

    def value_of(name: str) -> str | None:
        if name in texts or "|" not in name:
            return texts.get(name)
        return apply_filters(name, texts.get(base_of(name)))

    return value_of


def is_plain(identifier: object) -> bool:
    """Whether an identifier holds built-in values only, so that making strings of them runs no code of the project."""
    return type(identifier) is dict and all(type(value) in _PLAIN for value in identifier.values())


def texts_of(identifier: Identifier) -> dict[str, str | None]:
    """Return the canonical texts of properties, by their names. Raises TypeError for what is no identifier."""
    if type(identifier) is not dict and not isinstance(identifier, Mapping):
        raise TypeError(f"an identifier must be a mapping of property to value, not {type(identifier).__name__}")
    texts: dict[str, str | None] = {}
    for name, value in identifier.items():
        if not isinstance(name, str):
            raise TypeError(f"a property's name must be a text, not {type(name).__name__}: {name!r}")
        # A call of canonical() costs more than the question whether one is needed.
        text = value if type(value) is str else canonical(value, name)
        if text is not None and len(text) > MAX_TEXT:
            text = bounded(text)
        if "." in name or "|" in name:
            # A name that is no property's can stand in no rule; it need not hurt the call.
            with suppress(ValueError):
                texts[normalise(name)] = text
        else:
            texts[name] = text
    return texts


def cost_of(cost: object) -> Number:
    """Return a cost. Raises TypeError for what is no number, ValueError for a negative or infinite one or NaN."""
    if type(cost) is int and 0 <= cost < SAFE:
        return cost
    if isinstance(cost, bool) or not isinstance(cost, (int, float)):
        raise TypeError(f"cost must be a number, not {type(cost).__name__}")
    try:
        finite = isfinite(cost)
    except OverflowError:
        finite = False
    if not finite or cost < 0:
        raise ValueError(f"cost must be a finite number of 0 or more, not {cost}")
    return cost
