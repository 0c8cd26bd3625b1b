"""Async connections to the Redis of a cache alias: one per event loop, shared by all its tasks.

Commands go in, replies come out in the same order. All commands of one turn of the loop are sent in one write, and
their replies arrive in one read. Two hundred concurrent checks therefore cost little more than one. redis-py makes the
connection (see async_pool.py). Then this module drives its transport with hiredis. No command is ever sent twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from ...engine.messages import _
from .async_pool import async_pool, disconnect
from .blocking import (
    CLOSED,
    HARMLESS,
    INCOMPLETE,
    TOO_SLOW,
    error_of,
    with_timeouts,
)

# This number of commands is sent before the turn of the loop ends.
AT_ONCE = 50


class Pipeline(asyncio.Protocol):
    """One connection. Once it is ``spent`` it takes no new commands. Earlier commands still get a reply or an error.

    A cancelled task keeps its place in the queue. Its reply is read and dropped.
    """

    def __init__(self, pool: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=INCOMPLETE)
        options = with_timeouts(pool.connection_kwargs)
        self._timeout: float = options["socket_timeout"]
        # redis-py bounds each receive of the authentication. This bounds all of them together.
        self._opens_within: float = options["socket_connect_timeout"] + self._timeout
        self._unsent: list[bytes] = []
        # The future of each reply and the time of its command, in the order of the replies.
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._transport: asyncio.Transport | None = None
        self._stream: Any = None
        self._watch: asyncio.TimerHandle | None = None
        self.spent = False
        self.closed = self._loop.create_future()
        # A separate task, because the first caller may be cancelled while others wait for the same connection.
        self._opening = self._loop.create_task(self._open(pool.make_connection()))

    def ask(self, command: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Return a future of the reply. It fails with RedisError or OSError."""
        reply = self._loop.create_future()
        if self._transport is not None and not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(hiredis.pack_command(command))
        self._waiting.append((reply, self._loop.time()))
        if len(self._unsent) >= AT_ONCE:
            # Redis can start while the other tasks of this turn still plan.
            self._send()
        return reply

    def close(self) -> None:
        """Close the connection. Waiting futures fail with a connection error."""
        self.spent = True
        self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()
        elif not self.closed.done():
            self._fail(_("The connection was closed before it was established"))
            self.closed.set_result(None)

    async def _open(self, connection: Any) -> None:
        try:
            async with asyncio.timeout(self._opens_within):
                await connection.connect()
        except (TimeoutError, RedisError, OSError, asyncio.CancelledError) as error:
            await connection.disconnect(nowait=True)
            self.spent = True
            self._fail(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
            if not self.closed.done():
                self.closed.set_result(None)
            return
        # From here on this protocol owns the connection. redis-py's stream would warn that it was left open.
        self._stream, connection._writer, connection._reader = connection._writer, None, None
        transport = self._stream.transport
        transport.set_protocol(self)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        if self._unsent and self._transport is not None:
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()
            if self._watch is None:
                self._watch = self._loop.call_later(self._timeout, self._check_time)

    def _check_time(self) -> None:
        """Close the connection if the oldest command has waited for the time-out. One timer serves all commands."""
        self._watch = None
        if not self._waiting:
            return
        left = self._waiting[0][1] + self._timeout - self._loop.time()
        if left <= 0:
            self._fail(TOO_SLOW)
            self.close()
        else:
            self._watch = self._loop.call_later(left, self._check_time)

    def data_received(self, data: bytes) -> None:
        """Give each reply to the future that waits for it."""
        self._reader.feed(data)
        while True:
            try:
                reply = self._reader.gets()
            except hiredis.HiredisError as error:
                self._fail(str(error))
                self.close()
                return
            if reply is INCOMPLETE:
                break
            if not isinstance(reply, hiredis.PushNotification) and self._waiting:
                self._answer(self._waiting.popleft()[0], reply)
        if self.spent and not self._waiting:
            self.close()

    def _answer(self, future: asyncio.Future[Any], reply: Any) -> None:
        error = error_of(reply) if isinstance(reply, hiredis.ReplyError) else None
        if error and not isinstance(error, HARMLESS):
            # The server may no longer be the master (READONLY), so the next command gets a new connection.
            self.spent = True
        if future.done():
            return
        if error:
            future.set_exception(error)
        else:
            future.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the futures that still wait. Their commands may have run."""
        self.spent = True
        self._transport = None
        if self._watch is not None:
            self._watch.cancel()
        self._fail(str(error) if error else CLOSED)
        self._stream = None
        if not self.closed.done():
            self.closed.set_result(None)

    def _fail(self, reason: str) -> None:
        self._unsent.clear()
        while self._waiting:
            future, _since = self._waiting.popleft()
            if not future.done():
                future.set_exception(RedisConnectionError(reason))


class Pipelines:
    """The current pipeline of one event loop. A new pipeline replaces a spent one."""

    def __init__(self, pool: Any) -> None:
        self._pool = async_pool(pool)
        self._current: Pipeline | None = None

    def ask(self, *command: Any) -> asyncio.Future[Any]:
        """Send a command and return a future of the reply. It fails with RedisError or OSError."""
        return self._pipeline().ask(command)

    async def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands without others in between and return their replies. Raises RedisError or OSError."""
        pipeline = self._pipeline()
        replies = await asyncio.gather(*map(pipeline.ask, commands), return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return replies

    def _pipeline(self) -> Pipeline:
        if self._current is None or self._current.spent:
            self._current = Pipeline(self._pool)
        return self._current

    async def aclose(self) -> None:
        """Close the connection and wait until it is closed."""
        if self._current is not None:
            self._current.close()
            await self._current.closed
        await disconnect(self._pool)
