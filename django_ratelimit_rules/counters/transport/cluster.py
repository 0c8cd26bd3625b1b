"""Redis Cluster for a django-redis alias: the connection factory, and the counters' own connections to the servers.

A project names the factory in the alias, and some of the cluster's servers as its LOCATION. The site's cache then uses
redis-py's RedisCluster. Counters do not use it, because it sends a command again if the reply is lost, and would count
a call twice. They connect to each server as to a single Redis, and :mod:`topology` finds the right server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django_redis.exceptions import ConnectionInterrupted
from django_redis.pool import ConnectionFactory
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisClusterException, RedisError

from ...engine.messages import _
from ...runtime.steps import adrive, drive
from .blocking import TIMEOUT, Connections, Key
from .pipelined import Pipelines
from .slots import Address, slot_of
from .topology import (
    Send,
    Topology,
    Wait,
)


@dataclass(frozen=True, slots=True)
class Server:
    """The options by which to connect to one server, with the attributes of a redis-py pool."""

    connection_class: Any
    connection_kwargs: Mapping[str, Any]


class CacheCluster(RedisCluster):
    """The client of the site's cache. Its ``get_many`` accepts keys of several servers."""

    def mget(self, keys: Any, *more: Any) -> Any:
        """Return the values of keys, which may be on several servers."""
        return self.mget_nonatomic(keys, *more)


class ClusterConnectionFactory(ConnectionFactory):  # type: ignore[misc]  # django-redis has no types
    """Connects a django-redis alias to a Redis Cluster, as the ``CONNECTION_FACTORY`` of the alias or of the project.

    LOCATION lists one or more servers. The first server that answers reports all others. One client serves a process.
    """

    _clients: ClassVar[dict[str, CacheCluster]] = {}

    def connect(self, url: str) -> CacheCluster:
        """Return the client of a server's cluster. Raises ConnectionInterrupted if no server answers."""
        urls = [url, *(other for other in _neighbours(url) if other != url)]
        options = {**self.make_connection_params(url), **self.pool_cls_kwargs, **self.redis_client_cls_kwargs}
        key = repr((sorted(urls), options))
        if key not in self._clients:
            nodes: Any = [ClusterNode(*self._address(other)) for other in urls[1:]]  # type: ignore[no-untyped-call]
            try:
                self._clients[key] = CacheCluster(startup_nodes=nodes, **options)
            except (RedisClusterException, RedisError, OSError) as error:
                # django-redis expects this exception for an unreachable Redis. It ignores or raises the exception,
                # as the options of the alias say.
                raise ConnectionInterrupted(connection=None) from RedisConnectionError(str(error))
        return self._clients[key]

    def disconnect(self, connection: CacheCluster) -> None:
        """Close the connections of a client to all servers. The next use opens new connections."""
        connection.disconnect_connection_pools()  # type: ignore[no-untyped-call]

    def connections(self, urls: Sequence[str]) -> ClusterConnections:
        """Return the counters' own connections. They do not connect yet."""
        template = self.get_connection_pool(self.make_connection_params(urls[0]))
        if template.connection_kwargs.get("db"):
            raise ImproperlyConfigured(
                _("Redis Cluster has no databases other than 0. The address %(url)s must end in /0", url=repr(urls[0]))
            )
        server = Server(template.connection_class, template.connection_kwargs)
        return ClusterConnections(server, [self._address(url) for url in urls])

    def _address(self, url: str) -> Address:
        options = self.get_connection_pool(self.make_connection_params(url)).connection_kwargs
        if "host" not in options:
            raise ImproperlyConfigured(
                _("Redis Cluster needs an address with host and port, not %(url)s", url=repr(url))
            )
        return options["host"], options.get("port", 6379)


class ClusterConnections:
    """Connections to all servers of a cluster, with the methods of :class:`Connections`."""

    def __init__(self, server: Server, startup: Sequence[Address]) -> None:
        self._server = server
        self._by_address: dict[Address, Connections] = {}
        options = server.connection_kwargs
        user, password = (options.get(name) for name in ("username", "password"))
        credentials = ["AUTH2", user, password] if user else ["AUTH", password] if password else []
        patience = min(options.get("socket_timeout") or TIMEOUT, TIMEOUT)
        self.topology = Topology(startup, patience, credentials)

    def ask(self, *command: Any) -> Any:
        """Send a command to the server that holds its first key. Raises RedisError or OSError."""
        return drive(self.topology.sending(command), self._take)

    def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands one after the other. Raises RedisError or OSError. Then some commands may have run."""
        return [self.ask(*command) for command in commands]

    def servers(self) -> list[Connections]:
        """Return the connections to each master, for commands that every master has to run."""
        drive(self.topology.loading(), self._take)
        return [self._to(address) for address in self.topology.slots.masters()]

    def together(self, keys: Sequence[Key]) -> list[list[Key]]:
        """Return the keys in groups by slot. One command may name the keys of one group."""
        groups: dict[int, list[Key]] = {}
        for key in keys:
            groups.setdefault(slot_of(key), []).append(key)
        return list(groups.values())

    def server(self, address: Address) -> Server:
        """Return the options by which to connect to a server. The servers differ only in their addresses."""
        host, port = address
        return Server(self._server.connection_class, {**self._server.connection_kwargs, "host": host, "port": port})

    def close(self) -> None:
        """Close the idle connections."""
        for connections in list(self._by_address.values()):
            connections.close()

    def _take(self, step: Send | Wait) -> Any:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        connections = self._to(step.address)
        if step.asking:
            return connections.ask_all([("ASKING",), step.command])[1]
        return connections.ask(*step.command)

    def _to(self, address: Address) -> Connections:
        connections = self._by_address.get(address)
        if connections is None:
            self._close_removed()
            connections = self._by_address.setdefault(address, Connections(self.server(address)))
        return connections

    def _close_removed(self) -> None:
        """Close the connections to servers that have left the cluster."""
        for address in set(self._by_address) - set(self.topology.slots.servers()):
            gone = self._by_address.pop(address, None)
            if gone is not None:
                gone.close()


class ClusterPipelines:
    """The pipelines of one event loop to all servers. The topology of the cluster is shared with all threads."""

    def __init__(self, cluster: ClusterConnections) -> None:
        self._cluster = cluster
        self._by_address: dict[Address, Pipelines] = {}

    async def ask(self, *command: Any) -> Any:
        """Send a command to the server that holds its first key. Raises RedisError or OSError."""
        return await adrive(self._cluster.topology.sending(command), self._take)

    async def aclose(self) -> None:
        """Close all connections."""
        while self._by_address:
            _address, pipelines = self._by_address.popitem()
            await pipelines.aclose()

    async def _take(self, step: Send | Wait) -> Any:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        pipelines = self._by_address.get(step.address)
        if pipelines is None:
            pipelines = self._by_address[step.address] = Pipelines(self._cluster.server(step.address))
            for gone in set(self._by_address) - {step.address, *self._cluster.topology.slots.servers()}:
                await self._by_address.pop(gone).aclose()
        if step.asking:
            return (await pipelines.ask_all([("ASKING",), step.command]))[1]
        return await pipelines.ask(*step.command)


def pipelines_of(connections: Connections | ClusterConnections) -> Pipelines | ClusterPipelines:
    """Return the running event loop's connections to the same servers as blocking connections."""
    if isinstance(connections, ClusterConnections):
        return ClusterPipelines(connections)
    return Pipelines(connections.pool)


def connections_of(alias: str, client: Any) -> Connections | ClusterConnections:
    """Return the counters' connections to the Redis of a cache alias. ``client`` is the alias's django-redis client."""
    factory = getattr(client, "connection_factory", None)
    if isinstance(factory, ClusterConnectionFactory):
        return factory.connections(_places(caches.settings[alias]["LOCATION"]))
    pool = getattr(client.get_client(write=True), "connection_pool", None)
    if pool is None:
        factory = f"{ClusterConnectionFactory.__module__}.{ClusterConnectionFactory.__qualname__}"
        raise ImproperlyConfigured(
            _(
                "Its client has no connection pool. For Redis Cluster, set CONNECTION_FACTORY to %(factory)s",
                factory=factory,
            )
        )
    return Connections(pool)


def _places(location: str | Sequence[str]) -> list[str]:
    """Return the addresses in a LOCATION, as django-redis splits it."""
    return location.split(",") if isinstance(location, str) else list(location)


def _neighbours(url: str) -> list[str]:
    """Return all addresses of the LOCATION that has this address, because django-redis passes only one to a factory."""
    locations = (_places(params.get("LOCATION") or "") for params in caches.settings.values())
    return next((places for places in locations if url in places), [])
