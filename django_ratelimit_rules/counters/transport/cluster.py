"""Redis Cluster behind a django-redis alias: the connection factory, and the counters' own connections to its servers.

A project names the factory in the alias and some of the cluster's servers as its LOCATION. The site's cache then goes
through redis-py's RedisCluster. Counters do not, because that sends again what it got no reply to, and would count a
call twice: they go to each server by the same means as to a single one, on the way that :mod:`topology` finds.
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
    """How to connect to one server: what a redis-py pool says of it."""

    connection_class: Any
    connection_kwargs: Mapping[str, Any]


class CacheCluster(RedisCluster):
    """The client of the site's cache; ``get_many`` may ask for keys of several servers."""

    def mget(self, keys: Any, *more: Any) -> Any:
        """Return the values of keys, wherever they are."""
        return self.mget_nonatomic(keys, *more)


class ClusterConnectionFactory(ConnectionFactory):  # type: ignore[misc]  # django-redis has no types
    """Connects a django-redis alias to a Redis Cluster: its ``CONNECTION_FACTORY``, or the project's.

    LOCATION lists one server or several; the first that answers tells of all others. One client serves a process.
    """

    _clients: ClassVar[dict[str, CacheCluster]] = {}

    def connect(self, url: str) -> CacheCluster:
        """Return the client of the cluster that a server belongs to. Raises ConnectionInterrupted when none answers."""
        urls = [url, *(other for other in _neighbours(url) if other != url)]
        options = {**self.make_connection_params(url), **self.pool_cls_kwargs, **self.redis_client_cls_kwargs}
        key = repr((sorted(urls), options))
        if key not in self._clients:
            nodes: Any = [ClusterNode(*self._address(other)) for other in urls[1:]]  # type: ignore[no-untyped-call]
            try:
                self._clients[key] = CacheCluster(startup_nodes=nodes, **options)
            except (RedisClusterException, RedisError, OSError) as error:
                # What django-redis expects of a Redis that is away, for the alias to ignore or to raise.
                raise ConnectionInterrupted(connection=None) from RedisConnectionError(str(error))
        return self._clients[key]

    def disconnect(self, connection: CacheCluster) -> None:
        """Close the connections of a client to all servers; it opens new ones when it is used again."""
        connection.disconnect_connection_pools()  # type: ignore[no-untyped-call]

    def connections(self, urls: Sequence[str]) -> ClusterConnections:
        """Return the counters' own connections; nothing connects yet."""
        template = self.get_connection_pool(self.make_connection_params(urls[0]))
        if template.connection_kwargs.get("db"):
            raise ImproperlyConfigured(f"Redis Cluster has no databases: end {urls[0]!r} in /0")
        server = Server(template.connection_class, template.connection_kwargs)
        return ClusterConnections(server, [self._address(url) for url in urls])

    def _address(self, url: str) -> Address:
        options = self.get_connection_pool(self.make_connection_params(url)).connection_kwargs
        if "host" not in options:
            raise ImproperlyConfigured(f"Redis Cluster is reached by host and port, not by {url!r}")
        return options["host"], options.get("port", 6379)


class ClusterConnections:
    """Connections to all servers of a cluster; asked as :class:`Connections` are."""

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
        return drive(self.topology.way(command), self._take)

    def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands one after the other. Raises RedisError or OSError; some may have run then."""
        return [self.ask(*command) for command in commands]

    def servers(self) -> list[Connections]:
        """Return the connections to each master, for what is asked of all."""
        drive(self.topology.known(), self._take)
        return [self._to(address) for address in self.topology.slots.masters()]

    def together(self, keys: Sequence[Key]) -> list[list[Key]]:
        """Return keys in groups that one command may name: those of one slot."""
        groups: dict[int, list[Key]] = {}
        for key in keys:
            groups.setdefault(slot_of(key), []).append(key)
        return list(groups.values())

    def server(self, address: Address) -> Server:
        """Return how to connect to a server: they differ in their addresses only."""
        host, port = address
        return Server(self._server.connection_class, {**self._server.connection_kwargs, "host": host, "port": port})

    def close(self) -> None:
        """Close the idle connections."""
        for connections in list(self._by_address.values()):
            connections.close()

    def _take(self, turn: Send | Wait) -> Any:
        if isinstance(turn, Wait):
            time.sleep(turn.seconds)
            return None
        connections = self._to(turn.address)
        if turn.asking:
            return connections.ask_all([("ASKING",), turn.command])[1]
        return connections.ask(*turn.command)

    def _to(self, address: Address) -> Connections:
        connections = self._by_address.get(address)
        if connections is None:
            self._leave_those_gone()
            connections = self._by_address.setdefault(address, Connections(self.server(address)))
        return connections

    def _leave_those_gone(self) -> None:
        for address in set(self._by_address) - set(self.topology.slots.servers()):
            gone = self._by_address.pop(address, None)
            if gone is not None:
                gone.close()


class ClusterPipelines:
    """The pipelines of one event loop to all servers; what is known of the cluster is shared with all threads."""

    def __init__(self, cluster: ClusterConnections) -> None:
        self._cluster = cluster
        self._by_address: dict[Address, Pipelines] = {}

    async def ask(self, *command: Any) -> Any:
        """Send a command to the server that holds its first key. Raises RedisError or OSError."""
        return await adrive(self._cluster.topology.way(command), self._take)

    async def aclose(self) -> None:
        """Close all connections."""
        while self._by_address:
            _, pipelines = self._by_address.popitem()
            await pipelines.aclose()

    async def _take(self, turn: Send | Wait) -> Any:
        if isinstance(turn, Wait):
            await asyncio.sleep(turn.seconds)
            return None
        pipelines = self._by_address.get(turn.address)
        if pipelines is None:
            pipelines = self._by_address[turn.address] = Pipelines(self._cluster.server(turn.address))
            for gone in set(self._by_address) - {turn.address, *self._cluster.topology.slots.servers()}:
                await self._by_address.pop(gone).aclose()
        if turn.asking:
            return (await pipelines.ask_all([("ASKING",), turn.command]))[1]
        return await pipelines.ask(*turn.command)


def pipelines_of(connections: Connections | ClusterConnections) -> Pipelines | ClusterPipelines:
    """Return the running event loop's connections to where others lead."""
    if isinstance(connections, ClusterConnections):
        return ClusterPipelines(connections)
    return Pipelines(connections.pool)


def connections_of(alias: str, client: Any) -> Connections | ClusterConnections:
    """Return the counters' connections to the Redis of a cache alias; ``client`` is django-redis's client of it."""
    factory = getattr(client, "connection_factory", None)
    if isinstance(factory, ClusterConnectionFactory):
        return factory.connections(_places(caches.settings[alias]["LOCATION"]))
    pool = getattr(client.get_client(write=True), "connection_pool", None)
    if pool is None:
        factory = f"{ClusterConnectionFactory.__module__}.{ClusterConnectionFactory.__qualname__}"
        raise ImproperlyConfigured(
            f"its client has no connection pool; for Redis Cluster, CONNECTION_FACTORY is {factory}"
        )
    return Connections(pool)


def _places(location: str | Sequence[str]) -> list[str]:
    """Return the addresses of a LOCATION, as django-redis reads it."""
    return location.split(",") if isinstance(location, str) else list(location)


def _neighbours(url: str) -> list[str]:
    """Return what stands in a LOCATION together with an address: django-redis shows a factory one at a time."""
    locations = (_places(params.get("LOCATION") or "") for params in caches.settings.values())
    return next((places for places in locations if url in places), [])
