"""A test moves the clock of counters, bans and rule expiry, in all threads, until the end of the block."""

from __future__ import annotations

import asyncio
import math
import threading
import unittest
from datetime import UTC, datetime, timedelta, timezone

import pytest

from django_ratelimit_rules import Limiter, Rule, rulesets
from django_ratelimit_rules.counters.aliases import current, of_alias
from django_ratelimit_rules.engine.algorithms import ALGORITHMS
from django_ratelimit_rules.monitoring import decisions, exceeding_clients, last_hour
from django_ratelimit_rules.runtime.clock import clock as process_clock
from django_ratelimit_rules.testing import moved_clock, override_ruleset, reset, reset_counters
from tests.forks import in_child, needs_fork
from tests.servers import AWAY

START = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)
api = Limiter("api")
ONE = {"characteristics": ["user"], "limit": 1, "period": 60}
PER_USER = Rule("per_user", **ONE)


@pytest.fixture(autouse=True)
def _rules():
    with override_ruleset("api", [PER_USER]):
        yield


def blocked(user: object = 1) -> bool:
    return api.check({"user": user}).blocked


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_call_is_allowed_after_the_clock_has_moved_by_its_retry_after(algorithm, keys):
    with override_ruleset("api", [Rule("r", **ONE | {"algorithm": algorithm})]), moved_clock(START) as clock:
        assert not blocked()
        refused = api.check({"user": 1})
        assert refused.blocked
        assert 0 < refused.retry_after <= 120
        clock.move(refused.retry_after - 0.001)
        assert blocked()
        clock.move(0.001)
        assert not blocked()
    assert keys() == []


def test_the_clock_stops_until_it_is_moved():
    with moved_clock(START) as clock:
        api.check({"user": 1})
        first, second = (api.peek({"user": 1}).evaluations[0].reset_after for _ in range(2))
        assert first == second == 60
        assert (clock.now, clock.timestamp()) == (START, START.timestamp())
        clock.move(0.1)
        clock.move(0.2)
        assert clock.now == START + timedelta(milliseconds=300)
        assert api.peek({"user": 1}).evaluations[0].reset_after == 59.7


def test_sums_of_fractions_reach_the_end_of_a_window_to_the_millisecond():
    with moved_clock(START) as clock:
        assert not blocked()
        for _ in range(599):
            clock.move(0.1)
        assert blocked()
        clock.move(0.1)
        assert not blocked()


def test_distinct_values_are_forgotten_after_the_period():
    rule = Rule("spread", characteristics=["user"], count_distinct="team", limit=1, period=3600)
    with override_ruleset("api", [rule]), moved_clock(START) as clock:
        assert not api.check({"user": 1, "team": "a"}).blocked
        assert api.check({"user": 1, "team": "b"}).blocked
        clock.move(3600)
        assert not api.check({"user": 1, "team": "b"}).blocked


def test_a_ban_lasts_as_long_as_it_says():
    with override_ruleset("api", [Rule("r", **ONE, ban_for=86_400)]), moved_clock(START) as clock:
        assert [blocked(), blocked()] == [False, True]
        clock.move(86_399)
        assert api.peek({"user": 1}).evaluations[0].banned
        assert blocked()
        clock.move(1)
        assert not blocked()


def test_rules_expire_by_the_clock_and_are_in_force_again_after_the_block():
    soon = datetime.now(UTC) + timedelta(days=1)
    with override_ruleset("api", [Rule("r", **ONE | {"limit": 0}, expires_at=soon)]):
        assert blocked()
        with moved_clock(soon - timedelta(seconds=60)) as clock:
            assert blocked()
            clock.move(59)
            assert blocked()
            clock.move(1)
            assert not blocked()
            assert rulesets.get("api").rules == ()
        assert blocked()


def test_a_rule_that_has_expired_is_in_force_on_a_clock_of_before():
    past = datetime(2020, 1, 1, tzinfo=UTC)
    with override_ruleset("api", [Rule("r", **ONE | {"limit": 0}, expires_at=past)]):
        assert not blocked()
        with moved_clock(past - timedelta(seconds=1)) as clock:
            assert blocked()
            clock.move(1)
            assert not blocked()
        assert not blocked()


@pytest.mark.django_db
def test_rules_of_code_expire_by_the_clock_as_overridden_ones_do():
    until = datetime.now(UTC) + timedelta(days=1)
    limiter = Limiter("moved_clock_code", rules=[Rule("r", limit=0, period=60, expires_at=until)])
    assert limiter.check({}).blocked
    with moved_clock(until):
        assert not limiter.check({}).blocked
    assert limiter.check({}).blocked


async def test_asynchronous_checks_share_the_counters_of_synchronous_ones():
    with moved_clock(START) as clock:
        assert not (await api.acheck({"user": 1})).blocked
        assert blocked()
        clock.move(60)
        assert not blocked()
        assert (await api.acheck({"user": 1})).blocked
        assert await api.areset({"user": 1}) == 1
        assert not (await api.acheck({"user": 1})).blocked


def test_it_holds_in_every_thread():
    results = []
    with moved_clock(START) as clock:
        for _ in range(2):
            threads = [threading.Thread(target=lambda: results.append(blocked())) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            clock.move(60)
    assert (results.count(False), len(results)) == (2, 16)


def test_threads_that_move_one_clock_lose_no_second():
    with moved_clock(START) as clock:
        threads = [threading.Thread(target=lambda: [clock.move(1) for _ in range(500)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert clock.now == START + timedelta(seconds=2000)


def test_blocks_are_nested_and_each_ends_as_the_one_around_it_was(keys):
    with moved_clock(START) as outer:
        assert not blocked()
        with moved_clock(0) as inner:
            assert [blocked(), blocked()] == [False, True]
            outer.move(1000)
            assert blocked()
            inner.move(60)
            assert not blocked()
            assert process_clock.now() == 60
        assert process_clock.now() == START.timestamp() + 1000
        assert [blocked(), blocked()] == [False, True]
    assert keys() == []
    assert current() is of_alias()
    assert [blocked(), blocked()] == [False, True]
    assert len(keys()) == 1


def test_an_error_in_the_block_ends_it():
    with pytest.raises(KeyError), moved_clock(START):
        raise KeyError
    assert current() is of_alias()
    assert abs(process_clock.now() - datetime.now(UTC).timestamp()) < 60


def test_redis_is_not_needed(settings):
    settings.CACHES = AWAY
    with moved_clock(START):
        result = [api.check({"user": 1}) for _ in range(2)][1]
        assert (result.blocked, result.error) == (True, False)
        assert decisions.find(result.decision)["at"] == START.timestamp()
        assert reset_counters("api") == 1
        assert not blocked()


def test_refusals_that_were_cached_before_the_block_do_not_reach_into_it(settings):
    settings.RATELIMIT_RULES_DENIAL_CACHE = 10
    assert [blocked(), blocked(), blocked()] == [False, True, True]
    with moved_clock(START) as clock:
        assert [blocked(), blocked()] == [False, True]
        clock.move(60)
        assert not blocked()


def test_the_last_hour_is_that_of_the_clock(settings):
    with moved_clock(START) as clock:
        for _ in range(3):
            blocked()
        assert last_hour.of_limiter("api").all.totals == (3, 2, 2)
        assert exceeding_clients.of_rules("api", ["per_user"])["per_user"].number == 1
        clock.move(3600)
        assert last_hour.of_limiter("api").all.totals == (0, 0, 0)
        assert exceeding_clients.of_rules("api", ["per_user"])["per_user"].number == 0


def test_a_reset_in_the_block_leaves_clock_and_counters():
    with moved_clock(START):
        assert not blocked()
        reset()
        assert blocked()
        assert process_clock.now() == START.timestamp()


@moved_clock(START)
def test_it_decorates_functions():
    assert [blocked(), blocked()] == [False, True]
    assert process_clock.now() == START.timestamp()


@moved_clock(START)
async def test_it_decorates_asynchronous_functions():
    await asyncio.sleep(0)
    assert process_clock.now() == START.timestamp()


def test_it_decorates_test_cases_as_a_whole():
    @moved_clock(START)
    class Case(unittest.TestCase):
        def test_the_clock_is_moved(self):
            assert process_clock.now() == START.timestamp()

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert (result.testsRun, result.failures, result.errors) == (1, [], [])
    assert current() is of_alias()
    with pytest.raises(TypeError, match="moved_clock decorates functions and unittest cases"):
        moved_clock(START)(object)


def test_one_clock_starts_again_each_time_and_not_twice_at_once():
    clock = moved_clock(START)
    for _ in range(2):
        with clock:
            assert not blocked()
            clock.move(5)
            assert clock.now == START + timedelta(seconds=5)
            with pytest.raises(RuntimeError, match="in use"), clock:
                pass


@pytest.mark.parametrize("start", [datetime(2031, 1, 1), math.nan, math.inf])
def test_a_start_that_is_no_moment_is_rejected(start):
    with pytest.raises(ValueError, match="a clock starts at"):
        moved_clock(start)


@pytest.mark.parametrize("start", [START, START.astimezone(timezone(timedelta(hours=9))), START.timestamp()])
def test_a_start_is_an_aware_datetime_of_any_zone_or_a_posix_time(start):
    with moved_clock(start) as clock:
        assert clock.now == START


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf])
def test_a_clock_goes_only_forwards(seconds):
    with moved_clock(START) as clock, pytest.raises(ValueError, match="a clock moves by"):
        clock.move(seconds)


@needs_fork
def test_a_forked_child_keeps_the_clock_and_has_its_own_counters():
    with moved_clock(START) as clock:
        assert not blocked()

        def moves() -> bool:
            before = blocked()
            clock.move(60)
            return before and not blocked()

        assert in_child(moves) == 0
        assert blocked()
