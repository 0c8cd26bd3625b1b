"""One cache alias of django-redis: its connections, the prefix of its keys, and commands for the shared state.

Every failure becomes CountersUnavailable.
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
from ..engine.messages import _
from ..exceptions import CountersUnavailable
from ..runtime.steps import Steps, run
from .transport.blocking import Connections, detail
from .transport.cluster import (
    ClusterConnections,
    ClusterPipelines,
    connections_of,
    pipelines_of,
)
from .transport.pipelined import Pipelines

COMMANDS_AT_ONCE = 500
FAILURES = (RedisError, OSError, ValueError, asyncio.TimeoutError)


class Alias:
    """One cache alias. It is thread-safe, and the process has one object for each alias."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._cache: Any = None
        self._connections: Connections | ClusterConnections | None = None
        self._pipelines: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def namespace(self) -> str:
        """Return the prefix of every key of this app: the alias's own prefix and version, then KEY_PREFIX."""
        cache = self._cache
        if cache is None:
            cache = self._django_cache()
        if cache.key_func is default_key_func:
            return f"{cache.key_prefix}:{cache.version}:{settings.KEY_PREFIX}"
        # Call a project's key function each time, because it may use more than its arguments, for example the tenant.
        try:
            return str(cache.make_key(settings.KEY_PREFIX))
        except Exception as error:
            alias, reason = repr(self.alias), repr(error)
            raise CountersUnavailable(
                _("The KEY_FUNCTION of cache alias %(alias)s failed: %(reason)s", alias=alias, reason=reason)
            ) from error

    def has_one_namespace(self) -> bool:
        """Return whether :meth:`namespace` is the same for every call. A project's key function may vary it."""
        return self._django_cache().key_func is default_key_func

    def memory(self) -> dict[str, str]:
        """Return the memory information of this Redis, or of one server of the cluster. Raises CountersUnavailable."""
        lines = bytes(self._send("INFO", "memory")).decode(errors="replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def close(self) -> None:
        """Close idle connections. The next call opens new connections."""
        if self._connections is not None:
            self._connections.close()

    def _send(self, *arguments: Any) -> Any:
        """Run a command without the breaker, because the command does not show whether counting works."""
        return run(self._sending(*arguments))

    def _sending(self, *arguments: Any) -> Steps[Any]:
        """Return the steps of :meth:`_send`."""
        try:
            return (yield self._connect().ask, self._aask, arguments)
        except FAILURES as error:
            raise self._failure(error) from error

    def _send_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run several commands as :meth:`_send` does, 500 in one write."""
        replies: list[Any] = []
        try:
            for start in range(0, len(commands), COMMANDS_AT_ONCE):
                replies += self._connect().ask_all(commands[start : start + COMMANDS_AT_ONCE])
        except FAILURES as error:
            raise self._failure(error) from error
        return replies

    def _failure(self, error: Exception, retry_after: float = 0.0) -> CountersUnavailable:
        """Return the exception to raise for a failed command."""
        message = _("Redis of cache alias %(alias)s failed: %(reason)s", alias=repr(self.alias), reason=detail(error))
        return CountersUnavailable(message, retry_after=retry_after)

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
                # django-redis may raise any exception for a location or an option that it cannot use.
                raise self._unusable(error) from error
        if self._connections is None:
            raise CountersUnavailable(
                _(
                    "Cache alias %(alias)s is not django-redis. Set its BACKEND to django_redis.cache.RedisCache",
                    alias=repr(self.alias),
                )
            )
        return self._connections

    def _unusable(self, error: Exception) -> CountersUnavailable:
        return CountersUnavailable(
            _("Cache alias %(alias)s cannot be used: %(reason)s", alias=repr(self.alias), reason=detail(error))
        )

    def _known(self) -> Pipelines | ClusterPipelines | None:
        """Return the connections of the running event loop. Returns None before the first call there."""
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
                # Not caches[alias], which differs between threads. The Redis client of one cache is thread-safe.
                self._cache = caches.create_connection(self.alias)
            except (InvalidCacheBackendError, ImproperlyConfigured, KeyError) as error:
                raise self._unusable(error) from error
        return self._cache


async def _close_with_loop(pipelines: Pipelines | ClusterPipelines) -> AsyncGenerator[None, None]:
    """Close the pipelines when their event loop ends, because loops then close their asynchronous generators."""
    try:
        yield
    finally:
        await pipelines.aclose()
