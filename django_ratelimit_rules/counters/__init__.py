"""Counters: the contract between the engine and a store. Hits go out, tallies come back.

- ``redis`` implements the contract of Counters by one script, ``hit.lua``. ``memory`` implements it in this process.
- ``denial_cache`` answers some calls without Redis.
- A Store also holds shared state: ``shared_state`` in Redis, ``memory_store`` in this process.
- ``aliases`` chooses the store. ``alias`` is one cache alias.
- ``transport/`` sends commands to Redis. ``cluster`` is the old import path of its connection factory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from ..engine import Hit, Tally
from ..engine.results import Number
from ..engine.rules import Word
from ..runtime.steps import Steps


class Verb(Word):
    """What to do with a chain of hits."""

    CHECK = "check"
    PEEK = "peek"
    CHARGE = "charge"


# See engine.rules.OFF.
CHECK, PEEK, CHARGE = Verb.CHECK, Verb.PEEK, Verb.CHARGE


class Counters(Protocol):
    """A store of counters.

    ``hit`` counts one call in a chain of hits. It counts the call in all counters at once, or in no counter. It returns
    the tallies in order, up to the first that blocks. The verb ``peek`` writes nothing. The verb ``charge`` charges all
    counters, even past their limits. ``reset`` deletes counters and returns how many there were. ``hit`` and ``reset``
    raise CountersUnavailable. ``ahit`` and ``areset`` are their async versions. ``counting`` and ``forgetting`` return
    the steps of both versions.
    """

    def hit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = Verb.CHECK) -> list[Tally]: ...

    def reset(self, keys: Iterable[str]) -> int: ...

    async def ahit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = Verb.CHECK) -> list[Tally]: ...

    async def areset(self, keys: Iterable[str]) -> int: ...

    def counting(
        self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = Verb.CHECK, *, blocking: bool = False
    ) -> Steps[list[Tally]]: ...

    def forgetting(self, keys: Iterable[str]) -> Steps[int]: ...


class Store(Counters, Protocol):
    """Counters and shared state: all that the app needs from a store.

    Every method raises CountersUnavailable. Its own description is in :class:`counters.shared_state.SharedState`, or in
    :class:`counters.redis.RedisCounters`.
    """

    def clear(self, limiter: str | None = None) -> int: ...

    def keys(self, limiter: str, most: int, rounds: int = 100) -> tuple[list[str], bool]: ...

    def look(self, hits: Sequence[Hit]) -> list[tuple[Hit, Tally]]: ...

    def revision(self) -> str | None: ...

    def announce(self) -> None: ...

    def put(self, name: str, value: str, seconds: int) -> None: ...

    async def aput(self, name: str, value: str, seconds: int) -> None: ...

    def fetch(self, name: str) -> bytes | None: ...

    def add(self, sums: Mapping[str, Mapping[str, int]], seconds: int) -> None: ...

    def added(self, names: Sequence[str]) -> list[dict[bytes, bytes]]: ...

    def mark(self, members: Mapping[str, Sequence[str]], now: int, seconds: int, most: int) -> None: ...

    def marked(self, names: Sequence[str], since: int) -> list[int]: ...

    def log(self, name: str, entries: Iterable[str], most: int, seconds: int) -> None: ...

    def logged(self, name: str) -> Iterator[list[bytes]]: ...

    def logged_size(self, name: str) -> int: ...
