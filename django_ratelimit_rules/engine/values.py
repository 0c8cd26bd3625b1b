"""Canonical texts of identifier values, and durations.

Values go in as an application or a request has them; one canonical text comes out, which is all that matching and
counter keys ever see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MappingView, Sequence, Set
from datetime import timedelta
from functools import lru_cache
from hashlib import blake2b

# Tuples of types for isinstance: what holds other values has no one text that could be compared or counted by.
_CONTAINERS = (Mapping, Sequence, Set, MappingView, Iterator)
_TEXTS = (str, bytes, bytearray, memoryview)

# What a request's user property says of an anonymous user.
ANONYMOUS = "<anonymous>"

# What is longer is cut before it is matched: patterns meet what clients send, and a body may have megabytes.
MAX_TEXT = 8192
# Where the characters begin that nobody writes and no pattern looks for: Unicode's private use area.
_PRIVATE = 0xE000

MAX_DURATION = 31_536_000
_DURATION = re.compile(r"([0-9]{1,9})(s|m|h|d)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_UNIT_NAMES = {"s": "s", "m": "min", "h": "h", "d": "d"}


def canonical(value: object, name: str) -> str | None:
    """Return the one text of ``value``: None is missing, True is ``1``, a Django model instance its primary key.

    Raises TypeError, naming the property, for containers.
    """
    # First what most values are: all the questions below take longer than a counter's key.
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    # By isinstance, because a lazy object that stands for None is not None itself.
    if isinstance(value, type(None)):
        return None
    if isinstance(value, bool):
        return "1" if value else "0"
    if _is_container(value):
        raise TypeError(
            f"property {name!r} is a {type(value).__name__}: a value must be a single fact"
            " (text, number, boolean, None or a model instance), so that it can be compared and counted by"
        )
    if hasattr(value, "_meta") and hasattr(value, "pk"):
        return canonical(value.pk, name)
    if getattr(value, "is_anonymous", False) is True:
        # Django's AnonymousUser: as text it would be one user for all anonymous clients.
        return ANONYMOUS
    return str(value)


def bounded(text: str | None) -> str | None:
    """Return a text, or the first 8,192 characters of a longer one and a digest of it all, so that two stay two."""
    if text is None or len(text) <= MAX_TEXT:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return text[:MAX_TEXT] + "".join(chr(_PRIVATE + byte) for byte in digest)


def _is_container(value: object) -> bool:
    if isinstance(value, _TEXTS) or type(value).__name__ == "__proxy__":
        # __proxy__ is Django's lazy text, which has all methods of one without being one.
        return False
    return isinstance(value, _CONTAINERS) or (hasattr(value, "__iter__") and hasattr(value, "__len__"))


def parse_duration(value: object, *, what: str = "period") -> int:
    """Return whole seconds from ``60``, ``"30s"``, ``"5m"``, ``"2h"``, ``"1d"`` or a timedelta.

    Raises ValueError outside 1 second to a year, or for fractions of a second; TypeError for other types.
    """
    if isinstance(value, bool):
        raise TypeError(f"{what} must be whole seconds or a text such as '30s', not the boolean {value}")
    if isinstance(value, int):
        seconds = value
    elif isinstance(value, str):
        found = _DURATION.fullmatch(value.strip())
        if not found:
            raise ValueError(
                f"{value!r} is not a duration: write a whole number and one of s, m, h, d, such as '30s' or '5m'"
            )
        seconds = int(found[1]) * _SECONDS[found[2]]
    elif isinstance(value, timedelta):
        if value.microseconds:
            raise ValueError(f"{value} is not a whole number of seconds")
        seconds = value.days * 86400 + value.seconds
    else:
        raise TypeError(
            f"{what} must be whole seconds, a text such as '30s' or a timedelta, not {type(value).__name__}"
        )
    if not 1 <= seconds <= MAX_DURATION:
        raise ValueError(f"{seconds} seconds is out of range: use 1 second to {MAX_DURATION:,} seconds (a year)")
    return seconds


@lru_cache(maxsize=1000)
def _largest_unit(seconds: int) -> tuple[int, str]:
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _SECONDS[unit] == 0)
    return seconds // _SECONDS[unit], unit


def format_duration(seconds: int) -> str:
    """Return the shortest text that :func:`parse_duration` reads back: ``"90s"``, ``"1m"``, ``"2h"``."""
    number, unit = _largest_unit(seconds)
    return f"{number}{unit}"


def spell_duration(seconds: int) -> str:
    """Return a duration as a sentence has it: ``"1 min"``, ``"2 h"``."""
    number, unit = _largest_unit(seconds)
    return f"{number} {_UNIT_NAMES[unit]}"
