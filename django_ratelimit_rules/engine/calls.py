"""The arguments of a limiter's call: its identifier and its cost, checked and converted.

Arguments of callers go in, and canonical strings and numbers come out. A wrong type is an error of the caller's code,
and raises before any counter changes. Knows neither rules nor stores.
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
# Whole numbers below this number are finite after every conversion.
SAFE = 2**53
_PLAIN = frozenset((str, int, float, bool, type(None)))


def values(identifier: Identifier) -> ValueOf:
    """Return a function that returns the canonical string of a property. Raises TypeError for an
    invalid identifier."""
    texts = texts_of(identifier)

    def value_of(name: str) -> str | None:
        if name in texts or "|" not in name:
            return texts.get(name)
        return apply_filters(name, texts.get(base_of(name)))

    return value_of


def is_plain(identifier: object) -> bool:
    """Return whether all values are of built-in types, so that converting them runs no code of the project."""
    return type(identifier) is dict and all(type(value) in _PLAIN for value in identifier.values())


def texts_of(identifier: Identifier) -> dict[str, str | None]:
    """Return the canonical strings of properties, by their names. Raises TypeError for an invalid identifier."""
    if type(identifier) is not dict and not isinstance(identifier, Mapping):
        raise TypeError(f"an identifier must be a mapping of property to value, not {type(identifier).__name__}")
    texts: dict[str, str | None] = {}
    for name, value in identifier.items():
        if not isinstance(name, str):
            raise TypeError(f"a property's name must be a string, not {type(name).__name__}: {name!r}")
        # A call of canonical() costs more than the question whether one is needed.
        text = value if type(value) is str else canonical(value, name)
        if text is not None and len(text) > MAX_TEXT:
            text = bounded(text)
        if "." in name or "|" in name:
            # No rule can use an invalid name, so it must not fail the call.
            with suppress(ValueError):
                texts[normalise(name)] = text
        else:
            texts[name] = text
    return texts


def cost_of(cost: object) -> Number:
    """Return a cost. Raises TypeError unless it is a number, ValueError if it is negative, infinite or NaN."""
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
