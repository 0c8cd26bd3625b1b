"""A circuit breaker: after a failure, calls do not reach the store for a short, growing pause.

During an outage a request then costs microseconds instead of a time-out. The breaker does not know its store. There is
one breaker per store and process.
"""

from __future__ import annotations

import threading
import time

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Breaker:
    """Closed while the store works. After a failure open for 0.1 s. Each failed retry doubles the pause, up to 5 s."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pause = 0.0
        self._opened = 0.0
        # The end of the pause in seconds of the monotonic clock, 0 while closed. It is public, because each check reads
        # it, and a function call would cost more than the comparison.
        self.until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the store's last call failed. Reading this makes no call."""
        return self.until > 0

    def pause(self) -> float:
        """Return the seconds until the pause ends. Returns 0 if the caller may call the store.

        After a pause one caller gets 0 and retries. The other callers get a new pause until that retry has ended.
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
        """Note a failure. Return the seconds of the pause. Failures of concurrent calls count as one failure."""
        with self._lock:
            now = time.monotonic()
            if not self._pause or now - self._opened >= self._pause:
                self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
                self._opened, self.until = now, now + self._pause
            return self._pause

    def worked(self) -> None:
        """Note a reply, which closes the breaker."""
        if self.until:
            with self._lock:
                self._pause = self._opened = self.until = 0.0
