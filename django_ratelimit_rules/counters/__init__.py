"""Counters: the contract between the engine and a store. Hits go out, tallies come back.

- the contract is kept by ``redis``, whose one script is ``hit.lua``, and by ``memory``, in this process; ``denials``
  stands in front of the first, ``aliases`` chooses, ``beside`` keeps what is no counter.
- how Redis is spoken to: ``client``, by way of ``connections`` in threads, and of ``pipeline`` with ``asyncpool`` on
  event loops; ``breaker`` when it fails.
- a Redis Cluster: ``cluster``, ``topology`` (who holds what), ``slots``.
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
