"""One row defines an algorithm for rules, keys, sentences, published limits, the script, memory and replays."""

from __future__ import annotations

import copy
import json
import pickle
import struct
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from django_ratelimit_rules.counters import CHECK, PEEK
from django_ratelimit_rules.counters.memory import READERS, WRITERS, Counter, Look, MemoryCounters
from django_ratelimit_rules.counters.redis import RedisCounters
from django_ratelimit_rules.engine import Hits, Rule, Ruleset, decide, plan, sentence
from django_ratelimit_rules.engine.algorithms import ALGORITHMS, DEFAULT, DISTINCT_VALUES, Algorithm
from django_ratelimit_rules.engine.keys import prefixes
from django_ratelimit_rules.engine.results import Number
from django_ratelimit_rules.exceptions import InvalidRule
from django_ratelimit_rules.http.published_limits import public_limits
from django_ratelimit_rules.replay.runner import Runner
from django_ratelimit_rules.replay.traffic.batches import Order, in_order
from django_ratelimit_rules.replay.traffic.formats import asked_for
from django_ratelimit_rules.replay.traffic.json_lines import JsonLines
from django_ratelimit_rules.testing import override_ruleset

ROWS = [*ALGORITHMS.values(), DISTINCT_VALUES]
START = 1_700_000_000_000
QUIET_TIME = Algorithm(
    "quiet_time", code="q", wire=200, label="quiet time", help="ends after a period without calls", public_note="waits"
)


def read_quiet_time(look: Look, cost: Number, now: int) -> None:
    if look.counter is not None:
        look.used = look.count = look.counter.used
    look.reset = look.period
    look.judge(now, look.used + cost > look.hit.limit, cost, look.period)


def write_quiet_time(look: Look, counter: Counter, cost: Number, now: int, charged: bool, ban: int) -> bool:
    """Charge the call. Blocked calls end the quiet time too."""
    if charged:
        look.used = look.count = look.used + cost
    counter.used, counter.expires = look.used, now + look.period
    return True


@pytest.fixture
def quiet_time(monkeypatch: pytest.MonkeyPatch) -> Algorithm:
    """Register an algorithm whose counter ends after a period without calls."""
    monkeypatch.setitem(ALGORITHMS, QUIET_TIME, QUIET_TIME)
    monkeypatch.setitem(READERS, QUIET_TIME, read_quiet_time)
    monkeypatch.setitem(WRITERS, QUIET_TIME, write_quiet_time)
    return QUIET_TIME


def make_rule(**options: Any) -> Rule:
    return Rule("r", **{"characteristics": ["user"], "limit": 2, "period": 10, "algorithm": "quiet_time"} | options)


def test_rules_know_an_algorithm_while_its_row_is_registered(quiet_time):
    assert make_rule().algorithm is quiet_time
    with pytest.raises(InvalidRule, match="use one of fixed_window, sliding_window, token_bucket, quiet_time"):
        make_rule(algorithm="other")


@pytest.mark.parametrize("name", ["quiet_time", "distinct_values", "Fixed_window", "", None, 1, ["fixed_window"]])
def test_rules_reject_an_algorithm_without_a_row(name):
    with pytest.raises(
        InvalidRule, match=r"unknown algorithm .* use one of fixed_window, sliding_window, token_bucket$"
    ):
        make_rule(algorithm=name)


@pytest.mark.parametrize("algorithm", ["sliding_window", "token_bucket", "quiet_time"])
def test_an_algorithm_that_cannot_count_distinct_values_is_rejected_with_them(quiet_time, algorithm):
    with pytest.raises(InvalidRule, match=f"works with fixed_window only, not {algorithm}"):
        make_rule(algorithm=algorithm, count_distinct="project")


def test_skip_rules_take_no_registered_algorithm(quiet_time):
    with pytest.raises(InvalidRule, match="takes no algorithm"):
        Rule("r", action="skip", algorithm="quiet_time")


def test_counters_of_a_registered_algorithm_share_no_key_with_others(quiet_time):
    rules = [make_rule(algorithm=name) for name in ALGORITHMS] + [
        make_rule(algorithm="fixed_window", count_distinct="project")
    ]
    assert len({prefixes("test", [rule])[0] for rule in rules}) == len(ALGORITHMS) + 1


def test_a_sentence_names_a_registered_algorithm(quiet_time):
    assert sentence(make_rule()) == "limit 2 per 10 s by user (quiet time)"


def test_published_limits_contain_the_note_of_a_registered_algorithm(quiet_time):
    with override_ruleset("search", [make_rule(characteristics=["ip"])]):
        (limit,) = public_limits(["search"])
    assert (limit.algorithm, limit.sentence) == ("quiet_time", "2 per 10 s per client address; waits")


def test_a_call_of_the_script_has_the_number_of_a_registered_algorithm(quiet_time):
    hits = plan(Ruleset("search", (make_rule(ban_for=3),)), {"user": "1"}.get).hits
    packed = RedisCounters("default")._arguments(hits, 1, CHECK, 0)[-1]
    assert struct.unpack("<Bdd BBddd", packed) == (0, 1, 0, 200, 1, 2, 10_000, 3000)


# Seconds between calls: two calls are allowed, one is blocked and waits a whole period again, and then one is allowed.
WAITS = [0, 9, 9, 9, 10, 0, 9]
FITS = [True, True, False, False, True, True, False]


def test_memory_counts_by_a_registered_algorithm(quiet_time):
    clock = [START]
    counters = MemoryCounters(lambda: clock[0])
    planned = plan(Ruleset("search", (make_rule(),)), {"user": "1"}.get)
    results = []
    for wait in WAITS:
        clock[0] += wait * 1000
        results.append(decide(planned, counters.hit(planned.hits)))
    assert [not result.blocked for result in results] == FITS
    assert [result.evaluations[0].used for result in results] == [1, 2, 2, 2, 1, 2, 2]


@pytest.mark.parametrize("ban_for", [None, 12])
@pytest.mark.parametrize(
    "others", [[], [make_rule(algorithm="fixed_window", limit=4, period=60).with_changes(name="o")]]
)
def test_a_replay_counts_by_a_registered_algorithm(quiet_time, others, ban_for):
    ruleset = Ruleset("search", (*others, make_rule(ban_for=ban_for)))
    clock, calls, expected = [START], [], []
    counters = MemoryCounters(lambda: clock[0])
    for number, wait in enumerate(WAITS * 5):
        clock[0] += wait * 1000
        user = str(number % 3 // 2)
        calls.append(json.dumps({"time": clock[0] / 1000, "identifier": {"user": user}}))
        planned = plan(ruleset, {"user": user}.get)
        expected.append(decide(planned, counters.hit(planned.hits)).blocked)
    reader = JsonLines([calls], asked_for([ruleset]))
    runner = Runner(ruleset, reader)
    blocked = []
    for batch in in_order(reader.batches(), Order()):
        refusals = runner.run(batch)
        blocked += [position in refusals for position in range(len(batch.times))]
    assert blocked == expected
    assert set(blocked) == {True, False}


def test_a_ban_of_a_registered_algorithm_reports_used_plus_this_call(quiet_time):
    clock = [START]
    counters = MemoryCounters(lambda: clock[0])
    hits = plan(Ruleset("search", (make_rule(ban_for=60),)), {"user": "1"}.get).hits
    assert isinstance(hits, Hits)
    tallies = [counters.hit(hits)[0] for _ in range(4)]
    assert [tally.banned for tally in tallies] == [False, False, True, True]
    assert (tallies[3].used, tallies[3].count) == (2, 3)
    assert counters.hit(hits, verb=PEEK)[0].count == 2


def test_no_two_algorithms_share_a_name_a_code_or_a_number():
    for of_row in (str, lambda row: row.code, lambda row: row.wire):
        assert len({of_row(row) for row in ROWS}) == len(ROWS)
    assert all(0 <= row.wire <= 255 for row in ROWS)


def test_every_algorithm_has_a_reader_and_a_writer():
    assert set(READERS) == set(WRITERS) == set(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row_is_its_name_frozen_and_one_object_however_it_is_copied(row):
    assert row == row.value == str(row) == f"{row}"
    assert {row: 1}[row.value] == 1
    assert copy.copy(row) is copy.deepcopy(row) is pickle.loads(pickle.dumps(row)) is row
    assert json.dumps([row]) == json.dumps([row.value])
    with pytest.raises(FrozenInstanceError):
        row.code = "x"
    with pytest.raises((AttributeError, TypeError, FrozenInstanceError)):
        row.other = "x"


def test_a_copied_rule_keeps_its_row():
    rule = copy.deepcopy(make_rule(algorithm="token_bucket"))
    assert rule.algorithm is Algorithm.TOKEN_BUCKET
    assert sentence(rule).endswith("(token bucket)")
    assert make_rule(algorithm=DEFAULT.value).counting is DEFAULT
    assert make_rule(algorithm=DEFAULT.value, count_distinct="project").counting is DISTINCT_VALUES
