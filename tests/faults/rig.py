"""Redis servers and a TCP proxy that a test breaks, together with their connections.

A :class:`Server` can be killed, frozen and started again on its port, without its data. A :class:`Proxy` forwards
bytes until a test makes it late, silent or broken. Both end with their ``with`` block.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import redis

from tests.servers import free_port, redis_server, wait_until


class Server:
    """A Redis on its own port."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        self._running = contextlib.ExitStack()
        self.client: Any = None

    def start(self) -> None:
        """Start the server without its earlier data."""
        self._running.enter_context(redis_server(self.port))
        self.client = redis.Redis(port=self.port, socket_timeout=10)
        self._running.callback(self.client.close)
        self.client.ping()

    def kill(self) -> None:
        """Kill the server without a shutdown."""
        self._running.close()

    @property
    def pid(self) -> int:
        return int(self.client.info("server")["process_id"])

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the process during a block. The kernel still accepts connections, but the server does not answer."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def evalshas(self) -> int:
        """Return the number of EVALSHA and EVAL commands that reached the server."""
        stats = self.client.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Proxy:
    """A TCP proxy in threads.

    ``replies`` is the treatment of the server's bytes: ``"pass"``, ``"late"``, ``"never"``, ``"trickle"`` (a byte at a
    time) or ``"cut"``, which resets the connection in the middle of a reply. ``requests`` is ``"pass"`` or ``"never"``.
    """

    DELAY = 1.2

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.replies = self.requests = "pass"
        self.accepted = 0
        self._healed = threading.Event()
        # Becomes readable in all threads at the end of the proxy.
        self._end, self._stop = socket.socketpair()
        self._threads: list[threading.Thread] = []
        self._spawn(self._accept)

    @contextlib.contextmanager
    def broken(self, replies: str = "pass", requests: str = "pass") -> Iterator[None]:
        """Treat bytes in this way during a block."""
        self._healed.clear()
        self.replies, self.requests = replies, requests
        try:
            yield
        finally:
            self.replies = self.requests = "pass"
            self._healed.set()

    def _spawn(self, function: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            self.accepted += 1
            self._spawn(self._pass_on, client)

    def _pass_on(self, client: socket.socket) -> None:
        # Use one thread for both directions, because closing a socket does not reset it while another thread reads it.
        with client, socket.create_connection(("127.0.0.1", self._target)) as server, contextlib.suppress(OSError):
            while True:
                readable = select.select([client, server, self._end], [], [])[0]
                if self._end in readable:
                    return
                for source in readable:
                    received = source.recv(65536)
                    if not received:
                        return
                    if source is client:
                        if self.requests == "pass":
                            server.sendall(received)
                    elif not self._answer(client, received):
                        return

    def _answer(self, client: socket.socket, reply: bytes) -> bool:
        """Forward, delay, drop or cut a reply as set. Return whether the connection stays open."""
        if self.replies == "late":
            self._healed.wait(self.DELAY)
        if self.replies == "cut":
            client.sendall(reply[: len(reply) // 2])
            # Send a reset instead of an orderly end.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if self.replies == "trickle":
            for byte in reply:
                client.sendall(bytes([byte]))
                self._healed.wait(self.DELAY / 4)
        elif self.replies != "never":
            client.sendall(reply)
        return True

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._healed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._stop.close()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()
        self._end.close()


@contextlib.contextmanager
def deaf_port(port: int) -> Iterator[None]:
    """Yield a port that accepts no connections, because its queue stays full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        while True:
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0.1)
            try:
                waiting.connect(("127.0.0.1", port))
            except TimeoutError:
                break
        yield


@contextlib.contextmanager
def busy(server: Server) -> Iterator[None]:
    """Keep a server busy with an endless script."""
    server.client.config_set("busy-reply-threshold" if _is_new(server) else "lua-time-limit", 20)
    looping = redis.Redis(port=server.port, socket_timeout=30)

    def run() -> None:
        with contextlib.suppress(redis.RedisError):
            looping.eval("while true do end", 0)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def is_busy() -> bool:
        try:
            server.client.get("anything")
        except redis.ResponseError as error:
            return "BUSY" in str(error)
        return False

    wait_until(is_busy, what="the server to be busy")
    try:
        yield
    finally:
        server.client.script_kill()
        thread.join(10)
        looping.close()


def _is_new(server: Server) -> bool:
    return bool(server.client.config_get("busy-reply-threshold"))
