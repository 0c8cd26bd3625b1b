"""Processes that serve the site, with their state from the operating system."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
import redis

from tests.servers import free_port, redis_server, wait_until

CLIENTS = 8


class Site:
    """A site on a port, served by the processes of one command, with its own Redis."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.port = free_port()
        self.redis: Any = redis.Redis.from_url(redis_url)
        self.redis_port = int(redis_url.rsplit(":", 1)[1])
        self.log = folder / "log"
        self.environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.processes.settings",
            "RATELIMIT_TEST_REDIS_URL": redis_url,
            "RATELIMIT_TEST_DB": str(folder / "site.sqlite3"),
        }
        self.running: subprocess.Popen[bytes] | None = None

    def start(self, *command: str, **environment: str) -> None:
        """Run a Python module as a command in its own session."""
        with self.log.open("wb") as output:
            self.running = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=self.environment | environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_for_answers(self) -> None:
        wait_until(self._answers, 30, f"the site: {self.log.read_text()}")

    def _answers(self) -> bool:
        assert self.running is not None
        assert self.running.poll() is None, self.log.read_text()
        try:
            return self.status("/process/") == 200
        except (URLError, ConnectionError, HTTPException):
            return False

    def text(self, path: str) -> str:
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def status(self, path: str) -> int:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
                answer.read()
                return int(answer.status)
        except HTTPError as error:
            return error.code

    def ask(self, path: str, times: int) -> Counter[int]:
        """Make requests, several in parallel. Return the number of responses of each status."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            return Counter(pool.map(lambda _: self.status(path), range(times)))

    def workers(self, number: int) -> dict[int, list[str]]:
        """Make requests until a number of processes have answered. Return the names of their threads by process id."""
        found: dict[int, list[str]] = {}

        def all_seen() -> bool:
            with ThreadPoolExecutor(CLIENTS) as pool:
                for said in pool.map(json.loads, pool.map(self.text, ["/process/"] * CLIENTS)):
                    found[said["pid"]] = said["threads"]
            return len(found) >= number

        wait_until(all_seen, 20, "all processes to answer")
        return found

    def family(self) -> set[int]:
        """Return the process ids of the command and its children."""
        assert self.running is not None
        found = {self.running.pid}
        parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return found

    def sockets(self, pid: int) -> set[str]:
        """Return a process's connections to our Redis by their kernel names."""
        ours = set()
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[2].rsplit(":", 1)[1], 16) == self.redis_port:
                ours.add(f"socket:[{fields[9]}]")
        found = set()
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(link))
        return ours & found

    def connections(self) -> int:
        """Return the number of connections of our Redis, without the connection of this call."""
        return len(self.redis.client_list()) - 1

    def sample(self, name: str) -> dict[str, float]:
        """Return the samples of a metric of the limiter ``shared`` by their other labels."""
        lines = re.findall(rf"^{name}\{{(.*?)\}} (\S+)$", self.text("/metrics"), re.MULTILINE)
        return {
            labels.replace('rate_limiter="shared"', "").strip(","): float(value)
            for labels, value in lines
            if 'rate_limiter="shared"' in labels
        }

    def stop(self) -> None:
        """Stop the command, and check that no process or connection is left."""
        family = self.family()
        assert self.running is not None
        self.running.send_signal(signal.SIGTERM)
        self.running.wait(20)
        wait_until(lambda: not any(_lives(pid) for pid in family), what="all processes to end")
        wait_until(lambda: self.connections() == 0, what="all connections to close")

    def close(self) -> None:
        if self.running is not None and self.running.poll() is None:
            os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait()
        self.redis.close()


def _parent(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    """Return a folder with a migrated database."""
    folder = tmp_path_factory.mktemp("database")
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "RATELIMIT_TEST_DB": str(folder / "site.sqlite3"),
    }
    subprocess.run([sys.executable, "-m", "django", "migrate", "-v0"], env=environment, check=True)
    return folder


@pytest.fixture
def site(database) -> Iterator[Site]:
    if not Path("/proc/self/net/tcp").exists():
        pytest.skip("this system has no /proc, from which the test reads the sockets of a process")
    with redis_server() as url:
        site = Site(database, url)
        try:
            yield site
        finally:
            site.close()
