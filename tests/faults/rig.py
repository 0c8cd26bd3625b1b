"""Redis servers and a TCP proxy made to be broken: what a test does to them, they do to whoever is connected.

A :class:`Server` may be killed, frozen and started again on its port, without its data; a :class:`Proxy` passes bytes
on until it is told to be late, silent or rude. Both end with the block they are used in.
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
    """A Redis on a port of its own."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        self._running = contextlib.ExitStack()
        self.client: Any = None

    def start(self) -> None:
        """Start it; empty, whatever it held before."""
        self._running.enter_context(redis_server(self.port))
        self.client = redis.Redis(port=self.port, socket_timeout=10)
        self._running.callback(self.client.close)
        self.client.ping()

    def kill(self) -> None:
        """End it without a word."""
        self._running.close()

    @property
    def pid(self) -> int:
        return int(self.client.info("server")["process_id"])

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the process in its tracks: the kernel still accepts connections, nobody answers."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def evalshas(self) -> int:
        """How many EVALSHA and EVAL have reached it."""
        stats = self.client.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Proxy:
    """A TCP proxy in threads. ``replies`` says what becomes of the server's bytes: ``"pass"``, ``"late"``, ``"never"``,
    ``"trickle"`` (a byte at a time) or ``"cut"``, which resets the connection in the middle of a reply; ``requests``
    may be ``"pass"`` or ``"never"``.
    """

    DELAY = 1.2

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.replies = self.requests = "pass"
        self.accepted = 0
        self._healed = threading.Event()
        # Readable for everybody once the proxy ends.
        self._end, self._stop = socket.socketpair()
        self._threads: list[threading.Thread] = []
        self._spawn(self._accept)

    @contextlib.contextmanager
    def broken(self, replies: str = "pass", requests: str = "pass") -> Iterator[None]:
        """Treat bytes so for the length of a block."""
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
        # One thread for both directions: a socket that another thread reads from would not be reset by closing it.
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
        """Treat a reply as told; return whether the connection lives on."""
        if self.replies == "late":
            self._healed.wait(self.DELAY)
        if self.replies == "cut":
            client.sendall(reply[: len(reply) // 2])
            # A reset, not an orderly end.
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
    """Hold a port on which connections are never made: its queue is full and nobody takes from it."""
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
    """Keep a server busy with a script that does not end."""
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
