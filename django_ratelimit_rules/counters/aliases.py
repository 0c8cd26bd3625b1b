"""The store that the app counts in: the store of a cache alias, with the denial cache if that is on.

The process has one store for each alias. Only this module chooses the store.
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
        # During a block of `replaced`, the app uses this store instead of any alias.
        self._instead: Store | None = None

    def current(self) -> Store:
        """Return the store to count in."""
        # Every check calls this, so the usual case avoids a second function call.
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
        """Close the stores when their settings changed. The next call makes new stores."""
        if name in ("CACHES", "RATELIMIT_RULES_DENIAL_CACHE"):
            for store in self._by_alias.values():
                store.close()
            self._by_alias.clear()

    def forget(self) -> None:
        """Close the breakers and drop the cached refusals."""
        for store in list(self._by_alias.values()):
            store.start_afresh()

    def after_fork(self) -> None:
        """Replace the breakers, because a thread of the parent may have held one of their locks."""
        self.forget()
        if isinstance(self._instead, MemoryCounters):
            self._instead.unlock()

    def remembers(self) -> bool:
        """Return whether the last call to a store failed, or a store has a cached refusal."""
        return any(store.remembers() for store in list(self._by_alias.values()))


stores = reset.register("counters.aliases", Stores())
current = stores.current
of_alias = stores.of_alias
