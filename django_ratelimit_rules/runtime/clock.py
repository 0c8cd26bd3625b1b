"""The clock for the expiry of rules and for the times of numbers and records.

It is this machine's clock, unless a test or the demo replaces it. Counters use the clock of their store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime


class Clock:
    """The clock of this process. ``now`` returns the POSIX time.

    It is a plain attribute, because every check calls it.
    """

    __slots__ = ("now",)

    now: Callable[[], float]

    def __init__(self) -> None:
        self.now = time.time

    def moment(self) -> datetime:
        """Return the time as an aware datetime."""
        return datetime.fromtimestamp(self.now(), UTC)

    @contextmanager
    def replaced(self, now: Callable[[], float]) -> Iterator[None]:
        """Use another function as the clock during a block, in all threads of this process."""
        before, self.now = self.now, now
        try:
            yield
        finally:
            self.now = before


clock = Clock()
