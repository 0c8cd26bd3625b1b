"""The last hour of a limiter from all processes, the fullest counters, and the cost of both in Redis."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from itertools import pairwise

import pytest

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.monitoring import fullest_counters, last_hour
from django_ratelimit_rules.monitoring.fullest_counters import heaviest
from django_ratelimit_rules.monitoring.last_hour import Totals
from django_ratelimit_rules.runtime import background
from django_ratelimit_rules.testing import override_ruleset
from tests.forks import in_child, needs_fork
from tests.servers import AWAY, wait_until

COUNTING = {"characteristics": ["ip"], "limit": 2, "period": 60}
RULES = [
    Rule("staff", action="skip", match={"user": "boss"}),
    Rule("shadow", action="log", **COUNTING | {"limit": 1}),
    Rule("all", **COUNTING),
    Rule("behind", **COUNTING | {"limit": 99}),
]

PROCESS = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django
django.setup()
from django_ratelimit_rules import Limiter, Rule
limiter = Limiter("shared", rules=[Rule("all", limit=30, period=60)])
for _ in range(25):
    limiter.check({})
print("done", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def limiter():
    with override_ruleset("search", RULES):
        yield Limiter("search")


def live_keys(redis_client) -> list[bytes]:
    return sorted(redis_client.keys("*:live:*"))


def test_calls_exceeded_and_blocked_are_reported_for_each_rule(limiter):
    for _ in range(4):
        limiter.check({"ip": "203.0.113.7"})
    limiter.check({"user": "boss"})
    hour = last_hour.of_limiter("search")
    assert {name: series.totals for name, series in hour.rules.items()} == {
        "staff": Totals(1, 0, 0),
        "shadow": Totals(4, 3, 0),
        "all": Totals(4, 2, 2),
        "behind": Totals(2, 0, 0),
    }
    assert hour.all.totals == Totals(5, 2, 2)
    assert sum(hour.all.calls[-2:]) == 5
    assert hour.of("unknown").totals == Totals(0, 0, 0)
    assert len(hour.of("unknown").calls) == len(hour.all.calls) == 60


def test_in_a_dry_run_the_number_of_would_be_refusals_is_counted(limiter):
    with override_ruleset("search", mode="dry_run"):
        for _ in range(5):
            limiter.check({"ip": "203.0.113.7"})
        assert last_hour.of_limiter("search").all.totals == Totals(5, 3, 0)


def test_counts_of_a_replay_are_shown_in_its_minutes(limiter):
    minute = int(time.time()) // 60 - 30
    for _ in range(7):
        limiter.check({"ip": "203.0.113.7"})
    last_hour.gather(minute * 60)
    limiter.check({"ip": "203.0.113.7"})
    hour = last_hour.of_limiter("search")
    place = minute - hour.first // 60
    assert hour.of("all").calls[: place + 5] == (0,) * place + (7, 0, 0, 0, 0)
    assert sum(hour.of("all").calls) == 8


def test_looking_and_a_ruleset_that_is_off_count_nothing(limiter):
    limiter.peek({"ip": "203.0.113.7"})
    limiter.explain({"ip": "203.0.113.7"})
    with override_ruleset("search", mode="off"):
        limiter.check({"ip": "203.0.113.7"})
    assert last_hour.of_limiter("search").all.totals == Totals(0, 0, 0)


def test_asynchronous_checks_and_threads_are_all_counted(limiter):
    async def many() -> None:
        await asyncio.gather(*(limiter.acheck({"ip": "203.0.113.7"}) for _ in range(50)))

    asyncio.run(many())
    threads = [
        threading.Thread(target=lambda: [limiter.check({"ip": "203.0.113.7"}) for _ in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert last_hour.of_limiter("search").rules["all"].totals == Totals(250, 248, 248)


@pytest.mark.parametrize("metrics_files", [False, True])
def test_processes_are_summed_including_ended_ones(metrics_files, tmp_path):
    command = [sys.executable, "-c", PROCESS]
    environment = os.environ | ({"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)} if metrics_files else {})
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) for _ in range(2)
    ]
    try:
        for process in processes:
            assert process.stdout.readline().strip() == b"done"
        # One process ends at once and writes at its end. The thread of the other one writes within some seconds.
        processes[0].communicate(timeout=20)
        wait_until(
            lambda: last_hour.of_limiter("shared").all.calls and last_hour.of_limiter("shared").all.totals.calls == 50,
            20,
        )
        assert last_hour.of_limiter("shared").rules["all"].totals == Totals(50, 20, 20)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_process_writes_by_its_own_thread_within_seconds(limiter, redis_client):
    limiter.check({"ip": "203.0.113.7"})
    background.ensure()
    wait_until(lambda: live_keys(redis_client), 15, "the thread's write")


def test_a_check_itself_writes_nothing_but_its_counters(limiter, redis_client, monkeypatch):
    monkeypatch.setattr(background.tasks[last_hour.write], "called", time.monotonic() + 60)
    for _ in range(100):
        limiter.check({"ip": "203.0.113.7"})
    assert live_keys(redis_client) == []


def test_the_stored_data_is_one_small_hash_a_minute_for_two_hours(limiter, redis_client):
    for number in range(200):
        limiter.check({"ip": f"203.0.113.{number}"})
    last_hour.write()
    written = live_keys(redis_client)
    assert len(written) <= 2
    for key in written:
        assert 7190 <= redis_client.ttl(key) <= 7200
        assert redis_client.hlen(key) <= 3 * 5


def test_an_hour_ago_is_over(limiter, redis_client):
    now = int(time.time()) // 60
    for minutes_ago, calls in ((0, 1), (59, 2), (60, 4), (90, 8)):
        redis_client.hset(live_key(redis_client, limiter, now - minutes_ago), "all:calls", calls)
    assert last_hour.of_limiter("search").rules["all"].totals.calls in (3, 1)


def live_key(redis_client, limiter, minute: int) -> str:
    return f":1:rl:live:{limiter.name}:{minute}"


@pytest.mark.parametrize("field", [b"all:calls", b"", b":", b"\xff", b"all:calls:x", b"what"])
def test_foreign_data_does_no_harm(limiter, redis_client, field):
    limiter.check({"ip": "203.0.113.7"})
    last_hour.write()
    [key] = live_keys(redis_client)[-1:]
    redis_client.hset(key, field, b"\xfe not a number")
    assert last_hour.of_limiter("search").all.totals.calls == 1


def test_without_redis_nothing_is_lost_for_an_hour_and_no_more_is_kept(limiter, settings):
    limiter.check({"ip": "203.0.113.7"})
    working = settings.CACHES
    settings.CACHES = AWAY
    for _ in range(3):
        last_hour.write()
    last_hour.unwritten.waiting[("search", int(time.time()) // 60 - 90)] = {last_hour.ALL: [7, 0, 0]}
    last_hour.write()
    assert len(last_hour.unwritten.waiting) == 1
    settings.CACHES = working
    assert last_hour.of_limiter("search").all.totals == Totals(1, 0, 0)


def test_switched_off_nothing_is_counted_written_or_reported(limiter, settings, redis_client):
    settings.RATELIMIT_RULES_LIVE = False
    limiter.check({"ip": "203.0.113.7"})
    last_hour.write()
    assert (last_hour.unwritten.waiting, live_keys(redis_client), last_hour.of_limiter("search")) == ({}, [], None)


@needs_fork
def test_a_forked_child_does_not_count_its_parents_calls_again(limiter):
    limiter.check({"ip": "203.0.113.7"})

    def write() -> bool:
        last_hour.write()
        return True

    assert in_child(write) == 0
    assert last_hour.of_limiter("search").all.totals.calls == 1


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"algorithm": "sliding_window", "period": 3600},
        {"algorithm": "token_bucket", "period": 3600},
        {"ban_for": 600},
        {"characteristics": ["ip", "header.x-key"]},
    ],
)
def test_the_fullest_counters_come_first(options):
    rules = [Rule("all", **{**COUNTING, "limit": 5, **options}), Rule("wide", **COUNTING | {"limit": 100})]
    with override_ruleset("search", rules):
        limiter = Limiter("search")
        for number, calls in enumerate([1, 4, 7, 2]):
            for _ in range(calls):
                limiter.check({"ip": f"203.0.113.{number}", "header.x-key": "SECRET"})
        found = heaviest("search")
    ours = [heavy for heavy in found.counters if heavy.rule == "all"]
    assert [heavy.who.partition(",")[0] for heavy in ours] == [
        f"ip:203.0.113.{n}".partition(":")[2] for n in (2, 1, 3, 0)
    ]
    assert [heavy.used for heavy in ours] == [5, 4, 2, 1]
    assert (found.full, found.looked, found.complete) == (1, 8, True)
    assert "SECRET" not in str(found)
    assert all(before.count / before.limit >= after.count / after.limit for before, after in pairwise(ours))


def test_distinct_values_weigh_by_their_number_and_computed_limits_are_left_out():
    rules = [
        Rule("spread", count_distinct="post.name", **COUNTING),
        Rule("computed", **COUNTING | {"limit": lambda: 99}),
    ]
    with override_ruleset("search", rules):
        for name in "abc":
            Limiter("search").check({"ip": "203.0.113.7", "post.name": name})
        [heavy] = heaviest("search").counters
    assert (heavy.rule, heavy.used, heavy.limit) == ("spread", 2, 2)


def test_no_more_than_two_thousand_counters_are_looked_at_and_foreign_keys_are_not(redis_client, monkeypatch):
    monkeypatch.setattr(fullest_counters, "MOST_KEYS", 50)
    with override_ruleset("search", [Rule("all", **COUNTING)]):
        for number in range(80):
            Limiter("search").check({"ip": f"203.0.113.{number}"})
        redis_client.set(":1:rl{search}foreign", "x")
        redis_client.set(":1:rl{search}aaaaa:1", "9")
        found = heaviest("search", most=3)
    assert (len(found.counters), found.looked <= 50, found.complete) == (3, True, False)


def test_looking_at_counters_changes_none(redis_client, keys):
    with override_ruleset("search", RULES):
        for _ in range(3):
            Limiter("search").check({"ip": "203.0.113.7"})
        before = {key: (redis_client.get(key), redis_client.pttl(key) > 0) for key in keys()}
        heaviest("search")
        assert {key: (redis_client.get(key), redis_client.pttl(key) > 0) for key in keys()} == before
