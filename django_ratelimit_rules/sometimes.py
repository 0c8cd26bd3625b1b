"""Once a minute: keeps what happens on every request of an outage from flooding the log."""

from __future__ import annotations

import time

MINUTE = 60.0
MAX_KEYS = 1000

_last: dict[str, float] = {}


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


def forget() -> None:
    """Forget all keys, so that a test sees its own first line."""
    _last.clear()
