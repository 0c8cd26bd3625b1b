"""Counters: the contract between the engine and a store. Hits go out, tallies come back.

- the contract is kept by ``redis``, whose one script is ``hit.lua``, and by ``memory``, in this process;
  ``denial_cache`` stands before the first.
- ``aliases`` chooses; ``alias`` is one cache alias; ``shared_state`` keeps what is no counter.
- ``transport/`` speaks to Redis. ``cluster`` is the old path of its connection factory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ..engine import Hit, Tally
from ..engine.results import Number
from ..engine.rules import Word


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
    and returns how many there were. ``hit`` and ``reset`` raise CountersUnavailable. The twins with an ``a`` in front
    wait on the running event loop.
    """

    def hit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = Verb.CHECK) -> list[Tally]: ...

    def reset(self, keys: Iterable[str]) -> int: ...

    async def ahit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = Verb.CHECK) -> list[Tally]: ...

    async def areset(self, keys: Iterable[str]) -> int: ...
