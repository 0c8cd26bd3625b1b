"""A circuit breaker: after a failure the store is left alone for a short, growing pause.

An outage then costs a request microseconds, not a time-out. Knows nothing of stores; one per store and process.
"""

from __future__ import annotations

import threading
import time

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Breaker:
    """Closed while all is well; after a failure open for 0.1 s, doubled by each failed retry up to 5 s."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pause = 0.0
        self._opened = 0.0
        # When the pause ends, by the monotonic clock; 0 while closed. Public, because each check reads it and a call
        # would cost more than the comparison.
        self.until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the store failed last; asking this tries nothing."""
        return self.until > 0

    def pause(self) -> float:
        """Return the seconds the store is still to be left alone, 0 when it may be tried.

        When a pause is over one caller gets 0 and tries; the others wait for what it finds.
        """
        if not self.until:
            return 0.0
        with self._lock:
            now = time.monotonic()
            if now < self.until:
                return self.until - now
            self.until = now + self._pause
            return 0.0

    def failed(self) -> float:
        """Note a failure; return the pause it opens. Failures of calls that ran side by side count as one."""
        with self._lock:
            now = time.monotonic()
            if not self._pause or now - self._opened >= self._pause:
                self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
                self._opened, self.until = now, now + self._pause
            return self._pause

    def worked(self) -> None:
        """Note an answer: the store is well."""
        if self.until:
            with self._lock:
                self._pause = self._opened = self.until = 0.0
