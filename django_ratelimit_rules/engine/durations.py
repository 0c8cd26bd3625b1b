"""Durations: strings and timedeltas become whole seconds, and durations become words.

All units are rows of ``UNITS``. Each function is one way to write a duration. No function knows rules. Durations in
words are messages, so that they can be translated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from typing import NamedTuple

from .messages import Grouped, Message, _, filled, gettext_noop, ngettext, spaced

MAX_DURATION = 31_536_000


class Unit(NamedTuple):
    """A unit of time: the letter in a rule, and the templates of a number of units in a table and in a sentence.

    ``per`` is the unit after "per". ``spell`` returns a number of units in full.
    """

    seconds: int
    letter: str
    symbol: str
    per: Message
    spell: Callable[[int], Message]


# From the largest to the smallest.
UNITS = (
    Unit(
        86400,
        "d",
        gettext_noop("%(number)s d"),
        _("day"),
        lambda number: ngettext("%(number)s day", "%(number)s days", number),
    ),
    Unit(
        3600,
        "h",
        gettext_noop("%(number)s h"),
        _("hour"),
        lambda number: ngettext("%(number)s hour", "%(number)s hours", number),
    ),
    Unit(
        60,
        "m",
        gettext_noop("%(number)s min"),
        _("minute"),
        lambda number: ngettext("%(number)s minute", "%(number)s minutes", number),
    ),
    Unit(
        1,
        "s",
        gettext_noop("%(number)s s"),
        _("second"),
        lambda number: ngettext("%(number)s second", "%(number)s seconds", number),
    ),
)
_SECONDS = {unit.letter: unit.seconds for unit in UNITS}
_DURATION = re.compile(r"([0-9]{1,9})(s|m|h|d)", re.ASCII)


def parse_duration(value: object, *, what: str = "period") -> int:
    """Return whole seconds from ``60``, ``"30s"``, ``"5m"``, ``"2h"``, ``"1d"`` or a timedelta.

    Raises ValueError outside 1 second to a year, and for fractions of a second. Raises TypeError for other types.
    """
    if isinstance(value, bool):
        raise TypeError(
            _(
                "%(field)s must be whole seconds or a string such as '30s', not the boolean %(value)s",
                field=what,
                value=str(value),
            )
        )
    if isinstance(value, int):
        seconds = value
    elif isinstance(value, str):
        parts = _DURATION.fullmatch(value.strip())
        if not parts:
            raise ValueError(
                _(
                    "%(value)s is not a duration: write a whole number and one of s, m, h, d, such as '30s' or '5m'",
                    value=repr(value),
                )
            )
        seconds = int(parts[1]) * _SECONDS[parts[2]]
    elif isinstance(value, timedelta):
        if value.microseconds:
            raise ValueError(_("%(value)s is not a whole number of seconds", value=str(value)))
        seconds = value.days * 86400 + value.seconds
    else:
        raise TypeError(
            _(
                "%(field)s must be whole seconds, a string such as '30s' or a timedelta, not %(type)s",
                field=what,
                type=type(value).__name__,
            )
        )
    if not 1 <= seconds <= MAX_DURATION:
        raise ValueError(
            _(
                "%(seconds)s seconds is out of range: use 1 second to %(most)s seconds (a year)",
                seconds=seconds,
                most=Grouped(MAX_DURATION),
            )
        )
    return seconds


@lru_cache(maxsize=1000)
def _largest_unit(seconds: int) -> tuple[int, Unit]:
    unit = next(unit for unit in UNITS if seconds % unit.seconds == 0)
    return seconds // unit.seconds, unit


def format_duration(seconds: int) -> str:
    """Return the shortest string that :func:`parse_duration` reads back: ``"90s"``, ``"1m"``, ``"2h"``."""
    number, unit = _largest_unit(seconds)
    return f"{number}{unit.letter}"


@lru_cache(maxsize=1000)
def spell_duration(seconds: int) -> Message:
    """Return an exact duration for a rule's sentence: ``"1 min"``, ``"2 h"``."""
    number, unit = _largest_unit(seconds)
    return filled(unit.symbol, number=number)


def spell_rate(seconds: int) -> Message:
    """Return a duration that follows "per": ``"minute"``, ``"5 min"``."""
    number, unit = _largest_unit(seconds)
    return unit.per if number == 1 else filled(unit.symbol, number=number)


def spell_span(milliseconds: float) -> str:
    """Return a measured duration in its two largest units, rounded up to seconds: ``"59 min 34 s"``."""
    seconds = int(-(-milliseconds // 1000))
    parts: list[Message] = []
    for unit in UNITS:
        if seconds >= unit.seconds:
            parts.append(filled(unit.symbol, number=seconds // unit.seconds))
            seconds %= unit.seconds
    return spaced(parts[:2] or [filled(UNITS[-1].symbol, number=0)])


def spell_wait(seconds: int) -> Message:
    """Return a wait in one unit, rounded up: ``"1 second"``, ``"90 seconds"``, ``"3 hours"``."""
    unit = next(unit for unit in UNITS if seconds >= 2 * unit.seconds or unit.seconds == 1)
    return unit.spell(-(-seconds // unit.seconds))
