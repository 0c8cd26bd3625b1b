"""Counters of a replay: those of :mod:`counters.memory`, with a fast path for calls within all limits.

Each counter becomes a *cell*, an object that all cached plans share. On the fast path, ``take`` charges a call of cost
1 if it fits. Most calls need nothing else. All other calls take the slow path: calls over a limit, in a ban, of another
cost, or charged based on the response. There, :func:`count` and :func:`settle` run the code of :mod:`counters.memory`
on the same cells, so that both count alike. Times are milliseconds and never decrease.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor
from typing import Any, Protocol

from ..counters.memory import READERS, WRITERS, Counter, Look
from ..engine import Hit
from ..engine.algorithms import DISTINCT_VALUES, FIXED_WINDOW, SLIDING_WINDOW, TOKEN_BUCKET
from ..engine.results import Number

# A room that fits no call, so that every call takes the slow path.
NO_ROOM = -1


class FastPath(Protocol):
    """The fast path through one counter of a cached plan."""

    def take(self, now: int) -> bool:
        """Charge a call of cost 1 and return True. Returns False if it may not fit, so that the slow path decides."""

    def undo(self) -> None:
        """Undo the charge of the last :meth:`take`. Its window stays, because refused calls begin windows too."""


class Cell(Counter):
    """One counter.

    ``room`` is its limit, or NO_ROOM while the fast path must not be taken. ``length`` is its period in milliseconds.
    """

    __slots__ = ("length", "room")

    def unsure(self, now: int) -> bool:
        """Return whether only the slow path can decide if a call that was not taken is over the limit."""
        return self.room == NO_ROOM and self.banned_until <= now

    def __init__(self, limit: int, length: int) -> None:
        self.room = limit
        self.length = length
        self.restart(-length)

    def restart(self, now: float) -> None:
        """Reset to a counter that does not exist yet."""
        self.expires = now + self.length
        self.banned_until = self.used = self.count = self.previous = self.index = self.updated = 0
        self.period = self.length
        self.fractional = False
        # Only counters of distinct values get a set of their own.
        self.members = NO_MEMBERS


NO_MEMBERS: set[str] = set()


class FixedCell(Cell):
    """A fixed window, which starts with its first call."""

    __slots__ = ()

    def take(self, now: int) -> bool:
        """See :class:`FastPath`."""
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
        """See :class:`FastPath`."""
        self.used -= 1


class SlidingCell(Cell):
    """Two clock-aligned windows, of which the previous one fades."""

    __slots__ = ()

    def take(self, now: int) -> bool:
        """See :class:`FastPath`."""
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
        """See :class:`FastPath`."""
        self.used -= 1


class BucketCell(Cell):
    """A bucket that empties evenly. ``used`` is in calls times milliseconds, as in :mod:`counters.memory`."""

    __slots__ = ()

    def take(self, now: int) -> bool:
        """See :class:`FastPath`."""
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
        """See :class:`FastPath`."""
        self.used -= self.length


class Member:
    """One value in a counter of distinct values."""

    __slots__ = ("_cell", "_new", "_value")

    def __init__(self, cell: Cell, value: str) -> None:
        self._cell, self._value, self._new = cell, value, False

    def take(self, now: int) -> bool:
        """See :class:`FastPath`."""
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
        """See :class:`FastPath`."""
        if self._new:
            self._cell.members.discard(self._value)
            if not self._cell.members:
                # In a counter of distinct values, a refused call begins no window.
                self._cell.expires = 0


class SlowPathCell(Cell):
    """A counter of an algorithm without a fast path."""

    __slots__ = ()

    def unsure(self, now: int) -> bool:
        """Return True except during a ban, because :meth:`take` decides nothing."""
        return self.banned_until <= now

    def take(self, now: int) -> bool:
        """See :class:`FastPath`."""
        return False

    def undo(self) -> None:
        """Do nothing, because no call is ever taken."""


# Algorithms that are not listed use a SlowPathCell: only their reader and writer count.
CELLS: dict[str, type[Cell]] = {
    FIXED_WINDOW: FixedCell,
    SLIDING_WINDOW: SlidingCell,
    TOKEN_BUCKET: BucketCell,
    DISTINCT_VALUES: Cell,
}


def cell_of(hit: Hit) -> Cell:
    """Return a new, empty cell for the counter of a hit."""
    return CELLS.get(hit.rule.counting, SlowPathCell)(hit.limit, hit.period * 1000)


def fast_path_of(hit: Hit, cell: Any) -> FastPath:
    """Return the fast path of a hit."""
    fast_path: FastPath = cell if hit.member is None else Member(cell, hit.member)
    return fast_path


def count(hits: Sequence[Hit], cells: Sequence[Cell], cost: Number, now: int) -> tuple[list[Look], bool]:
    """Count one call on the slow path.

    Return a look for each counter, up to the first one that blocks, and whether one blocked.
    """
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
    """Refuse a call of cost 1 that :meth:`FastPath.take` found over the limit, and start the rule's ban if it has one.

    Return the milliseconds until a call could pass, -1 if none ever can.
    """
    if type(cell) is FixedCell and not hit.rule.ban_for:
        # Most rules are of this kind. Nothing is written.
        return cell.expires - now if cell.room else -1
    look = _look(hit, cell, 1, now)
    if not look.banned and hit.rule.ban_for:
        look.retry = hit.rule.ban_for * 1000
        _write(look, cell, 1, now, False, hit.rule.ban_for * 1000)
    return look.retry


def settle(hits: Iterable[tuple[Hit, Cell]], cost: Number, now: int) -> None:
    """Charge hits based on the response, even beyond their limits."""
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
        # Nothing was written, so the counter still does not exist.
        cell.expires = 0
    # During a ban, and with fractions of calls, only the slow path can decide.
    cell.room = NO_ROOM if cell.banned_until > now or isinstance(cell.used, float) else look.hit.limit
