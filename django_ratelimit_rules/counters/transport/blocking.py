"""Blocking connections to the Redis of a cache alias, one command at a time.

Commands go in, replies come out. redis-py makes each connection (address, credentials, TLS, time-outs, Sentinel). Then
this module reads and writes the socket with hiredis. That takes a third of the time of redis-py's own command path. It
also never sends a command twice: redis-py's retry after a lost reply would count a call again.
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

from ...engine.messages import Message, _
from ...runtime import reset

# Bytes to receive at once.
CHUNK = 65536
# Error codes of a Redis that cannot count any call. Other errors concern one key or call.
OUTAGES = (
    *("OOM", "READONLY", "LOADING", "NOAUTH", "WRONGPASS", "NOPERM", "BUSY", "MISCONF", "NOREPLICAS"),
    *("CLUSTERDOWN", "MASTERDOWN"),
)
# Error codes of a cluster's server for a slot that another server holds or is about to hold.
REDIRECTIONS = ("MOVED", "ASK", "TRYAGAIN")
# Seconds, for an alias without time-outs, because a Redis that hangs must not hang the site.
TIMEOUT = 1.0
# The replies to several commands may together take this number of time-outs.
TIMEOUTS_OF_BATCH = 10
INCOMPLETE = object()

CLOSED = _("Redis closed the connection")
TOO_SLOW = _("Redis did not answer in time")

Key = TypeVar("Key", str, bytes)


class NothingRan(ResponseError):
    """A cluster's server did not run a command. ``word`` is the error code, ``place`` the address of another server."""

    def __init__(self, text: str) -> None:
        self.word, _space, rest = text.partition(" ")
        self.place = rest.rpartition(" ")[2]
        super().__init__(text)


# Errors after which the connection can be used again.
HARMLESS = (NoScriptError, NothingRan)


def error_of(reply: Exception) -> ResponseError:
    """Return the exception to raise for an error reply of Redis."""
    text = str(reply)
    word = text.partition(" ")[0]
    if word == "NOSCRIPT":
        return NoScriptError(text)
    return NothingRan(text) if word in REDIRECTIONS else ResponseError(text)


def is_outage(error: Exception) -> bool:
    """Return whether an error means that the server is failing. An error of one key or one script does not."""
    return not isinstance(error, ResponseError) or any(word in str(error) for word in OUTAGES)


def detail(error: Exception) -> str:
    """Return the class and the message of an error. A message that this app wrote can still be translated."""
    kind = type(error).__name__
    message = error.args[0] if error.args and isinstance(error.args[0], Message) else str(error)
    return _("%(kind)s: %(message)s", kind=kind, message=message) if message else kind


def with_timeouts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pool's connection options with time-outs in seconds: the alias's own, or the defaults."""
    timeouts = {name: options.get(name) or TIMEOUT for name in ("socket_timeout", "socket_connect_timeout")}
    return {**options, **timeouts}


class Connection:
    """An open connection. It is not thread-safe. The caller that took it owns it."""

    __slots__ = ("__weakref__", "_poll", "_reader", "_redis", "_socket", "_timeout")

    def __init__(self, pool: Any) -> None:
        # Not a connection from the pool: the pool may be bounded, and the site's cache needs its connections.
        options = with_timeouts(pool.connection_kwargs)
        self._timeout: float = options["socket_timeout"]
        try:
            self._redis = pool.connection_class(**options)
        except TypeError as error:
            raise RedisConnectionError(
                _("redis-py rejected an option of the alias: %(error)s", error=str(error))
            ) from error
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
        """Return whether the server has neither closed the connection nor sent data without a request."""
        return not self._poll.poll(0)

    def ask(self, command: tuple[Any, ...]) -> Any:
        """Send a command and return its reply. Raises RedisError or OSError. Then the connection cannot be reused."""
        self._socket.sendall(hiredis.pack_command(command))
        reader = self._reader
        give_up_at = None
        while True:
            received = self._socket.recv(CHUNK)
            if not received:
                raise RedisConnectionError(CLOSED)
            reader.feed(received)
            reply = reader.gets()
            while isinstance(reply, hiredis.PushNotification):
                reply = reader.gets()
            if reply is INCOMPLETE:
                # Each receive has its own time-out. The parts of one reply together have one more.
                give_up_at = give_up_at or time.monotonic() + self._timeout
                if time.monotonic() > give_up_at:
                    raise RedisConnectionError(TOO_SLOW)
                continue
            if isinstance(reply, hiredis.ReplyError):
                raise error_of(reply)
            return reply

    def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands in one write and return their replies. One failed command raises as :meth:`ask`."""
        self._socket.sendall(b"".join(map(hiredis.pack_command, commands)))
        # Many replies may take longer than one, but the wait must end.
        give_up_at = time.monotonic() + TIMEOUTS_OF_BATCH * self._timeout
        replies: list[Any] = []
        while len(replies) < len(commands):
            reply = self._reader.gets()
            if reply is INCOMPLETE:
                if time.monotonic() > give_up_at:
                    raise RedisConnectionError(TOO_SLOW)
                received = self._socket.recv(CHUNK)
                if not received:
                    raise RedisConnectionError(CLOSED)
                self._reader.feed(received)
            elif isinstance(reply, hiredis.ReplyError):
                raise error_of(reply)
            elif not isinstance(reply, hiredis.PushNotification):
                replies.append(reply)
        return replies

    def close(self) -> None:
        """Close the connection. A forked child closes only its own end."""
        self._redis.disconnect()


def _connect_in_time(connection: Any, seconds: float) -> None:
    """Connect and authenticate within some seconds. Raises RedisError or OSError.

    redis-py bounds each receive, and this function bounds them together. Otherwise a server that sends one byte at a
    time could take minutes.
    """

    def give_up() -> None:
        if connection._sock is not None:
            with suppress(OSError):
                connection._sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    # A process that cannot start a thread, or is ending, connects without this bound.
    with suppress(RuntimeError):
        timer.start()
    try:
        connection.connect()
    finally:
        timer.cancel()


def _let_the_kernel_time(connected: Any) -> None:
    """Move the time-out of a plain socket to the kernel.

    Python's own time-out costs a call of poll() before each send and receive. TLS sockets keep Python's time-out, and
    so do gevent's sockets, because gevent never lets the kernel wait.
    """
    seconds = connected.gettimeout()
    plain = type(connected) is socket.socket and socket.socket.__module__ == "socket" and os.name == "posix"
    if plain and seconds:
        bound = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bound)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)
        connected.settimeout(None)


class Connections:
    """The idle connections to one server in this process. Their number is the highest number of concurrent threads.

    ``pool`` is a redis-py pool whose options make new connections.
    """

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self._idle: deque[Connection] = deque()
        sockets.idle.add(self)

    def ask(self, *command: Any) -> Any:
        """Send a command on an idle or new connection and return the reply. Raises RedisError or OSError."""
        connection = self._take()
        try:
            reply = connection.ask(command)
        except HARMLESS:
            self._idle.append(connection)
            raise
        except BaseException:
            # Drop the connection: the reply may still arrive, or the server is no longer the master (READONLY).
            connection.close()
            raise
        self._idle.append(connection)
        return reply

    def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands in one write and return their replies.

        Raises RedisError or OSError. Then some commands may have run.
        """
        connection = self._take()
        try:
            replies = connection.ask_all(commands)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return replies

    def servers(self) -> list[Connections]:
        """Return the connections to each server that has keys. Here there is only one server."""
        return [self]

    def together(self, keys: Sequence[Key]) -> list[list[Key]]:
        """Return the keys in groups. One command may name the keys of one group."""
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

    # A thread may have put a connection back after `close` closed the others.
    __del__ = close


class Sockets(reset.Part):
    """The connections of this process, and the threads that are making a connection now."""

    def __init__(self) -> None:
        self.idle: weakref.WeakSet[Connections] = weakref.WeakSet()
        self.open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.connecting: set[int] = set()

    def before_fork(self) -> None:
        """Wait up to 0.1 s for new connections, because a child can close only the connections that it knows."""
        deadline = time.monotonic() + 0.1
        while self.connecting and time.monotonic() < deadline:
            time.sleep(0.001)

    def after_fork(self) -> None:
        """Close the parent's connections.

        A child that used its parent's sockets would read the parent's replies. If a child kept them open, the server
        would not notice the end of the parent.
        """
        self.connecting.clear()
        for connections in list(self.idle):
            connections.close()
        # Close the connections that other threads were using, too.
        for connection in list(self.open):
            connection.close()


sockets = reset.register("counters.transport.blocking", Sockets())
