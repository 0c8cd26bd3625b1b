"""Under real web servers that fork or spawn, totals are exact and no two processes share a socket."""

from __future__ import annotations

import itertools
import os
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.processes import LIMIT
from tests.processes.conftest import CLIENTS
from tests.servers import wait_until

CALLS = 200
WORKERS = 2
THREADS = 4
REFRESHER = "ratelimit-rules-background"

GUNICORN = ("gunicorn", "tests.processes.wsgi:application", "--workers", str(WORKERS), "--bind")
SERVERS = {
    "gunicorn sync": (*GUNICORN, "127.0.0.1:{port}"),
    "gunicorn gthread": (*GUNICORN, "127.0.0.1:{port}", "--worker-class", "gthread", "--threads", str(THREADS)),
    "gunicorn preloaded": (*GUNICORN, "127.0.0.1:{port}", "--preload"),
    "uvicorn": (
        *("uvicorn", "tests.processes.asgi:application", "--workers", str(WORKERS)),
        *("--port", "{port}", "--lifespan", "off"),
    ),
}
# The number of parallel checks in one process.
AT_ONCE = {"gunicorn sync": 1, "gunicorn gthread": THREADS, "gunicorn preloaded": 1, "uvicorn": CLIENTS}


@pytest.mark.parametrize("server", SERVERS)
def test_totals_and_metrics_are_exact_over_all_processes_and_sockets_are_not_shared(site, tmp_path, server):
    command = [part.format(port=site.port) for part in SERVERS[server]]
    site.start(*command, PROMETHEUS_MULTIPROC_DIR=str(tmp_path), RATELIMIT_TEST_ASK_EARLY="1")
    site.wait_for_answers()
    path = "/asgi/" if server == "uvicorn" else "/wsgi/"
    assert site.ask(path, CALLS) == {200: LIMIT, 429: CALLS - LIMIT}

    assert site.sample("django_rate_limiter_calls_total") == {
        'result="allow"': LIMIT,
        'result="block"': CALLS - LIMIT,
    }
    assert site.sample("django_rate_limiter_limit") == {'rule="all"': LIMIT}

    workers = site.workers(WORKERS)
    assert all(threads.count(REFRESHER) <= 1 for threads in workers.values())
    assert sum(threads.count(REFRESHER) for threads in workers.values()) >= 1
    # One for each parallel check, and one for the refresher.
    assert site.connections() <= (WORKERS + 1) * (AT_ONCE[server] + 1)
    for one, other in itertools.combinations(site.family(), 2):
        assert not site.sockets(one) & site.sockets(other)
    site.stop()


def test_a_worker_that_replaces_another_counts_on(site, tmp_path):
    command = [*GUNICORN, f"127.0.0.1:{site.port}", "--max-requests", "60"]
    site.start(*command, PROMETHEUS_MULTIPROC_DIR=str(tmp_path))
    site.wait_for_answers()
    assert site.ask("/wsgi/", CALLS) == {200: LIMIT, 429: CALLS - LIMIT}
    # The counts of a replaced worker are kept.
    assert sum(site.sample("django_rate_limiter_calls_total").values()) == CALLS
    assert site.connections() <= (WORKERS + 1) * 2
    site.stop()


def test_runserver_starts_again_when_a_file_changes_and_leaves_no_process(site, tmp_path):
    settings = tmp_path / "reloaded_settings.py"
    settings.write_text("from tests.processes.settings import *\n")
    site.start(
        *("django", "runserver", f"127.0.0.1:{site.port}"),
        DJANGO_SETTINGS_MODULE="reloaded_settings",
        PYTHONPATH=os.pathsep.join([str(tmp_path), str(Path.cwd())]),
    )
    site.wait_for_answers()
    assert site.ask("/wsgi/", LIMIT // 2) == {200: LIMIT // 2}
    (before,) = site.workers(1)

    def started_again() -> bool:
        try:
            if before not in site.workers(1):
                return True
        except (OSError, HTTPException):
            # The restart may interrupt a response.
            return False
        # Change the file repeatedly, because runserver may not have read it for the first time yet.
        now = settings.stat().st_mtime + 10
        os.utime(settings, (now, now))
        return False

    wait_until(started_again, 30, "runserver to start again")
    assert site.ask("/wsgi/", CALLS) == {200: LIMIT - LIMIT // 2, 429: CALLS - LIMIT + LIMIT // 2}
    ((after, threads),) = site.workers(1).items()
    assert threads.count(REFRESHER) == 1
    # Each request has its own thread, whose connection closes with it.
    assert site.connections() <= CLIENTS + 1
    assert len(site.sockets(after)) == site.connections()
    site.stop()
