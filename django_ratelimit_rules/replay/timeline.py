"""The calls of a replay by time: all, exceeded and blocked calls in columns, which widen for long traffic."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

MINUTE = 60_000
MOST_KEPT = 4096
# Minutes to 4 weeks.
ROUND = (1, 2, 5, 10, 15, 30, *(60 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 168, 336, 672)))


class Column(NamedTuple):
    """Sums of one span. ``start`` is in milliseconds since 1970. ``blocked`` calls are among the ``exceeded`` ones."""

    start: int
    calls: int
    exceeded: int
    blocked: int


class Timeline:
    """Sums by time. ``width`` is the width of a column in milliseconds."""

    def __init__(self) -> None:
        self.width = MINUTE
        self._sums: dict[int, list[int]] = {}

    def calls(self, times: Sequence[int]) -> None:
        """Add calls by their times, which must be in order."""
        at = 0
        while at < len(times):
            place = times[at] // self.width
            end = bisect_left(times, (place + 1) * self.width, at)
            self._at(place)[0] += end - at
            at = end

    def note(self, time: int, blocked: bool) -> None:
        """Add a call over a limit to its column. ``calls`` has counted it already."""
        sums = self._at(time // self.width)
        sums[1] += 1
        sums[2] += blocked

    def columns(self, most: int) -> tuple[int, list[Column]]:
        """Return the width of a column in milliseconds, and at most ``most`` columns without gaps.

        The width is a round number of minutes or hours if one of ``ROUND`` fits.
        """
        if not self._sums:
            return self.width, []
        first, last = min(self._sums), max(self._sums)
        together = next(
            (number for number in ROUND if last // number - first // number < most),
            -(-(last - first + 2) // (most - 1)),
        )
        columns = []
        for start in range(first // together * together, last + 1, together):
            part = [self._sums[place] for place in range(start, start + together) if place in self._sums]
            calls, exceeded, blocked = (sum(sums[which] for sums in part) for which in range(3))
            columns.append(Column(start * self.width, calls, exceeded, blocked))
        return self.width * together, columns

    def _at(self, place: int) -> list[int]:
        sums = self._sums.get(place)
        if sums is None:
            sums = self._sums[place] = [0, 0, 0]
            if len(self._sums) > MOST_KEPT:
                return self._widen(place)
        return sums

    def _widen(self, place: int) -> list[int]:
        """Merge columns in pairs, and return the merged sums of a place."""
        self.width *= 2
        before, self._sums = self._sums, {}
        for old, sums in before.items():
            kept = self._sums.setdefault(old // 2, [0, 0, 0])
            for which, number in enumerate(sums):
                kept[which] += number
        return self._sums[place // 2]
