"""Durations: strings and timedeltas become whole seconds, and durations become words.

All units are rows of ``UNITS``. Each function is one way to write a duration; none of them knows rules.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import NamedTuple

MAX_DURATION = 31_536_000


class Unit(NamedTuple):
    """A unit of time: the letter that a rule uses, the symbol in a table, the word in a sentence."""

    seconds: int
    letter: str
    symbol: str
    word: str


# From the largest to the smallest.
UNITS = (
    Unit(86400, "d", "d", "day"),
    Unit(3600, "h", "h", "hour"),
    Unit(60, "m", "min", "minute"),
    Unit(1, "s", "s", "second"),
)
_SECONDS = {unit.letter: unit.seconds for unit in UNITS}
_DURATION = re.compile(r"([0-9]{1,9})(s|m|h|d)", re.ASCII)


def parse_duration(value: object, *, what: str = "period") -> int:
    """Return whole seconds from ``60``, ``"30s"``, ``"5m"``, ``"2h"``, ``"1d"`` or a timedelta.

    Raises ValueError outside 1 second to a year, or for fractions of a second; TypeError for other types.
    """
    if isinstance(value, bool):
        raise TypeError(f"{what} must be whole seconds or a text such as '30s', not the boolean {value}")
    if isinstance(value, int):
        seconds = value
    elif isinstance(value, str):
        parts = _DURATION.fullmatch(value.strip())
        if not parts:
            raise ValueError(
                f"{value!r} is not a duration: write a whole number and one of s, m, h, d, such as '30s' or '5m'"
            )
        seconds = int(parts[1]) * _SECONDS[parts[2]]
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
def _largest_unit(seconds: int) -> tuple[int, Unit]:
    unit = next(unit for unit in UNITS if seconds % unit.seconds == 0)
    return seconds // unit.seconds, unit


def format_duration(seconds: int) -> str:
    """Return the shortest string that :func:`parse_duration` reads back: ``"90s"``, ``"1m"``, ``"2h"``."""
    number, unit = _largest_unit(seconds)
    return f"{number}{unit.letter}"


def spell_duration(seconds: int) -> str:
    """Return an exact duration for a rule's sentence: ``"1 min"``, ``"2 h"``."""
    number, unit = _largest_unit(seconds)
    return f"{number} {unit.symbol}"


def spell_rate(seconds: int) -> str:
    """Return a duration that follows "per": ``"minute"``, ``"5 min"``."""
    number, unit = _largest_unit(seconds)
    return unit.word if number == 1 else f"{number} {unit.symbol}"


def spell_span(milliseconds: float) -> str:
    """Return a measured duration in its two largest units, rounded up to seconds: ``"59 min 34 s"``."""
    seconds = int(-(-milliseconds // 1000))
    parts = []
    for unit in UNITS:
        if seconds >= unit.seconds:
            parts.append(f"{seconds // unit.seconds} {unit.symbol}")
            seconds %= unit.seconds
    return " ".join(parts[:2]) or "0 s"


def spell_wait(seconds: int) -> str:
    """Return a wait in one unit, rounded up: ``"1 second"``, ``"90 seconds"``, ``"3 hours"``."""
    unit = next(unit for unit in UNITS if seconds >= 2 * unit.seconds or unit.seconds == 1)
    number = -(-seconds // unit.seconds)
    return f"{number} {unit.word}" if number == 1 else f"{number} {unit.word}s"
