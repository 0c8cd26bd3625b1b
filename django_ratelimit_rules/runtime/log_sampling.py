"""Sampling of log lines, so that an event of every request does not flood the log."""

from __future__ import annotations

import time

from . import reset

MINUTE = 60.0
MAX_KEYS = 1000


class Sampling(reset.Part):
    """The time of the last line of each key, and the number of its events since a quiet minute."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._counts: dict[str, tuple[int, float]] = {}

    def due(self, key: str) -> bool:
        """Return True for the first call with this key, and then for one call a minute."""
        now = time.monotonic()
        last = self._last.get(key)
        if last is not None and now - last < MINUTE:
            return False
        if len(self._last) >= MAX_KEYS:
            self._last.clear()
        self._last[key] = now
        return True

    def nth(self, key: str) -> int:
        """Return the number of calls with this key since a quiet minute, 1 for the first."""
        now = time.monotonic()
        number, last = self._counts.get(key, (0, now))
        number = 1 if now - last > MINUTE else number + 1
        if len(self._counts) >= MAX_KEYS:
            self._counts.clear()
        self._counts[key] = (number, now)
        return number

    def forget(self) -> None:
        """Forget all keys, so that each test gets its first line."""
        self._last.clear()
        self._counts.clear()

    def remembers(self) -> bool:
        """Return whether any key is remembered."""
        return bool(self._last or self._counts)

    def setting_changed(self, name: str) -> None:
        """Forget all keys when CACHES changed, because the failure of another Redis must be logged."""
        if name == "CACHES":
            self.forget()


sampling = reset.register("log_sampling", Sampling())
due = sampling.due
nth = sampling.nth
forget = sampling.forget
