"""Counters in Redis, over a django-redis cache alias: one EVALSHA for a whole chain of hits.

Hits go in, tallies come out; whatever goes wrong on the way becomes CountersUnavailable.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import struct
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from django.core.cache import InvalidCacheBackendError, caches
from django.core.cache.backends.base import default_key_func
from django.core.exceptions import ImproperlyConfigured
from redis.exceptions import NoScriptError, RedisError

from ..conf import settings
from ..engine import Algorithm, Hit, Hits, Tally
from ..engine.plans import Terms, new_tuple
from ..engine.results import Number
from ..exceptions import CountersUnavailable
from . import CHARGE, CHECK, PEEK, Verb
from .breaker import Breaker
from .cluster import ClusterConnections, ClusterPipelines, connections_of, pipelines_of
from .connections import Connections, is_sick
from .pipeline import Pipelines
from .topology import ServerUnavailable

SCRIPT = files(__package__).joinpath("hit.lua").read_bytes()
SHA = hashlib.sha1(SCRIPT, usedforsecurity=False).hexdigest()

_ALGORITHMS = {Algorithm.FIXED_WINDOW: 0, Algorithm.SLIDING_WINDOW: 1, Algorithm.TOKEN_BUCKET: 2}
_DISTINCT, _ENFORCED, _LOOKED = 3, 4, 8
_VERBS = {CHECK: 0, PEEK: 1, CHARGE: 2}
_CALL, _HIT = struct.Struct("<Bdd"), struct.Struct("<Bddd")
REVISION_SECONDS = 60
COMMANDS_AT_ONCE = 500
ENTRIES_AT_ONCE = 2000
COUNTERS_AT_ONCE = 200
FAILURES = (RedisError, OSError, ValueError, asyncio.TimeoutError)


class RedisCounters:
    """Counters of one cache alias; thread-safe, one for the process. See Counters for the contract."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.breaker = Breaker()
        self._cache: Any = None
        self._connections: Connections | ClusterConnections | None = None
        self._pipelines: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def hit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = CHECK, missed: Number = 0) -> list[Tally]:
        """Count one call in a chain of hits; see Counters. Raises CountersUnavailable.

        ``missed`` is added to the count of the first counter if that one is still there: see denials.py.
        """
        self._enter()
        try:
            arguments = self._arguments(hits, cost, verb, missed)
            connections = self._connect()
            try:
                reply = connections.ask("EVALSHA", SHA, *arguments)
            except NoScriptError:
                # Nothing ran, so nothing was counted; EVAL puts the script back for the calls to come.
                reply = connections.ask("EVAL", SCRIPT, *arguments)
            tallies = _tallies(reply)
        except FAILURES as error:
            raise self._failed(error) from error
        self.breaker.worked()
        return tallies

    async def ahit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = CHECK, missed: Number = 0) -> list[Tally]:
        """As :meth:`hit`, waiting on the running event loop, on a connection of that loop."""
        self._enter()
        try:
            arguments = self._arguments(hits, cost, verb, missed)
            connections = self._known() or await self._aconnect()
            try:
                reply = await connections.ask("EVALSHA", SHA, *arguments)
            except NoScriptError:
                reply = await connections.ask("EVAL", SCRIPT, *arguments)
            tallies = _tallies(reply)
        except FAILURES as error:
            raise self._failed(error) from error
        self.breaker.worked()
        return tallies

    def reset(self, keys: Iterable[str]) -> int:
        """Forget counters; return how many there were. Raises CountersUnavailable."""
        names = self._names(keys)
        return int(self._run("DEL", *names)) if names else 0

    async def areset(self, keys: Iterable[str]) -> int:
        """As :meth:`reset`, waiting on the running event loop."""
        names = self._names(keys)
        return int(await self._arun("DEL", *names)) if names else 0

    def clear(self, limiter: str | None = None) -> int:
        """Forget all counters of one limiter, or of this app, by SCAN; return how many. For tests and operators.

        Raises CountersUnavailable. A Redis that did this is left alone no longer.
        """
        removed = sum(self._forget(keys) for keys, _ in self._scan(limiter))
        self.breaker.worked()
        return removed

    def revision(self) -> str | None:
        """Return what stands for the latest rule change that any process announced, None when there is no news."""
        reply = self._aside("GET", self.namespace() + ":revision")
        return None if reply is None else bytes(reply).decode(errors="replace")

    def announce(self) -> None:
        """Tell every process that rules changed."""
        self._aside("SET", self.namespace() + ":revision", uuid4().hex, "EX", REVISION_SECONDS)

    def put(self, name: str, value: str, seconds: int) -> None:
        """Keep a text beside the counters for some seconds. Raises CountersUnavailable."""
        self._aside("SET", f"{self.namespace()}:{name}", value, "EX", seconds)

    async def aput(self, name: str, value: str, seconds: int) -> None:
        """As :meth:`put`, waiting on the running event loop."""
        try:
            await (await self._aconnect()).ask("SET", f"{self.namespace()}:{name}", value, "EX", seconds)
        except FAILURES as error:
            raise CountersUnavailable(f"Redis of cache alias {self.alias!r} failed: {error}") from error

    def fetch(self, name: str) -> bytes | None:
        """Return what :meth:`put` kept, None when there is nothing. Raises CountersUnavailable."""
        reply: bytes | None = self._aside("GET", f"{self.namespace()}:{name}")
        return reply

    def add(self, sums: Mapping[str, Mapping[str, int]], seconds: int) -> None:
        """Add numbers to the fields of hashes beside the counters, each kept for some seconds from now on, in one go.

        Raises CountersUnavailable.
        """
        commands: list[tuple[Any, ...]] = []
        for name, fields in sums.items():
            key = f"{self.namespace()}:{name}"
            commands += [("HINCRBY", key, field, number) for field, number in fields.items()]
            commands.append(("EXPIRE", key, seconds))
        self._aside_all(commands)

    def added(self, names: Sequence[str]) -> list[dict[bytes, bytes]]:
        """Return the hashes that :meth:`add` made, as they stand there. Raises CountersUnavailable."""
        replies = self._aside_all([("HGETALL", f"{self.namespace()}:{name}") for name in names])
        return [_pairs(reply) for reply in replies]

    def mark(self, members: Mapping[str, Sequence[str]], now: int, seconds: int, most: int) -> None:
        """Put texts into sets beside the counters, each kept for some seconds from ``now`` on, a POSIX time; of more
        than ``most`` in one set the latest. Raises CountersUnavailable."""
        commands: list[tuple[Any, ...]] = []
        for name, texts in members.items():
            key = f"{self.namespace()}:{name}"
            scored = [part for text in texts for part in (now, text)]
            commands += [("ZADD", key, *scored), ("ZREMRANGEBYSCORE", key, "-inf", now - seconds)]
            commands += [("ZREMRANGEBYRANK", key, 0, -most - 1), ("EXPIRE", key, seconds)]
        self._aside_all(commands)

    def marked(self, names: Sequence[str], since: int) -> list[int]:
        """Return how many texts :meth:`mark` put into sets after a POSIX time. Raises CountersUnavailable."""
        counts = [("ZCOUNT", f"{self.namespace()}:{name}", f"({since}", "+inf") for name in names]
        return [int(reply) for reply in self._aside_all(counts)]

    def log(self, name: str, entries: Iterable[str], most: int, seconds: int) -> None:
        """Add texts to a stream beside the counters, which holds ``most`` of them or a few more, for some seconds from
        now on. Raises CountersUnavailable."""
        key = f"{self.namespace()}:{name}"
        commands: list[tuple[Any, ...]] = [("XADD", key, "MAXLEN", "~", most, "*", "r", entry) for entry in entries]
        self._aside_all([*commands, ("EXPIRE", key, seconds)])

    def logged(self, name: str) -> Iterator[list[bytes]]:
        """Yield what :meth:`log` keeps, the oldest first, some at a time. Raises CountersUnavailable."""
        start = b"-"
        while replies := self._aside("XRANGE", f"{self.namespace()}:{name}", start, "+", "COUNT", ENTRIES_AT_ONCE):
            yield [fields[1] for _, fields in replies]
            start = b"(" + replies[-1][0]

    def logged_size(self, name: str) -> int:
        """Return how many texts :meth:`log` keeps. Raises CountersUnavailable."""
        return int(self._aside("XLEN", f"{self.namespace()}:{name}"))

    def memory(self) -> dict[str, str]:
        """Return what this Redis, or one server of the cluster, says of its memory. Raises CountersUnavailable."""
        lines = bytes(self._aside("INFO", "memory")).decode(errors="replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def keys(self, limiter: str, most: int, rounds: int = 100) -> tuple[list[str], bool]:
        """Return the keys of some counters of a limiter, and whether they are all. Raises CountersUnavailable.

        Each round looks at a thousand keys or so of that Redis, whoever they belong to.
        """
        namespace = self.namespace().encode()
        found: dict[str, None] = {}
        complete = False
        for _, (keys, last) in zip(range(rounds), self._scan(limiter), strict=False):
            found.update((key[len(namespace) :].decode(errors="replace"), None) for key in keys)
            complete = last and len(found) <= most
            if len(found) > most:
                break
        return list(found)[:most], complete

    def look(self, hits: Sequence[Hit]) -> list[tuple[Hit, Tally]]:
        """Return what counters of different calls say, some hundred in one go where they lie together; write nothing.

        Raises CountersUnavailable.
        """
        namespace = self.namespace()
        by_key = {namespace + hit.key: hit for hit in hits}
        found: list[tuple[Hit, Tally]] = []
        for group in self._connect().together(list(by_key)):
            for start in range(0, len(group), COUNTERS_AT_ONCE):
                chunk = [by_key[key] for key in group[start : start + COUNTERS_AT_ONCE]]
                found += zip(chunk, self.hit(chunk, 0, Verb.PEEK), strict=True)
        return found

    def namespace(self) -> str:
        """Return what every key of this app begins with: the alias's own prefix and version, then KEY_PREFIX."""
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

    def begin_anew(self) -> None:
        """Leave to the parent what is its own: called in a forked child."""
        # A thread of the parent's may have held the breaker's lock.
        self.breaker = Breaker()

    def close(self) -> None:
        """Close idle connections; the next call opens new ones."""
        if self._connections is not None:
            self._connections.close()

    def _arguments(self, hits: Sequence[Hit], cost: Number, verb: Verb, missed: Number) -> list[Any]:
        """Return what follows the script: the number of keys, the keys, and the arguments that hit.lua describes."""
        if type(hits) is not Hits:
            hits = Hits.of(hits)
        namespace = self.namespace()
        chain = hits.chain
        if chain is None or chain.terms is None or verb is CHARGE:
            packed = b"".join(_packed(hits.terms, verb))
        else:
            packed = chain.wire
            if packed is None:
                packed = chain.wire = b"".join(_packed(hits.terms, verb))
        arguments = [
            len(hits.keys),
            *[namespace + key for key in hits.keys],
            _CALL.pack(_VERBS[verb], cost, missed) + packed,
        ]
        if hits.members is not None:
            arguments += ["" if member is None else member for member in hits.members]
        return arguments

    def _names(self, keys: Iterable[str]) -> list[str]:
        namespace = self.namespace()
        return [namespace + key for key in dict.fromkeys(keys)]

    def _enter(self) -> None:
        """Leave a failing Redis alone for a while."""
        pause = self.breaker.pause()
        if pause:
            raise CountersUnavailable(
                f"Redis of cache alias {self.alias!r} is left alone after a failure", retry_after=pause
            )

    def _failed(self, error: Exception) -> CountersUnavailable:
        """Note a failure; return what to raise. What ails one key or one script is no reason to leave Redis alone."""
        if isinstance(error, ServerUnavailable):
            # One of a cluster, which has a breaker of its own.
            pause = error.retry_after
        else:
            pause = self.breaker.failed() if is_sick(error) else 0.0
        return CountersUnavailable(
            f"Redis of cache alias {self.alias!r} failed: {type(error).__name__}: {error}", retry_after=pause
        )

    def _scan(self, limiter: str | None) -> Iterator[tuple[list[bytes], bool]]:
        """Yield the keys of one limiter's counters, or of all, from all servers: a round of SCAN at a time, and whether
        those were the last. Raises CountersUnavailable.
        """
        namespace = self.namespace()
        pattern = _glob_escape(namespace + "{") + ("*" if limiter is None else f"{limiter}[}}|]*")
        try:
            servers = self._connect().servers()
            for number, server in enumerate(servers, start=1):
                cursor = b"0"
                while True:
                    cursor, keys = server.ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
                    # With an empty KEY_PREFIX the pattern alone could meet keys of others.
                    ours = [key for key in keys if _OURS.match(key, len(namespace.encode()))]
                    yield ours, int(cursor) == 0 and number == len(servers)
                    if int(cursor) == 0:
                        break
        except FAILURES as error:
            raise CountersUnavailable(f"Redis of cache alias {self.alias!r} failed: {error}") from error

    def _forget(self, keys: Sequence[bytes]) -> int:
        return sum(int(self._aside("DEL", *group)) for group in self._connect().together(keys))

    def _aside(self, *arguments: Any) -> Any:
        """Run a command that says nothing about whether counting works: the breaker neither stops nor hears of it."""
        try:
            return self._connect().ask(*arguments)
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

    def _run(self, *arguments: Any) -> Any:
        """Run a command through the breaker."""
        self._enter()
        try:
            reply = self._connect().ask(*arguments)
        except FAILURES as error:
            raise self._failed(error) from error
        self.breaker.worked()
        return reply

    async def _arun(self, *arguments: Any) -> Any:
        self._enter()
        try:
            reply = await (await self._aconnect()).ask(*arguments)
        except FAILURES as error:
            raise self._failed(error) from error
        self.breaker.worked()
        return reply

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


def _packed(terms: Iterable[Terms], verb: Verb) -> Iterable[bytes]:
    for rule, limit, period, enforced, looked, _ in terms:
        kind = _ALGORITHMS[rule.algorithm] if rule.count_distinct is None else _DISTINCT
        kind += (_ENFORCED if enforced else 0) + (_LOOKED if looked and verb is not CHARGE else 0)
        yield _HIT.pack(kind, limit, period * 1000, (rule.ban_for or 0) * 1000)


def _tallies(reply: list[Any]) -> list[Tally]:
    """Return what the script said, which its header describes."""
    if reply[0] >= 0:
        pairs = iter(reply)
        return [
            new_tuple(Tally, (used, used, False, False, reset, 0)) for used, reset in zip(pairs, pairs, strict=True)
        ]
    if len(reply) == 6 and reply[0] == -1:
        # One counter: most refusals.
        _, used, count, state, reset, retry = reply
        return [new_tuple(Tally, (used, count, state > 0, state == 2, reset, retry))]
    if reply[0] == -2:
        reply = [_number(part) if type(part) is bytes else part for part in reply]
    fives = (reply[at : at + 5] for at in range(1, len(reply), 5))
    return [
        new_tuple(Tally, (used, count, state > 0, state == 2, int(reset), int(retry)))
        for used, count, state, reset, retry in fives
    ]


def _pairs(reply: Any) -> dict[bytes, bytes]:
    # A dictionary in RESP3, a flat list before.
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def _number(text: bytes) -> Number:
    number = float(text)
    return int(number) if number.is_integer() else number


def _glob_escape(text: str) -> str:
    return "".join(f"\\{character}" if character in r"*?[]\^-" else character for character in text)


_OURS = re.compile(rb"\{[a-z][a-z0-9_]*(?:\|[^{}]*)?\}(?:[A-Za-z0-9_-]{5}|[A-Za-z0-9_-]{15}):")
