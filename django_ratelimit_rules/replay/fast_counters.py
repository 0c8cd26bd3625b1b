"""Counters of a replay: what :mod:`counters.memory` counts, with a short way for the calls that are within all limits.

A chain of hits becomes *cells*, one object for each counter, shared by all chains that count in it. ``take`` charges a
call of cost 1 where it fits, and that is the whole work for most calls. For all others (over a limit, banned, another
cost, charged by the answer) :func:`count` and :func:`settle` run the code of :mod:`counters.memory` on the same cells,
so that there is one arithmetic. Times are milliseconds and never go back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor
from typing import Any, Protocol

from ..counters.memory import READERS, WRITERS, Counter, Look
from ..engine import Hit
from ..engine.algorithms import DISTINCT_VALUES, FIXED_WINDOW, SLIDING_WINDOW, TOKEN_BUCKET
from ..engine.results import Number

# What no counter has room for: every call goes the long way.
NO_ROOM = -1


class Way(Protocol):
    """The short way through one counter of a chain."""

    def take(self, now: int) -> bool:
        """Charge a call of cost 1 and return True; False when it may not fit, and the long way has to decide."""

    def undo(self) -> None:
        """Take back what the last :meth:`take` charged. A window may have begun by it: it does with refused calls."""


class Cell(Counter):
    """One counter. ``room`` is its limit, or NO_ROOM while the short way must not be taken; ``length`` its period in
    milliseconds."""

    __slots__ = ("length", "room")

    def unsure(self, now: int) -> bool:
        """Whether only the long way knows if a call that was not taken is over the limit."""
        return self.room == NO_ROOM and self.banned_until <= now

    def __init__(self, limit: int, length: int) -> None:
        self.room = limit
        self.length = length
        self.restart(-length)

    def restart(self, now: float) -> None:
        """Become a counter that is not there yet."""
        self.expires = now + self.length
        self.banned_until = self.used = self.count = self.previous = self.index = self.updated = 0
        self.period = self.length
        self.fractional = False
        # Of values only those have any that count them.
        self.members = NOBODY


NOBODY: set[str] = set()


class FixedCell(Cell):
    """A fixed window, which starts with its first call."""

    __slots__ = ()

    def take(self, now: int) -> bool:
        """See Way."""
        if self.expires > now:
            if self.used >= self.room:
                return False
            self.used += 1
            return True
        if self.room < 1:
            return False
        self.used = 1
        self.expires = now + self.length
        return True

    def undo(self) -> None:
        """See Way."""
        self.used -= 1


class SlidingCell(Cell):
    """Two windows on the clock, the one before fading."""

    __slots__ = ()

    def take(self, now: int) -> bool:
        """See Way."""
        room, length = self.room, self.length
        if room < 1:
            return False
        index = now // length
        if self.index != index:
            self.previous = self.used if self.index == index - 1 else 0
            self.used, self.index, self.expires = 0, index, (index + 2) * length
        previous, used = self.previous, self.used
        if used + previous >= room and used + floor(float(previous) * ((index + 1) * length - now) / length) >= room:
            return False
        self.used = used + 1
        return True

    def undo(self) -> None:
        """See Way."""
        self.used -= 1


class BucketCell(Cell):
    """A bucket that runs empty evenly; ``used`` are calls times milliseconds, as in :mod:`counters.memory`."""

    __slots__ = ()

    def take(self, now: int) -> bool:
        """See Way."""
        room, length = self.room, self.length
        if room < 1:
            return False
        units = self.used - (now - self.updated) * room if self.expires > now else 0
        units = (units if units > 0 else 0) + length
        if units > room * length:
            return False
        self.used, self.updated = units, now
        self.expires = now - (-units // room)
        return True

    def undo(self) -> None:
        """See Way."""
        self.used -= self.length


class Member:
    """One value in a counter of different values."""

    __slots__ = ("_cell", "_new", "_value")

    def __init__(self, cell: Cell, value: str) -> None:
        self._cell, self._value, self._new = cell, value, False

    def take(self, now: int) -> bool:
        """See Way."""
        cell = self._cell
        if cell.room < 1:
            return False
        if cell.expires <= now:
            cell.expires, cell.members = now + cell.length, {self._value}
            self._new = True
            return True
        self._new = self._value not in cell.members
        if self._new:
            if len(cell.members) >= cell.room:
                return False
            cell.members.add(self._value)
        return True

    def undo(self) -> None:
        """See Way."""
        if self._new:
            self._cell.members.discard(self._value)
            if not self._cell.members:
                # Here alone a refused call begins no window.
                self._cell.expires = 0


class LongWayCell(Cell):
    """A counter of an algorithm that has no short way."""

    __slots__ = ()

    def unsure(self, now: int) -> bool:
        """Return True except during a ban, because :meth:`take` decides nothing."""
        return self.banned_until <= now

    def take(self, now: int) -> bool:
        """See Way."""
        return False

    def undo(self) -> None:
        """Do nothing, because no call is ever taken."""


# Algorithms that are not listed count by their reader and writer alone, in a LongWayCell.
CELLS: dict[str, type[Cell]] = {
    FIXED_WINDOW: FixedCell,
    SLIDING_WINDOW: SlidingCell,
    TOKEN_BUCKET: BucketCell,
    DISTINCT_VALUES: Cell,
}


def cell_of(hit: Hit) -> Cell:
    """Return a new, empty cell for the counter of a hit."""
    return CELLS.get(hit.rule.counting, LongWayCell)(hit.limit, hit.period * 1000)


def way_of(hit: Hit, cell: Any) -> Way:
    """Return the short way of a hit."""
    way: Way = cell if hit.member is None else Member(cell, hit.member)
    return way


def count(hits: Sequence[Hit], cells: Sequence[Cell], cost: Number, now: int) -> tuple[list[Look], bool]:
    """Count one call the long way. Return what each counter said, up to the first that blocks, and whether one did."""
    looks = []
    blocked = False
    for hit, cell in zip(hits, cells, strict=True):
        look = _look(hit, cell, cost, now)
        looks.append(look)
        if look.exceeded and hit.enforced:
            blocked = True
            break
    for look, cell in zip(looks, cells, strict=False):
        hit = look.hit
        if look.banned or (cost == 0 and hit.member is None):
            continue
        ban = (hit.rule.ban_for or 0) * 1000 if look.exceeded else 0
        if not hit.looked or ban:
            _write(look, cell, cost, now, not (blocked or look.exceeded or hit.looked), ban)
        if ban:
            look.banned = True
            look.retry = ban
    return looks, blocked


def refuse(hit: Hit, cell: Cell, now: int) -> float:
    """Note a call of cost 1 that :meth:`Way.take` found over the limit; a ban starts where the rule has one. Return the
    milliseconds until one could pass, -1 when it never could."""
    if type(cell) is FixedCell and not hit.rule.ban_for:
        # What most rules are: nothing is written.
        return cell.expires - now if cell.room else -1
    look = _look(hit, cell, 1, now)
    if not look.banned and hit.rule.ban_for:
        look.retry = hit.rule.ban_for * 1000
        _write(look, cell, 1, now, False, hit.rule.ban_for * 1000)
    return look.retry


def settle(hits: Iterable[tuple[Hit, Cell]], cost: Number, now: int) -> None:
    """Charge hits by outcome once their answer is known, past their limits too."""
    for hit, cell in hits:
        look = _look(hit, cell, cost, now)
        if not look.banned and (cost != 0 or hit.member is not None):
            _write(look, cell, cost, now, True, 0)


def _look(hit: Hit, cell: Cell, cost: Number, now: int) -> Look:
    look = Look(hit, cell.length, cell if cell.expires > now else None)
    READERS[hit.rule.counting](look, cost, now)
    return look


def _write(look: Look, cell: Cell, cost: Number, now: int, charged: bool, ban: int) -> None:
    if look.counter is None:
        cell.restart(now)
        if look.hit.member is not None:
            cell.members = set()
    if WRITERS[look.hit.rule.counting](look, cell, cost, now, charged, ban):
        if ban:
            cell.banned_until = now + ban
            cell.expires = max(cell.expires, now + ban)
    elif look.counter is None:
        # Nothing was written, so it is still not there.
        cell.expires = 0
    # In a ban, and with fractions of calls, only the long way knows.
    cell.room = NO_ROOM if cell.banned_until > now or isinstance(cell.used, float) else look.hit.limit
