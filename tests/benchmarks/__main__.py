"""Runs all benchmarks in interleaved rounds, and prints a Markdown table.

    pip install -e '.[test,bench]'; apt-get install redis-server wrk
    python -m tests.benchmarks                     # all rows, about six minutes
    python -m tests.benchmarks check blocked       # some groups of rows
    python -m tests.benchmarks --seconds 60 check  # longer, on a machine that others use

Cells are medians of ratios within a round, with the 10th percentile in brackets. For checks they are ratios of time
(less is better), for HTTP and async ratios of throughput (more is better). ``timing.py`` explains the timing,
``contestants.py`` and ``peers.py`` the calls, ``settings.py`` and ``site.py`` the configuration.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.benchmarks.settings"

GROUPS = ("check", "blocked", "flood", "rulesets", "async", "stalls", "wsgi", "asgi", "memory")
# Don't keep cores awake here. An event loop under load does it already, and another process would only slow it.
QUIET = ("stalls", "asgi")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Time checks beside their peers.")
    parser.add_argument("groups", nargs="*", metavar="group", help=f"{', '.join(GROUPS)}; all by default")
    parser.add_argument("--seconds", type=float, default=15, help="for each row (HTTP takes thrice as long)")
    parser.add_argument("--counters", type=int, default=100_000, help="for the row on memory")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    options = parser.parse_args()
    unknown = set(options.groups) - set(GROUPS)
    if unknown:
        parser.error(f"there is no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BENCHMARK_DATABASE"] = str(Path(folder) / "rules.sqlite3")
        import django

        django.setup()
        from django.conf import settings
        from django.core.management import call_command

        from tests.servers import redis_server

        call_command("migrate", verbosity=0)
        with redis_server(urlsplit(settings.REDIS_URL).port):
            run(options.groups or list(GROUPS), options)


def run(groups: list[str], options: argparse.Namespace) -> None:
    from django_redis import get_redis_connection

    from tests.benchmarks import asynchronous, check, http, memory, rulesets
    from tests.benchmarks.contestants import FLOOR, OURS
    from tests.benchmarks.peers import PEERS
    from tests.benchmarks.report import Row, machine, table
    from tests.benchmarks.timing import cores_awake

    peers = [] if options.alone else [peer for peer in PEERS if peer.installed]
    seconds = options.seconds
    measure: dict[str, Callable[[], list[Row]]] = {
        "check": lambda: check.check(peers, seconds),
        "blocked": lambda: check.blocked(peers, seconds),
        "flood": lambda: check.flood(seconds),
        "rulesets": lambda: rulesets.rulesets(seconds),
        "async": lambda: asynchronous.throughput(peers, seconds),
        "stalls": lambda: asynchronous.stalls(peers, seconds),
        "wsgi": lambda: http.http("gunicorn", peers, 3 * seconds),
        "asgi": lambda: http.http("uvicorn", peers, 3 * seconds),
        "memory": lambda: memory.memory(peers, options.counters),
    }
    rows: list[Row] = []
    columns = [*([FLOOR.name] if {"wsgi", "asgi"} & {*groups} else []), OURS.name, *[peer.name for peer in peers]]
    try:
        for group in groups:
            started = time.monotonic()
            with contextlib.nullcontext() if group in QUIET else cores_awake():
                rows += measure[group]()
            print(f"{group}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    finally:
        # Print the results so far, even if a contestant fails after minutes.
        print(table(rows, columns))
        print("\n" + machine(get_redis_connection("default").info("server")["redis_version"]))


if __name__ == "__main__":
    main()
