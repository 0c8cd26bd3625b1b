"""One cache alias of django-redis, as this app speaks to it: its connections, what its keys begin with, and commands
that stand beside the counters.

Whatever goes wrong becomes CountersUnavailable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from django.core.cache import InvalidCacheBackendError, caches
from django.core.cache.backends.base import default_key_func
from django.core.exceptions import ImproperlyConfigured
from redis.exceptions import RedisError

from ..conf import settings
from ..exceptions import CountersUnavailable
from ..runtime.steps import Steps, run
from .transport.blocking import Connections
from .transport.cluster import (
    ClusterConnections,
    ClusterPipelines,
    connections_of,
    pipelines_of,
)
from .transport.pipelined import Pipelines

COMMANDS_AT_ONCE = 500
FAILURES = (RedisError, OSError, ValueError, asyncio.TimeoutError)


class Client:
    """One cache alias; thread-safe, one for the process."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._cache: Any = None
        self._connections: Connections | ClusterConnections | None = None
        self._pipelines: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def namespace(self) -> str:
        """Return what every key of this app begins with: the alias's own prefix and version, then KEY_PREFIX."""
        cache = self._cache
        if cache is None:
            cache = self._django_cache()
        if cache.key_func is default_key_func:
            return f"{cache.key_prefix}:{cache.version}:{settings.KEY_PREFIX}"
        # A key function of the project's own may look at more than its arguments (the tenant): asked each time.
        try:
            return str(cache.make_key(settings.KEY_PREFIX))
        except Exception as error:
            raise CountersUnavailable(f"the KEY_FUNCTION of cache alias {self.alias!r} failed: {error!r}") from error

    def has_one_namespace(self) -> bool:
        """Whether :meth:`namespace` is the same for every call: a key function of the project's own may tell apart."""
        return self._django_cache().key_func is default_key_func

    def memory(self) -> dict[str, str]:
        """Return what this Redis, or one server of the cluster, says of its memory. Raises CountersUnavailable."""
        lines = bytes(self._aside("INFO", "memory")).decode(errors="replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def close(self) -> None:
        """Close idle connections; the next call opens new ones."""
        if self._connections is not None:
            self._connections.close()

    def _aside(self, *arguments: Any) -> Any:
        """Run a command that says nothing about whether counting works: the breaker neither stops nor hears of it."""
        return run(self._asking_aside(*arguments))

    def _asking_aside(self, *arguments: Any) -> Steps[Any]:
        """Return the steps of :meth:`_aside`."""
        try:
            return (yield self._connect().ask, self._aask, arguments)
        except FAILURES as error:
            raise CountersUnavailable(f"Redis of cache alias {self.alias!r} failed: {error}") from error

    def _aside_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """As :meth:`_aside`, for several commands at once."""
        replies: list[Any] = []
        try:
            for start in range(0, len(commands), COMMANDS_AT_ONCE):
                replies += self._connect().ask_all(commands[start : start + COMMANDS_AT_ONCE])
        except FAILURES as error:
            raise CountersUnavailable(f"Redis of cache alias {self.alias!r} failed: {error}") from error
        return replies

    async def _aask(self, *arguments: Any) -> Any:
        """Run a command on a connection of the running event loop."""
        return await (self._known() or await self._aconnect()).ask(*arguments)

    def _connect(self) -> Connections | ClusterConnections:
        if self._connections is None:
            try:
                client = getattr(self._django_cache(), "client", None)
                self._connections = client and connections_of(self.alias, client)
            except CountersUnavailable:
                raise
            except Exception as error:
                # Whatever django-redis makes of a location or an option that it cannot use.
                raise CountersUnavailable(f"cache alias {self.alias!r} cannot be used: {error!r}") from error
        if self._connections is None:
            raise CountersUnavailable(
                f"cache alias {self.alias!r} is not django-redis; set its BACKEND to django_redis.cache.RedisCache"
            )
        return self._connections

    def _known(self) -> Pipelines | ClusterPipelines | None:
        """Return the connections of the running event loop, None before the first call there."""
        known: tuple[Pipelines | ClusterPipelines, Any] | None = self._pipelines.get(asyncio.get_running_loop())
        return known and known[0]

    async def _aconnect(self) -> Pipelines | ClusterPipelines:
        known = self._known()
        if known is not None:
            return known
        pipelines = pipelines_of(self._connect())
        closer = _close_with_loop(pipelines)
        self._pipelines[asyncio.get_running_loop()] = (pipelines, closer)
        await anext(closer)
        return pipelines

    def _django_cache(self) -> Any:
        if self._cache is None:
            try:
                # Not caches[alias], which is one per thread: the Redis client under it is safe between threads.
                self._cache = caches.create_connection(self.alias)
            except (InvalidCacheBackendError, ImproperlyConfigured, KeyError) as error:
                raise CountersUnavailable(f"cache alias {self.alias!r} cannot be used: {error}") from error
        return self._cache


async def _close_with_loop(pipelines: Pipelines | ClusterPipelines) -> AsyncGenerator[None, None]:
    """Close them when their event loop shuts down: loops close their asynchronous generators before they end."""
    try:
        yield
    finally:
        await pipelines.aclose()
