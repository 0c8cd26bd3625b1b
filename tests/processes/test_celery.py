"""A Celery worker, which forks its processes after the import of a project that already checked a limiter."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from tests.processes import LIMIT
from tests.servers import wait_until

TASKS = 100
PROCESSES = 2
SEND = "from tests.processes.tasks import ask\nfor _ in range({}): ask.delay()"


def test_tasks_of_all_processes_count_exactly_and_share_no_socket(site, tmp_path):
    pytest.importorskip("celery", reason="celery is not installed")
    environment = {"RATELIMIT_TEST_BROKER": str(tmp_path), "RATELIMIT_TEST_PROCESSES": str(PROCESSES)}
    sent = [sys.executable, "-c", SEND.format(TASKS)]
    subprocess.run(sent, env=site.environment | environment, check=True, timeout=60)
    site.start(
        *("celery", "-A", "tests.processes.tasks", "worker", "--pool", "prefork", "--concurrency", str(PROCESSES)),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        **environment,
    )

    def asked() -> dict[bytes, bytes]:
        assert site.running.poll() is None, site.log.read_text()
        return site.redis.hgetall("asked")

    wait_until(lambda: sum(map(int, asked().values())) == TASKS, 60, "all tasks to run")
    assert {word: int(number) for word, number in asked().items()} == {b"allow": LIMIT, b"block": TASKS - LIMIT}
    assert int(site.redis.hget("failed", "error")) == 0
    assert len(site.redis.hgetall("by")) == PROCESSES
    for one, other in itertools.combinations(site.family(), 2):
        assert not site.sockets(one) & site.sockets(other)
    # The parent and each process have one connection of the limiter, one of the refresher, and one of the task.
    assert site.connections() <= (PROCESSES + 1) * 3
    site.stop()
