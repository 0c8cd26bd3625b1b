"""A store in this process: counters in memory, and beside them the shared state that Redis holds otherwise.

It keeps the contract of ``counters.Store`` by a clock that can be given. Other processes see none of it.
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
    """One value beside the counters; ``expires`` is in milliseconds of the store's clock."""

    value: Any
    expires: float


class MemoryStore(MemoryCounters):
    """Counters and shared state in dictionaries, safe between threads."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        super().__init__(clock)
        self._beside: dict[str, Entry] = {}
        self._beside_lock = threading.Lock()

    def unlock(self) -> None:
        """As in memory, for both locks."""
        super().unlock()
        self._beside_lock = threading.Lock()

    def keys(self, limiter: str, most: int, rounds: int = 100) -> tuple[list[str], bool]:
        """Return the keys of some counters of a limiter, and whether they are all."""
        found = [key for key in self.expiries() if key.startswith(beginnings(limiter))]
        return found[:most], len(found) <= most

    def look(self, hits: Sequence[Hit]) -> list[tuple[Hit, Tally]]:
        """Return the tallies of counters of different calls; write nothing."""
        return [(hit, self.hit([hit], 0, Verb.PEEK)[0]) for hit in hits]

    def revision(self) -> str | None:
        """Return the token of the latest rule change, None when there is no news."""
        kept = self.fetch(REVISION)
        return None if kept is None else kept.decode()

    def announce(self) -> None:
        """Note a rule change."""
        self.put(REVISION, uuid4().hex, REVISION_SECONDS)

    def put(self, name: str, value: str, seconds: int) -> None:
        """Keep a string for some seconds."""
        with self._beside_lock:
            self._beside[name] = Entry(value.encode(), self._clock() + seconds * 1000)

    async def aput(self, name: str, value: str, seconds: int) -> None:
        """Async version of `put`."""
        self.put(name, value, seconds)

    def fetch(self, name: str) -> bytes | None:
        """Return the string that :meth:`put` kept, None when there is nothing."""
        with self._beside_lock:
            value: bytes | None = self._value(name)
            return value

    def add(self, sums: Mapping[str, Mapping[str, int]], seconds: int) -> None:
        """Add numbers to the fields of hashes, each kept for some seconds from now on."""
        with self._beside_lock:
            for name, fields in sums.items():
                numbers = defaultdict(int, self._value(name) or {})
                for field, number in fields.items():
                    numbers[field] += number
                self._beside[name] = Entry(numbers, self._clock() + seconds * 1000)

    def added(self, names: Sequence[str]) -> list[dict[bytes, bytes]]:
        """Return the hashes that :meth:`add` made, as Redis returns them."""
        with self._beside_lock:
            hashes = [self._value(name) or {} for name in names]
            return [{field.encode(): b"%d" % number for field, number in numbers.items()} for numbers in hashes]

    def mark(self, members: Mapping[str, Sequence[str]], now: int, seconds: int, most: int) -> None:
        """Put strings into sets, each kept for some seconds from ``now`` on; of more than ``most`` the latest."""
        with self._beside_lock:
            for name, texts in members.items():
                times = {text: time for text, time in (self._value(name) or {}).items() if time > now - seconds}
                times |= dict.fromkeys(texts, now)
                # In order of time, and of equal times in alphabetical order, as a sorted set of Redis has them.
                latest = sorted(times.items(), key=lambda each: (each[1], each[0]))[-most:]
                self._beside[name] = Entry(dict(latest), self._clock() + seconds * 1000)

    def marked(self, names: Sequence[str], since: int) -> list[int]:
        """Return how many strings :meth:`mark` put into sets after a POSIX time."""
        with self._beside_lock:
            return [sum(time > since for time in (self._value(name) or {}).values()) for name in names]

    def log(self, name: str, entries: Iterable[str], most: int, seconds: int) -> None:
        """Add strings to a list that holds ``most`` of them, for some seconds from now on."""
        with self._beside_lock:
            kept = [*(self._value(name) or ()), *(entry.encode() for entry in entries)]
            self._beside[name] = Entry(kept[-most:], self._clock() + seconds * 1000)

    def logged(self, name: str) -> Iterator[list[bytes]]:
        """Yield the entries that :meth:`log` keeps, the oldest first, some at a time."""
        with self._beside_lock:
            entries = list(self._value(name) or ())
        for start in range(0, len(entries), ENTRIES_AT_ONCE):
            yield entries[start : start + ENTRIES_AT_ONCE]

    def logged_size(self, name: str) -> int:
        """Return how many entries :meth:`log` keeps."""
        with self._beside_lock:
            return len(self._value(name) or ())

    def _value(self, name: str) -> Any:
        """Return a living value, None when there is none."""
        kept = self._beside.get(name)
        if kept is not None and kept.expires <= self._clock():
            del self._beside[name]
            return None
        return kept and kept.value
