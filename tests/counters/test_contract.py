"""The contract of a counter store, for Redis and for memory."""

from __future__ import annotations

import asyncio
import math
import sys

import pytest

from django_ratelimit_rules.counters import Verb
from tests.counters.conftest import make_hit

ALGORITHMS = ["fixed_window", "sliding_window", "token_bucket"]


def facts(tally):
    return tally.used, tally.count, tally.exceeded, tally.banned


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_calls_up_to_the_limit_are_within_and_the_next_one_exceeds(store, algorithm):
    hit = make_hit(limit=2, period=86400, algorithm=algorithm)
    said = [facts(store.counters.hit([hit])[0]) for _ in range(3)]
    assert said == [(1, 1, False, False), (2, 2, False, False), (2, 3, True, False)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_refused_chain_charges_no_rule(store, algorithm):
    wide = make_hit("wide", limit=10, period=86400, algorithm=algorithm)
    narrow = make_hit("narrow", limit=1, period=86400, algorithm=algorithm)
    for _ in range(4):
        store.counters.hit([wide, narrow])
    assert [tally.used for tally in store.counters.hit([wide, narrow], verb=Verb.PEEK)] == [1, 1]


def test_tallies_end_with_the_first_hit_that_blocks(store):
    chain = [make_hit("a", limit=1), make_hit("b", limit=5)]
    store.counters.hit(chain)
    assert len(store.counters.hit(chain)) == 1
    assert store.counters.hit(chain[1:], verb=Verb.PEEK)[0].count == 1


def test_a_log_hit_reports_exceeded_and_the_chain_continues(store):
    chain = [make_hit("shadow", limit=1, enforced=False), make_hit("real", limit=5)]
    store.counters.hit(chain)
    shadow, real = store.counters.hit(chain)
    assert facts(shadow) == (1, 2, True, False)
    assert facts(real) == (2, 2, False, False)


def test_a_peek_of_nothing_reports_an_empty_counter_and_writes_nothing(store):
    hit = make_hit()
    assert store.counters.hit([hit], verb=Verb.PEEK)[0] == (0, 0, False, False, 60_000, 0)
    assert store.counters.reset([hit.key]) == 0


def test_a_charge_goes_past_the_limit(store):
    hit = make_hit(limit=3)
    store.counters.hit([hit], 7, Verb.CHARGE)
    assert facts(store.counters.hit([hit])[0]) == (7, 8, True, False)


def test_a_reset_returns_the_number_of_counters(store):
    here, there = make_hit("a"), make_hit("b")
    store.counters.hit([here])
    assert store.counters.reset([here.key, there.key, here.key]) == 1
    assert store.counters.hit([here])[0].used == 1


def test_a_window_ends_at_the_reported_time(store):
    hit = make_hit(limit=1, period=1)
    store.counters.hit([hit])
    refused = store.counters.hit([hit])[0]
    assert refused.exceeded
    assert 0 < refused.retry_ms <= 1000
    store.wait(refused.retry_ms / 1000)
    assert facts(store.counters.hit([hit])[0]) == (1, 1, False, False)


def test_a_bucket_allows_the_next_call_exactly_at_the_reported_time(store):
    hit = make_hit(limit=4, period=2, algorithm="token_bucket")
    store.counters.hit([hit], 4)
    refused = store.counters.hit([hit])[0]
    store.wait(refused.retry_ms / 1000)
    assert not store.counters.hit([hit])[0].exceeded


def test_a_bucket_that_now_fills_more_slowly_forgets_nothing_when_it_would_have_been_full(store):
    for name, slower in (("limit", {"limit": 1, "period": 1}), ("period", {"limit": 10, "period": 600})):
        store.counters.hit([make_hit(name, limit=10, period=1, algorithm="token_bucket")], 10)
        hit = make_hit(name, algorithm="token_bucket", **slower)
        assert store.counters.hit([hit])[0].retry_ms > 8_000
        store.wait(1.2)
        refused = store.counters.hit([hit])[0]
        assert refused.exceeded
        assert refused.used >= 8


def test_a_ban_shorter_than_its_window_does_not_end_the_window(store):
    hit = make_hit(limit=1, period=60, ban_for=1)
    store.counters.hit([hit])
    assert store.counters.hit([hit])[0].banned
    store.wait(1.05)
    again = store.counters.hit([hit], verb=Verb.PEEK)[0]
    assert facts(again) == (1, 2, True, False)
    assert 55_000 < again.reset_ms <= 60_000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_counter_that_held_a_ban_alone_is_gone_with_it(store, algorithm):
    hit = make_hit(limit=0, period=86400, ban_for=1, algorithm=algorithm)
    assert store.counters.hit([hit])[0].banned
    store.wait(1.05)
    # A fixed window also counts blocked calls, and continues until its end.
    assert store.counters.reset([hit.key]) == (algorithm == "fixed_window")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_running_ban_writes_nothing(store, algorithm):
    hit = make_hit(limit=1, period=86400, ban_for=60, algorithm=algorithm)
    store.counters.hit([hit])
    first = store.counters.hit([hit])[0]
    assert first.banned
    later = store.counters.hit([hit], 5)[0]
    assert (later.used, later.banned) == (first.used, True)
    assert later.reset_ms <= first.reset_ms


@pytest.mark.parametrize("algorithm", ["sliding_window", "token_bucket"])
def test_in_a_ban_a_counter_without_a_tally_reports_used_plus_this_call(store, algorithm):
    hit = make_hit(limit=1, period=31_536_000, ban_for=60, algorithm=algorithm)
    store.counters.hit([hit])
    for _ in range(3):
        assert facts(store.counters.hit([hit])[0]) == (1, 2, True, True)
    assert facts(store.counters.hit([hit], 5)[0]) == (1, 6, True, True)
    assert facts(store.counters.hit([hit], verb=Verb.PEEK)[0]) == (1, 1, True, True)
    assert facts(store.counters.hit([hit._replace(looked=True)])[0]) == (1, 1, True, True)


def test_a_looked_hit_is_only_looked_at_and_then_charged(store):
    hit = make_hit(limit=1, response={"status": 401})
    assert facts(store.counters.hit([hit])[0]) == (0, 0, False, False)
    store.counters.hit([hit], 1, Verb.CHARGE)
    assert facts(store.counters.hit([hit])[0]) == (1, 1, True, False)


def test_distinct_values_are_stored_up_to_the_limit_even_by_a_charge(store):
    hits = [make_hit(limit=2, count_distinct="project", member=str(number)) for number in range(4)]
    for hit in hits:
        store.counters.hit([hit], 1, Verb.CHARGE)
    assert facts(store.counters.hit([hits[0]])[0]) == (2, 2, False, False)
    assert facts(store.counters.hit([hits[3]])[0]) == (2, 3, True, False)


def test_distinct_values_after_other_hits_are_not_mixed_up(store):
    chain = [
        make_hit("plain", limit=9),
        make_hit("a", limit=1, count_distinct="x", member="1"),
        make_hit("plain_too", limit=9),
        make_hit("b", limit=1, count_distinct="y", member="2"),
    ]
    assert [tally.exceeded for tally in store.counters.hit(chain)] == [False] * 4
    assert [tally.exceeded for tally in store.counters.hit(chain)] == [False] * 4
    changed = [*chain[:3], chain[3]._replace(member="1")]
    assert [tally.exceeded for tally in store.counters.hit(changed)] == [False, False, False, True]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fractional_costs_add_up_and_come_back_as_they_are(store, algorithm):
    hit = make_hit(limit=300, period=31_536_000, algorithm=algorithm)
    store.counters.hit([hit], 120.5)
    tally = store.counters.hit([hit], 120.5)[0]
    assert tally.used == pytest.approx(241, abs=0.001)
    assert store.counters.hit([hit], 0.25, Verb.CHARGE)[0].used == pytest.approx(241.25, abs=0.001)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fractions_gather_no_noise(store, algorithm):
    hit = make_hit(limit=7, period=31_536_000, algorithm=algorithm)
    tallies = [store.counters.hit([hit], 0.7)[0] for _ in range(11)]
    assert [tally.exceeded for tally in tallies] == [False] * 10 + [True]
    assert tallies[2].used == pytest.approx(2.1, abs=0.001)
    if algorithm != "token_bucket":  # because it refills during the test
        assert tallies[2].used == 2.1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_cost_of_zero_writes_nothing(store, algorithm):
    hit = make_hit(limit=0, algorithm=algorithm, ban_for=5)
    assert store.counters.hit([hit], 0)[0].exceeded
    assert store.counters.reset([hit.key]) == 0


@pytest.mark.parametrize("cost", [2**53, 10**30, 1e300])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_absurd_costs_are_recorded_without_an_error(store, algorithm, cost):
    hit = make_hit(limit=5, algorithm=algorithm)
    for _ in range(3):
        store.counters.hit([hit], cost, Verb.CHARGE)
    tally = store.counters.hit([hit])[0]
    assert tally.exceeded
    assert tally.used >= cost


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_largest_cost_there_is_meets_an_answer_before_and_after_it_was_charged(store, algorithm):
    hit = make_hit(limit=5, period=60, algorithm=algorithm)
    assert store.counters.hit([hit], sys.float_info.max)[0].retry_ms == -1
    store.counters.hit([hit], sys.float_info.max, Verb.CHARGE)
    for cost in (1, sys.float_info.max):
        tally = store.counters.hit([hit], cost)[0]
        assert tally.exceeded
        assert 1e290 < tally.used < math.inf
    assert store.counters.hit([hit._replace(period=31_536_000)])[0].used < math.inf


def test_a_sliding_window_carries_the_largest_cost_over(store):
    hit = make_hit(limit=5, period=1, algorithm="sliding_window")
    store.counters.hit([hit], sys.float_info.max, Verb.CHARGE)
    store.wait(1)
    assert store.counters.hit([hit])[0].exceeded


async def test_the_asynchronous_versions_count_in_the_same_counters(store):
    hit = make_hit(limit=2)
    store.counters.hit([hit])
    assert facts((await store.counters.ahit([hit]))[0]) == (2, 2, False, False)
    tallies = await asyncio.gather(*[store.counters.ahit([hit]) for _ in range(20)])
    assert sorted(tally[0].count for tally in tallies) == list(range(3, 23))
    assert await store.counters.areset([hit.key]) == 1
