"""A missing, locked or not yet migrated database.

Rules in code still apply, the last good rules stay in force, and the admin's rules apply later without a restart.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings as django_settings

from django_ratelimit_rules.counters.aliases import current
from tests.servers import wait_until

# Creates a database in each state of a deployment.
PREPARE = textwrap.dedent(
    """
    import shutil, sys
    import django
    django.setup()
    from datetime import timedelta
    from django.core.management import call_command
    from django.db import connections
    from django.utils import timezone
    from django_ratelimit_rules.models import Rule, Ruleset

    file, folder = sys.argv[1:]
    for state in ("0001", "0002", None):
        call_command("migrate", "django_ratelimit_rules", *([state] if state else []), verbosity=0)
        connections.close_all()
        shutil.copy(file, f"{folder}/{state or 'ready'}")
    ruleset = Ruleset.objects.create(name="fault_closed", failure_mode="closed")
    Rule.objects.create(ruleset=ruleset, name="of_admin", limit=10**5, period=3600)
    connections.close_all()
    shutil.copy(file, f"{folder}/ruled")
    """
)
# A process of the site, which handles one request for each line that it reads.
SERVE = textwrap.dedent(
    """
    import json, sys, time
    import django
    django.setup()
    from django.conf import settings
    settings.ROOT_URLCONF = "tests.faults.conftest"
    from django.test import Client
    from django_ratelimit_rules import Limiter, Rule
    Limiter("fault_closed", rules=[Rule("of_code", limit=10**6, period=3600)])
    for _ in sys.stdin:
        started = time.monotonic()
        answer = Client(raise_request_exception=False).get("/wsgi/closed/")
        policy = answer.headers.get("RateLimit-Policy", "")
        print(json.dumps([answer.status_code, policy, time.monotonic() - started]), flush=True)
    """
)

# A process whose first check is synchronous on an event loop, as in an async view or in Ninja's throttles.
ON_A_LOOP = textwrap.dedent(
    """
    import asyncio, json
    import django
    django.setup()
    from django_ratelimit_rules import Limiter, Rule
    limiter = Limiter("fault_closed", rules=[Rule("of_code", limit=10**6, period=3600)])

    async def first():
        return {evaluation.rule: evaluation.limit for evaluation in limiter.check({}).evaluations}

    print(json.dumps(asyncio.run(first())))
    """
)


class Process:
    """A process of the site, on a database file that may be missing."""

    def __init__(self, file: Path, log: Path) -> None:
        self._log = log
        with log.open("w") as errors:
            self._running = subprocess.Popen(
                [sys.executable, "-c", SERVE],
                env=_environment(file),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def get(self) -> tuple[int, dict[str, int], float]:
        """Make a request. Return its status, the limits of the evaluated rules, and its duration in seconds."""
        self._running.stdin.write("\n")
        self._running.stdin.flush()
        status, policy, seconds = json.loads(self._running.stdout.readline())
        limits = dict(re.findall(r'"(\w+)";q=(\d+)', policy))
        return status, {name: int(limit) for name, limit in limits.items()}, seconds

    def logged(self) -> str:
        """Return the log of the process so far."""
        return self._log.read_text()

    def end(self) -> None:
        """End the process."""
        self._running.communicate(timeout=30)


def _environment(file: Path) -> dict[str, str]:
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "RATELIMIT_TEST_DB": str(file),
        "RATELIMIT_TEST_REDIS_URL": django_settings.REDIS_URL,
    }


@pytest.fixture(scope="module")
def states(tmp_path_factory) -> Path:
    """Return a folder of databases with the migrations ``0001``, ``0002`` and ``ready``. ``ruled`` contains a rule."""
    folder = tmp_path_factory.mktemp("states")
    file = folder / "site.sqlite3"
    subprocess.run([sys.executable, "-c", PREPARE, str(file), str(folder)], env=_environment(file), check=True)
    return folder


@pytest.fixture
def start(tmp_path) -> Iterator:
    """Return a function that starts a process of the site on a database file."""
    with contextlib.ExitStack() as stack:

        def start(file: Path) -> Process:
            process = Process(file, tmp_path / "log")
            stack.callback(process.end)
            return process

        yield start


def put(state: Path, file: Path) -> None:
    """Replace a database by another one in a single step."""
    shutil.copy(state, file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)


CODE = {"of_code": 10**6}
BOTH = {"of_admin": 10**5, **CODE}


@pytest.mark.parametrize("state", ["no folder", "no file", "0001", "0002"])
def test_a_database_that_is_not_ready_at_the_first_check_is_used_later(tmp_path, states, start, state):
    file = tmp_path / "data" / "site.sqlite3"
    if state != "no folder":
        file.parent.mkdir()
    if state.isdigit():
        put(states / state, file)
    process = start(file)
    for _ in range(3):
        assert process.get()[:2] == (200, CODE)
    file.parent.mkdir(exist_ok=True)
    put(states / "ruled", file)
    wait_until(lambda: process.get()[:2] == (200, BOTH), what="the admin's rules")


def test_a_synchronous_first_check_on_an_event_loop_meets_the_admins_rules(tmp_path, states):
    file = tmp_path / "site.sqlite3"
    put(states / "ruled", file)
    command = [sys.executable, "-c", ON_A_LOOP]
    ended = subprocess.run(command, env=_environment(file), capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == BOTH
    assert ended.stderr == ""


def test_a_database_that_goes_away_leaves_the_last_good_rules(tmp_path, states, start):
    file = tmp_path / "data" / "site.sqlite3"
    file.parent.mkdir()
    put(states / "ruled", file)
    process = start(file)
    assert process.get()[:2] == (200, BOTH)
    away = file.parent.rename(tmp_path / "away")
    # Announce a change, so that each process tries to load the rules.
    current().announce()
    wait_until(lambda: "last good rules" in process.logged(), what="the reload")
    assert process.get()[:2] == (200, BOTH)
    with contextlib.closing(sqlite3.connect(away / file.name)) as database, database:
        database.execute("UPDATE django_ratelimit_rules_rule SET enabled = 0")
    away.rename(file.parent)
    wait_until(lambda: process.get()[:2] == (200, CODE), what="the change made meanwhile")


def test_a_database_that_hangs_holds_up_no_request(tmp_path, states, start):
    file = tmp_path / "site.sqlite3"
    put(states / "ruled", file)
    process = start(file)
    assert process.get()[:2] == (200, BOTH)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        expires = (datetime.now(UTC) + timedelta(seconds=3)).replace(tzinfo=None)
        database.execute('UPDATE django_ratelimit_rules_rule SET expires_at = ?, "limit" = 99999', [str(expires)])
        current().announce()
        wait_until(lambda: process.get()[1]["of_admin"] == 99_999, what="the reload")
        # From here on, each read waits. SQLite waits for five seconds, and another database may wait for ever.
        database.execute("BEGIN EXCLUSIVE")
        current().announce()
        longest = 0.0
        limits: dict[str, int] = {}
        while limits != CODE:
            status, limits, seconds = process.get()
            assert status == 200
            longest = max(longest, seconds)
        database.execute("ROLLBACK")
    assert longest < 2
