"""Counters: the contract between the engine and a store. Hits go out, tallies come back.

- ``redis``, whose one script is ``hit.lua``, keeps the contract of Counters, and so does ``memory``, in this process;
  ``denial_cache`` answers some calls before the first.
- a Store also holds shared state: in Redis by ``shared_state``, in this process by ``memory_store``.
- ``aliases`` chooses the store; ``alias`` is one cache alias.
- ``transport/`` speaks to Redis. ``cluster`` is the old path of its connection factory.
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

    ``hit`` counts one call in a chain of hits, all at once or not at all, and returns the tallies in order, up to the
    first that blocks; ``peek`` writes nothing; ``charge`` charges all, past their limits. ``reset`` forgets counters
    and returns how many there were. ``hit`` and ``reset`` raise CountersUnavailable. ``ahit`` and ``areset`` are
    their async versions; ``counting`` and ``forgetting`` return the steps of both.
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
    """Counters that the app can use as a whole, with the shared state beside them.

    Everything raises CountersUnavailable. :class:`counters.shared_state.Beside` describes each method of shared state.
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
