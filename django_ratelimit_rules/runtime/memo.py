"""Remember what was just made from the same input: saving a page asks for each of hundreds of rules many times."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")

# Kept of one function's results.
MOST = 1000


def remembered(function: Callable[[A], T]) -> Callable[[A], T]:
    """Return the function, which keeps what it made, by its argument's ``repr``: to Python 1, 1.0 and True are equal,
    and a dictionary is no key. Results are shared, and so not to be changed; what it raises is not kept."""
    kept: dict[str, T] = {}

    @wraps(function)
    def made(argument: A) -> T:
        said = repr(argument)
        result = kept.get(said)
        if result is None:
            result = function(argument)
            if len(kept) >= MOST:
                kept.clear()
            kept[said] = result
        return result

    return made
