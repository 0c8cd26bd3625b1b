"""The time at which live numbers and recordings note a call. The demo sets it, whose traffic was recorded long ago;
counting always goes by the clock of the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_clock: Callable[[], float] = time.time


def now() -> float:
    """Return the POSIX time."""
    return _clock()


@contextmanager
def told_by(clock: Callable[[], float]) -> Iterator[None]:
    """Take the calls of a block for calls of the time that a clock tells. For one process and all its threads."""
    global _clock
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before
