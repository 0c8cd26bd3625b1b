"""Once a minute, or every so often: keeps what happens on every request from flooding the log."""

from __future__ import annotations

import time

MINUTE = 60.0
MAX_KEYS = 1000

_last: dict[str, float] = {}
_counts: dict[str, tuple[int, float]] = {}


def due(key: str) -> bool:
    """Return True for the first call with this key, and then for one call a minute."""
    now = time.monotonic()
    last = _last.get(key)
    if last is not None and now - last < MINUTE:
        return False
    if len(_last) >= MAX_KEYS:
        _last.clear()
    _last[key] = now
    return True


def nth(key: str) -> int:
    """Count the calls with this key: 1 for the first, and again for the first after a quiet minute."""
    now = time.monotonic()
    number, last = _counts.get(key, (0, now))
    number = 1 if now - last > MINUTE else number + 1
    if len(_counts) >= MAX_KEYS:
        _counts.clear()
    _counts[key] = (number, now)
    return number


def forget() -> None:
    """Forget all keys, so that a test sees its own first line."""
    _last.clear()
    _counts.clear()
