"""Ctrl-C, a kill and a closed terminal all raise KeyboardInterrupt, and only once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at the first stop signal. Ignore later signals during the cleanup."""

    def stop(number: int, frame: object) -> None:
        for stop_signal in STOPS:
            signal.signal(stop_signal, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {stop_signal: signal.signal(stop_signal, stop) for stop_signal in STOPS}
    try:
        yield
    finally:
        for stop_signal, handler in before.items():
            signal.signal(stop_signal, handler)
