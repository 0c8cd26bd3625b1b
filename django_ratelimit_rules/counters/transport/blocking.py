"""Connections to the Redis of a cache alias, driven one command at a time.

Commands go in, replies come out. redis-py makes each connection (address, credentials, TLS, time-outs, Sentinel), then
its socket is read and written here with hiredis: that takes a third of the time of redis-py's own command path, and
sends nothing twice. redis-py's retry would count a call again whose answer was lost.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError

from ...runtime import reset

CHUNK = 65536
# What Redis answers when it cannot count for anybody; other errors concern one key or call.
SICK = (
    *("OOM", "READONLY", "LOADING", "NOAUTH", "WRONGPASS", "NOPERM", "BUSY", "MISCONF", "NOREPLICAS"),
    *("CLUSTERDOWN", "MASTERDOWN"),
)
# What a cluster's server answers for a slot that is elsewhere, or on the way there.
ELSEWHERE = ("MOVED", "ASK", "TRYAGAIN")
# For an alias that states none: a Redis that hangs must not hang the site.
TIMEOUT = 1.0
# How many time-outs the replies to many commands may take together.
TIMES_FOR_MANY = 10
INCOMPLETE = object()

Key = TypeVar("Key", str, bytes)


class NothingRan(ResponseError):
    """Say that a cluster's server did not run a command; ``word`` says why, ``place`` where to ask instead."""

    def __init__(self, text: str) -> None:
        self.word, _, rest = text.partition(" ")
        self.place = rest.rpartition(" ")[2]
        super().__init__(text)


# Errors after which a connection is as good as before.
NOTHING_AMISS = (NoScriptError, NothingRan)


def error_of(reply: Exception) -> ResponseError:
    """Return what to raise for an error that Redis replied."""
    text = str(reply)
    word = text.partition(" ")[0]
    if word == "NOSCRIPT":
        return NoScriptError(text)
    return NothingRan(text) if word in ELSEWHERE else ResponseError(text)


def is_sick(error: Exception) -> bool:
    """Whether an error is a reason to leave a server alone, for what ails one key or one script is none."""
    return not isinstance(error, ResponseError) or any(word in str(error) for word in SICK)


def with_timeouts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pool's connection options with time-outs, those of the alias where it has any."""
    stated = {name: options.get(name) or TIMEOUT for name in ("socket_timeout", "socket_connect_timeout")}
    return {**options, **stated}


class Connection:
    """One connection, connected. Not safe between threads; whoever took it owns it."""

    __slots__ = ("__weakref__", "_poll", "_reader", "_redis", "_socket", "_timeout")

    def __init__(self, pool: Any) -> None:
        # Not one of the pool's own: those may be bounded, and the site's cache needs them.
        options = with_timeouts(pool.connection_kwargs)
        self._timeout: float = options["socket_timeout"]
        try:
            self._redis = pool.connection_class(**options)
        except TypeError as error:
            raise RedisConnectionError(f"an option of the alias is none: {error}") from error
        thread = threading.get_ident()
        sockets.connecting.add(thread)
        try:
            _connect_in_time(self._redis, options["socket_connect_timeout"] + self._timeout)
            sockets.open.add(self)
        finally:
            sockets.connecting.discard(thread)
        self._socket = self._redis._sock
        _let_the_kernel_time(self._socket)
        self._reader = hiredis.Reader(notEnoughData=INCOMPLETE)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def is_quiet(self) -> bool:
        """Whether the server has neither closed the connection nor said anything unasked."""
        return not self._poll.poll(0)

    def ask(self, command: tuple[Any, ...]) -> Any:
        """Send a command and return its reply. Raises RedisError or OSError; then the connection is spent."""
        self._socket.sendall(hiredis.pack_command(command))
        reader = self._reader
        give_up_at = None
        while True:
            received = self._socket.recv(CHUNK)
            if not received:
                raise RedisConnectionError("Redis closed the connection")
            reader.feed(received)
            reply = reader.gets()
            while isinstance(reply, hiredis.PushNotification):
                reply = reader.gets()
            if reply is INCOMPLETE:
                # Each receive has its time-out; the pieces of a reply together have one more.
                give_up_at = give_up_at or time.monotonic() + self._timeout
                if time.monotonic() > give_up_at:
                    raise RedisConnectionError("Redis did not answer in time")
                continue
            if isinstance(reply, hiredis.ReplyError):
                raise error_of(reply)
            return reply

    def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands in one go and return their replies; as :meth:`ask`, and an error of one is raised."""
        self._socket.sendall(b"".join(map(hiredis.pack_command, commands)))
        # Many replies may take long to come; not for ever, though.
        give_up_at = time.monotonic() + TIMES_FOR_MANY * self._timeout
        replies: list[Any] = []
        while len(replies) < len(commands):
            reply = self._reader.gets()
            if reply is INCOMPLETE:
                if time.monotonic() > give_up_at:
                    raise RedisConnectionError("Redis did not answer in time")
                received = self._socket.recv(CHUNK)
                if not received:
                    raise RedisConnectionError("Redis closed the connection")
                self._reader.feed(received)
            elif isinstance(reply, hiredis.ReplyError):
                raise error_of(reply)
            elif not isinstance(reply, hiredis.PushNotification):
                replies.append(reply)
        return replies

    def close(self) -> None:
        """Close it; in a forked child only the child's end."""
        self._redis.disconnect()


def _connect_in_time(connection: Any, seconds: float) -> None:
    """Connect and sign in. redis-py bounds each receive of that, and this all of them together: a server that answers a
    byte at a time would take minutes to say who it is. Raises RedisError or OSError."""

    def give_up() -> None:
        if connection._sock is not None:
            with suppress(OSError):
                connection._sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    # A process that gets no more threads, or is ending, connects without.
    with suppress(RuntimeError):
        timer.start()
    try:
        connection.connect()
    finally:
        timer.cancel()


def _let_the_kernel_time(connected: Any) -> None:
    """Give a plain socket its time-out in the kernel: Python's own asks poll() before each send and receive."""
    seconds = connected.gettimeout()
    # Not one of TLS, nor of gevent, which never lets the kernel wait.
    plain = type(connected) is socket.socket and socket.socket.__module__ == "socket" and os.name == "posix"
    if plain and seconds:
        bound = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bound)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)
        connected.settimeout(None)


class Connections:
    """The idle connections to one server in this process: as many as threads ever asked at the same time.

    ``pool`` says how to connect to it.
    """

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self._idle: deque[Connection] = deque()
        sockets.idle.add(self)

    def ask(self, *command: Any) -> Any:
        """Send a command on a connection of its own and return the reply. Raises RedisError or OSError."""
        connection = self._take()
        try:
            reply = connection.ask(command)
        except NOTHING_AMISS:
            self._idle.append(connection)
            raise
        except BaseException:
            # A reply may still be on its way, or the server may be the wrong one by now (READONLY): start afresh.
            connection.close()
            raise
        self._idle.append(connection)
        return reply

    def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands in one go and return their replies. Raises RedisError or OSError; some may have run then."""
        connection = self._take()
        try:
            replies = connection.ask_all(commands)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return replies

    def servers(self) -> list[Connections]:
        """Return the connections to each server that has keys: there is one."""
        return [self]

    def together(self, keys: Sequence[Key]) -> list[list[Key]]:
        """Return keys in groups that one command may name."""
        return [list(keys)] if keys else []

    def _take(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return Connection(self.pool)
            if connection.is_quiet():
                return connection
            connection.close()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    # A thread may have put one back since the others were closed.
    __del__ = close


class Sockets(reset.Part):
    """The connections of this process, and the threads that are making one now."""

    def __init__(self) -> None:
        self.idle: weakref.WeakSet[Connections] = weakref.WeakSet()
        self.open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.connecting: set[int] = set()

    def before_fork(self) -> None:
        """Wait a moment for connections that are being made, because a child can close only those it knows of."""
        deadline = time.monotonic() + 0.1
        while self.connecting and time.monotonic() < deadline:
            time.sleep(0.001)

    def after_fork(self) -> None:
        """Close the parent's connections.

        A child that used its parent's sockets would read the parent's replies. A child that kept them open would keep
        the server from noticing that the parent has gone.
        """
        self.connecting.clear()
        for connections in list(self.idle):
            connections.close()
        # Those that other threads were using, too.
        for connection in list(self.open):
            connection.close()


sockets = reset.register("counters.transport.blocking", Sockets())
