"""Timestamps of access logs: the string between a line's brackets goes in, milliseconds since 1970 come out."""

from __future__ import annotations

import re
from datetime import date

NO_TIME = -1
MOST_KNOWN = 200_000
_STAMP = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d)", re.ASCII)
_ZONE = re.compile(r"([+-])(\d\d)(\d\d)", re.ASCII)
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}


class Stamps(dict[str, int]):
    """A cache of timestamps of one zone, in milliseconds since 1970. An invalid timestamp gives NO_TIME."""

    def __init__(self, zone: str) -> None:
        match = _ZONE.fullmatch(zone)
        self._ahead = 0 if match is None else (int(match[2]) * 60 + int(match[3])) * (60 if match[1] == "+" else -60)
        self._known = match is not None
        self._minutes: dict[str, int] = {}

    def __missing__(self, stamp: str) -> int:
        if len(self) > MOST_KNOWN:
            self.clear()
            self._minutes.clear()
        minute = self._minutes.get(stamp[:17])
        seconds = stamp[17:]
        if minute is None or len(seconds) != 3 or not seconds[1:].isdigit() or not seconds.isascii():
            time = self._milliseconds(stamp)
            if time != NO_TIME:
                self._minutes[stamp[:17]] = time // 60_000 * 60_000
        else:
            time = minute + int(seconds[1:]) * 1000
        self[stamp] = time
        return time

    def _milliseconds(self, stamp: str) -> int:
        match = _STAMP.fullmatch(stamp) if self._known else None
        if match is None:
            return NO_TIME
        day, month, year, hours, minutes, seconds = match.groups()
        try:
            days = date(int(year), _MONTHS[month], int(day)).toordinal() - date(1970, 1, 1).toordinal()
        except (KeyError, ValueError):
            return NO_TIME
        return max(NO_TIME, 1000 * (days * 86400 + int(hours) * 3600 + int(minutes) * 60 + int(seconds) - self._ahead))


class Zones(dict[str, Stamps]):
    """The timestamps of each zone in a log."""

    def __missing__(self, zone: str) -> Stamps:
        if len(self) > 100:
            self.clear()
        stamps = self[zone] = Stamps(zone)
        return stamps
