"""Asynchronous connections to the Redis of a cache alias: one per event loop, shared by all its tasks.

Commands go in, replies come out, in the order in which they were asked. What the tasks ask within one turn of the loop
goes out in one write, and what Redis answers to it comes back in one read, so that two hundred checks at once cost
little more than one. redis-py makes the connection (see asyncpool.py); then its transport is driven here with hiredis.
Nothing is ever sent twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from .async_pool import async_pool, disconnect
from .blocking import (
    INCOMPLETE,
    NOTHING_AMISS,
    error_of,
    with_timeouts,
)

# Commands that are sent before the turn of the loop ends.
AT_ONCE = 50


class Pipeline(asyncio.Protocol):
    """One connection. ``spent`` once nothing more may be asked of it; what was asked is answered or failed still.

    A task that is cancelled leaves its place in the queue: the reply to it is read and dropped.
    """

    def __init__(self, pool: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=INCOMPLETE)
        options = with_timeouts(pool.connection_kwargs)
        self._timeout: float = options["socket_timeout"]
        # redis-py bounds each receive of signing in; this is for all of them together.
        self._opens_within: float = options["socket_connect_timeout"] + self._timeout
        self._unsent: list[bytes] = []
        # Who waits, and since when, in the order of the replies.
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._transport: asyncio.Transport | None = None
        self._stream: Any = None
        self._watch: asyncio.TimerHandle | None = None
        self.spent = False
        self.closed = self._loop.create_future()
        # A task of its own: whoever asked first may be cancelled, and the others wait for the same connection.
        self._opening = self._loop.create_task(self._open(pool.make_connection()))

    def ask(self, command: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Return a future of the reply. It fails with RedisError or OSError."""
        reply = self._loop.create_future()
        if self._transport is not None and not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(hiredis.pack_command(command))
        self._waiting.append((reply, self._loop.time()))
        if len(self._unsent) >= AT_ONCE:
            # Redis works while the other tasks of this turn still plan.
            self._send()
        return reply

    def close(self) -> None:
        """Close the connection; whoever still waits is told that it was lost."""
        self.spent = True
        self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()
        elif not self.closed.done():
            self._fail("closed")
            self.closed.set_result(None)

    async def _open(self, connection: Any) -> None:
        try:
            async with asyncio.timeout(self._opens_within):
                await connection.connect()
        except (TimeoutError, RedisError, OSError, asyncio.CancelledError) as error:
            await connection.disconnect(nowait=True)
            self.spent = True
            self._fail(f"{type(error).__name__}: {error}")
            if not self.closed.done():
                self.closed.set_result(None)
            return
        # From here on the connection is this protocol's; redis-py's stream would warn of being left open.
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
                self._watch = self._loop.call_later(self._timeout, self._look)

    def _look(self) -> None:
        """Give up when somebody has waited for as long as the time-out; one timer for all who wait."""
        self._watch = None
        if not self._waiting:
            return
        left = self._waiting[0][1] + self._timeout - self._loop.time()
        if left <= 0:
            self._fail("Redis did not answer in time")
            self.close()
        else:
            self._watch = self._loop.call_later(left, self._look)

    def data_received(self, data: bytes) -> None:
        """Hand out replies."""
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
        if error and not isinstance(error, NOTHING_AMISS):
            # It may be the wrong server by now (READONLY): the next one who asks gets a new connection.
            self.spent = True
        if future.done():
            return
        if error:
            future.set_exception(error)
        else:
            future.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell those who wait: their commands may have run."""
        self.spent = True
        self._transport = None
        if self._watch is not None:
            self._watch.cancel()
        self._fail(str(error) if error else "Redis closed the connection")
        self._stream = None
        if not self.closed.done():
            self.closed.set_result(None)

    def _fail(self, reason: str) -> None:
        self._unsent.clear()
        while self._waiting:
            future, _ = self._waiting.popleft()
            if not future.done():
                future.set_exception(RedisConnectionError(reason))


class Pipelines:
    """The pipeline of one event loop, and those that follow it when it is spent."""

    def __init__(self, pool: Any) -> None:
        self._pool = async_pool(pool)
        self._current: Pipeline | None = None

    def ask(self, *command: Any) -> asyncio.Future[Any]:
        """Send a command and return a future of the reply. It fails with RedisError or OSError."""
        return self._pipeline().ask(command)

    async def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands with nothing in between and return their replies. Raises RedisError or OSError."""
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
        """Close the connection, and wait until it is."""
        if self._current is not None:
            self._current.close()
            await self._current.closed
        await disconnect(self._pool)
