"""An asyncio connection pool with the configuration of a sync pool: the same server, credentials and time-outs."""

from __future__ import annotations

import inspect
from typing import Any

import redis.asyncio
import redis.asyncio.connection as aio
import redis.asyncio.sentinel as aio_sentinel
import redis.connection as sync
import redis.sentinel as sync_sentinel

from .blocking import with_timeouts

try:
    from redis.maint_notifications import MaintNotificationsConfig
except ImportError:  # before redis-py 7
    MaintNotificationsConfig = None  # type: ignore[assignment, misc]

# No limit of connections, because redis-py raises an error above its limit (100 by default).
UNBOUNDED = 2**31


def async_pool(pool: Any) -> Any:
    """Return a new asyncio pool for the server, credentials, TLS and time-outs of ``pool``. It does not connect yet."""
    if isinstance(pool, sync_sentinel.SentinelConnectionPool):
        return _sentinel_pool(pool)
    connection_class = _twin(pool.connection_class)
    options = _accepted(connection_class, pool.connection_kwargs)
    return redis.asyncio.ConnectionPool(connection_class, max_connections=UNBOUNDED, **options)


async def disconnect(pool: Any) -> None:
    """Close all connections of an asyncio pool, including its connections to Sentinels."""
    await pool.disconnect()
    for sentinel in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()):
        await sentinel.aclose()


def _sentinel_pool(pool: sync_sentinel.SentinelConnectionPool) -> Any:
    manager: Any = pool.sentinel_manager
    addresses = [
        (sentinel.connection_pool.connection_kwargs["host"], sentinel.connection_pool.connection_kwargs["port"])
        for sentinel in manager.sentinels
    ]
    options = _accepted(aio_sentinel.SentinelManagedConnection, pool.connection_kwargs)
    twin = aio_sentinel.Sentinel(  # type: ignore[no-untyped-call]
        addresses,
        min_other_sentinels=manager.min_other_sentinels,
        sentinel_kwargs=_accepted(aio.Connection, manager.sentinel_kwargs),
    )
    return aio_sentinel.SentinelConnectionPool(  # type: ignore[no-untyped-call]
        pool.service_name, twin, is_master=pool.is_master, max_connections=UNBOUNDED, **options
    )


def _twin(connection_class: type) -> Any:
    if issubclass(connection_class, sync.SSLConnection):
        return aio.SSLConnection
    if issubclass(connection_class, sync.UnixDomainSocketConnection):
        return aio.UnixDomainSocketConnection
    return aio.Connection


def _accepted(connection_class: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the asyncio class accepts, without options that work only in sync code."""
    known = {name for base in connection_class.__mro__ for name in inspect.signature(base.__init__).parameters}
    foreign = {"parser_class", "retry", "connection_class", "connection_pool", "redis_connect_func", "event_dispatcher"}
    accepted = {
        name: value
        for name, value in with_timeouts(options).items()
        if name in known - foreign and not name.startswith("maint_notifications")
    }
    if MaintNotificationsConfig is not None and "maint_notifications_config" in known:
        # With these notifications, redis-py does not notice that the server closed an idle connection.
        accepted["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    return accepted
