"""Behaviour of only the memory store: it keeps within its bound at a low cost."""

from __future__ import annotations

import time
from unittest import mock

import pytest

from django_ratelimit_rules.counters.memory import MemoryCounters
from django_ratelimit_rules.engine.algorithms import ALGORITHMS
from tests.counters.conftest import make_hit


def test_more_counters_than_it_holds_cost_no_sweep_each():
    store = MemoryCounters(max_counters=1000)
    for number in range(3000):
        store.hit([make_hit(value=str(number))])
        assert store.size() <= 1000
    assert 0 < store.sweeps < 20
    # The newest are kept.
    assert store.hit([make_hit(value="2999")])[0].used == 2


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_a_clock_that_is_set_gives_no_quota_and_makes_no_client_wait_longer(algorithm):
    """Report 12, while Redis is unavailable."""
    store, real = MemoryCounters(), time.time
    tallies = []
    for number in range(12):
        with mock.patch("time.time", lambda skew=60 if number % 2 else -60: real() + skew):
            tallies += store.hit([make_hit(algorithm=algorithm, limit=5, period=60)])
    assert [tally.exceeded for tally in tallies] == [False] * 5 + [True] * 7
    # A sliding window allows calls again a fifth of a period after its end.
    assert all(0 < tally.retry_ms <= 72_000 for tally in tallies[5:])
