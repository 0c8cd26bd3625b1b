"""A store in this process: counters in memory, and the state that processes otherwise share in Redis.

It implements the contract of ``counters.Store``, with a clock that callers may pass. Other processes do not see it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from ..engine import Hit, Tally
from . import Verb
from .memory import MemoryCounters, beginnings
from .shared_state import ENTRIES_AT_ONCE, REVISION_SECONDS

REVISION = "revision"


@dataclass(slots=True)
class Entry:
    """One value of the shared state. ``expires`` is a time in milliseconds of the store's clock."""

    value: Any
    expires: float


class MemoryStore(MemoryCounters):
    """Counters and shared state in dictionaries. Thread-safe."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        super().__init__(clock)
        self._shared: dict[str, Entry] = {}
        self._shared_lock = threading.Lock()

    def unlock(self) -> None:
        """Make new locks, for the same reason as in MemoryCounters."""
        super().unlock()
        self._shared_lock = threading.Lock()

    def keys(self, limiter: str, most: int, rounds: int = 100) -> tuple[list[str], bool]:
        """Return the keys of at most ``most`` counters of a limiter, and whether there are no others."""
        keys = [key for key in self.expiries() if key.startswith(beginnings(limiter))]
        return keys[:most], len(keys) <= most

    def look(self, hits: Sequence[Hit]) -> list[tuple[Hit, Tally]]:
        """Return the tallies of counters of different calls. Writes nothing."""
        return [(hit, self.hit([hit], 0, Verb.PEEK)[0]) for hit in hits]

    def revision(self) -> str | None:
        """Return the token of the latest rule change. Returns None if no change was announced lately."""
        token = self.fetch(REVISION)
        return None if token is None else token.decode()

    def announce(self) -> None:
        """Announce a rule change."""
        self.put(REVISION, uuid4().hex, REVISION_SECONDS)

    def put(self, name: str, value: str, seconds: int) -> None:
        """Store a string for some seconds."""
        with self._shared_lock:
            self._shared[name] = Entry(value.encode(), self._clock() + seconds * 1000)

    async def aput(self, name: str, value: str, seconds: int) -> None:
        """Async version of `put`."""
        self.put(name, value, seconds)

    def fetch(self, name: str) -> bytes | None:
        """Return the string that :meth:`put` stored. Returns None if the name is unknown or expired."""
        with self._shared_lock:
            value: bytes | None = self._value(name)
            return value

    def add(self, sums: Mapping[str, Mapping[str, int]], seconds: int) -> None:
        """Add numbers to the fields of hashes. Each hash expires some seconds from now."""
        with self._shared_lock:
            for name, fields in sums.items():
                numbers = defaultdict(int, self._value(name) or {})
                for field, number in fields.items():
                    numbers[field] += number
                self._shared[name] = Entry(numbers, self._clock() + seconds * 1000)

    def added(self, names: Sequence[str]) -> list[dict[bytes, bytes]]:
        """Return the hashes that :meth:`add` made, with fields and numbers in the form of Redis replies."""
        with self._shared_lock:
            hashes = [self._value(name) or {} for name in names]
            return [{field.encode(): b"%d" % number for field, number in numbers.items()} for numbers in hashes]

    def mark(self, members: Mapping[str, Sequence[str]], now: int, seconds: int, most: int) -> None:
        """Put strings into sets. Each string is kept for some seconds after ``now``, a POSIX time.

        A set with more than ``most`` strings keeps the latest.
        """
        with self._shared_lock:
            for name, strings in members.items():
                times = {string: time for string, time in (self._value(name) or {}).items() if time > now - seconds}
                times |= dict.fromkeys(strings, now)
                # Sort by time, then alphabetically, as a sorted set of Redis does.
                latest = sorted(times.items(), key=lambda item: (item[1], item[0]))[-most:]
                self._shared[name] = Entry(dict(latest), self._clock() + seconds * 1000)

    def marked(self, names: Sequence[str], since: int) -> list[int]:
        """Return for each set how many strings :meth:`mark` put into it after a POSIX time."""
        with self._shared_lock:
            return [sum(time > since for time in (self._value(name) or {}).values()) for name in names]

    def log(self, name: str, entries: Iterable[str], most: int, seconds: int) -> None:
        """Append strings to a list that keeps the latest ``most``. The list expires some seconds from now."""
        with self._shared_lock:
            logged = [*(self._value(name) or ()), *(entry.encode() for entry in entries)]
            self._shared[name] = Entry(logged[-most:], self._clock() + seconds * 1000)

    def logged(self, name: str) -> Iterator[list[bytes]]:
        """Yield the entries that :meth:`log` wrote in batches, the oldest first."""
        with self._shared_lock:
            entries = list(self._value(name) or ())
        for start in range(0, len(entries), ENTRIES_AT_ONCE):
            yield entries[start : start + ENTRIES_AT_ONCE]

    def logged_size(self, name: str) -> int:
        """Return the number of entries that :meth:`logged` yields."""
        with self._shared_lock:
            return len(self._value(name) or ())

    def _value(self, name: str) -> Any:
        """Return the stored value. Returns None if the name is unknown or its value has expired."""
        entry = self._shared.get(name)
        if entry is not None and entry.expires <= self._clock():
            del self._shared[name]
            return None
        return entry and entry.value
