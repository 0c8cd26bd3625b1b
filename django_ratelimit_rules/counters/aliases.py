"""The store that the app counts in: that of a cache alias, with the denial cache before it where that is on.

One store of each alias is made for the process. This is the one place that chooses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..conf import settings
from ..runtime import reset
from . import Store
from .denial_cache import Denials
from .memory import MemoryCounters
from .redis import RedisCounters


class Stores(reset.Part):
    """The stores of this process."""

    def __init__(self) -> None:
        self._by_alias: dict[str, RedisCounters] = {}
        # Used instead of every alias, during a block.
        self._instead: Store | None = None

    def current(self) -> Store:
        """Return the store to count in."""
        # Every check comes here, so the usual case is spared a second call.
        return self._instead or self._by_alias.get(settings.CACHE_ALIAS) or self.of_alias()

    def of_alias(self) -> RedisCounters:
        """Return the store of the alias that ``RATELIMIT_RULES_CACHE_ALIAS`` names."""
        alias = settings.CACHE_ALIAS
        store = self._by_alias.get(alias)
        if store is None:
            made = Denials(alias) if settings.DENIAL_CACHE else RedisCounters(alias)
            store = self._by_alias.setdefault(alias, made)
        return store

    @contextmanager
    def replaced(self, store: Store) -> Iterator[None]:
        """Count in another store during a block, in all threads of this process."""
        before, self._instead = self._instead, store
        try:
            yield
        finally:
            self._instead = before

    def setting_changed(self, name: str) -> None:
        """Close the stores when their settings changed; the next call makes new ones."""
        if name in ("CACHES", "RATELIMIT_RULES_DENIAL_CACHE"):
            for store in self._by_alias.values():
                store.close()
            self._by_alias.clear()

    def forget(self) -> None:
        """Close the breakers, and drop the refusals of the denial caches."""
        for store in list(self._by_alias.values()):
            store.begin_anew()

    def after_fork(self) -> None:
        """Replace the breakers, one of whose locks a thread of the parent may have held."""
        self.forget()
        if isinstance(self._instead, MemoryCounters):
            self._instead.unlock()

    def remembers(self) -> bool:
        """Return whether a store failed last, or keeps a refusal."""
        return any(store.remembers() for store in list(self._by_alias.values()))


stores = reset.register("counters.aliases", Stores())
current = stores.current
of_alias = stores.of_alias
