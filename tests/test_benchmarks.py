"""The benchmarks run: each group that needs no web server, with minimal sizes and without peers."""

import os
import subprocess
import sys

from tests.servers import free_port


def test_the_benchmarks_print_a_row_for_each_group_in_a_table():
    command = [sys.executable, "-m", "tests.benchmarks", "--seconds=0", "--counters=100", "--alone"]
    environment = {**os.environ, "RATELIMIT_TEST_REDIS_URL": f"redis://127.0.0.1:{free_port()}"}
    printed = subprocess.run(
        [*command, "check", "blocked", "flood", "async", "stalls", "memory"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    titles = [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("| ")]
    assert titles[2:] == [
        "check, 1 limit",
        "check, 2 limits",
        "check, 5 limits",
        "check, blocked client",
        "a flood from 4 blocked clients, denial cache",
        "200 concurrent async checks, throughput",
        "longest stall of the event loop (median of a round's)",
        "memory per counter",
    ]
