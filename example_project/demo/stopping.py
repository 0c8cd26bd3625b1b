"""One way to be stopped: Ctrl-C, a kill and a closed terminal all raise KeyboardInterrupt, and only once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at the first signal to stop; ignore later ones, so that it can clean up."""

    def stop(number: int, frame: object) -> None:
        for each in STOPS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, stop) for each in STOPS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
