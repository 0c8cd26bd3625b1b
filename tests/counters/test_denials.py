"""The denial cache answers certain refusals in this process, and blocks no client for too long."""

from __future__ import annotations

import threading
import time
from dataclasses import fields, replace
from types import MappingProxyType

import pytest
from asgiref.sync import sync_to_async

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.engine import Result
from django_ratelimit_rules.monitoring import recording
from django_ratelimit_rules.signals import checked
from django_ratelimit_rules.testing import override_ruleset
from tests.forks import in_child, needs_fork
from tests.servers import wait_until

WINDOW = Rule("full", limit=2, period=60, characteristics=["user"])


@pytest.fixture(autouse=True)
def _cached(settings):
    settings.RATELIMIT_RULES_DENIAL_CACHE = 100
    settings.RATELIMIT_RULES_REFRESH_SECONDS = 30


@pytest.fixture
def asked(redis_client):
    """Return a function that returns the number of script runs in Redis since its last call."""

    def number() -> int:
        calls = redis_client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)
        redis_client.config_resetstat()
        return calls

    return number


def refused(limiter: Limiter, times: int, user: int = 1, cost: float = 1) -> list[int]:
    results = [limiter.check({"user": user}, cost) for _ in range(times)]
    assert all(result.blocked for result in results)
    return [result.evaluations[0].count for result in results]


@pytest.mark.parametrize(
    "rule",
    [
        WINDOW,
        WINDOW.with_changes(limit=0),
        WINDOW.with_changes(ban_for=600),
        WINDOW.with_changes(ban_for=600, algorithm="sliding_window"),
        WINDOW.with_changes(ban_for=600, algorithm="token_bucket"),
        WINDOW.with_changes(response={"status": 401}, limit=0),
    ],
    ids=["window", "zero", "ban", "ban of a sliding window", "ban of a bucket", "by outcome"],
)
def test_a_certain_refusal_is_answered_without_redis(rule, asked):
    with override_ruleset("api", [rule]):
        limiter = Limiter("api")
        while not limiter.check({"user": 1}).blocked:
            pass
        asked()
        first = limiter.check({"user": 1})
        assert asked() == 0
        assert (first.blocked, first.rule, first.exceeded) == (True, "full", True)
        assert first.evaluations[0].banned is (rule.ban_for is not None)
        assert 0 < first.evaluations[0].reset_after <= 600
        assert not limiter.check({"user": 2}).blocked or rule.limit == 0


@override_ruleset("api", [WINDOW.with_changes(limit=10)])
def test_a_call_that_can_never_pass_does_not_get_the_waiting_time_of_a_smaller_call(asked):
    limiter = Limiter("api")
    limiter.check({"user": 1}, 8)
    small = limiter.check({"user": 1}, 5)
    asked()
    large = limiter.check({"user": 1}, 11)
    assert asked() == 0
    assert (small.blocked, large.blocked) == (True, True)
    assert small.retry_after > 0
    assert large.retry_after is None


@pytest.mark.parametrize("algorithm", ["sliding_window", "token_bucket"])
def test_a_ban_of_a_counter_without_a_tally_reports_used_plus_this_call(algorithm, asked):
    with override_ruleset("api", [WINDOW.with_changes(ban_for=600, period="365d", algorithm=algorithm)]):
        limiter = Limiter("api")
        while not limiter.check({"user": 1}).blocked:
            pass
        used = limiter.peek({"user": 1}).evaluations[0].used
        asked()
        assert refused(limiter, 2) == [used + 1] * 2
        assert refused(limiter, 1, cost=5) == [used + 5]
        assert asked() == 0


@pytest.mark.parametrize(
    "rules",
    [
        [WINDOW.with_changes(algorithm="sliding_window")],
        [WINDOW.with_changes(algorithm="token_bucket")],
        [WINDOW.with_changes(count_distinct="page", limit=0)],
        [WINDOW.with_changes(limit=lambda: 2)],
        [Rule("seen", action="log", limit=1, period=60), WINDOW],
        [Rule("wide", limit=99, period=60), WINDOW],
    ],
    ids=["sliding window", "bucket", "distinct values", "computed", "behind a log rule", "behind a limit"],
)
def test_a_refusal_that_is_not_certain_or_not_alone_goes_to_redis(rules, asked):
    with override_ruleset("api", rules):
        limiter = Limiter("api")
        facts = {"user": 1, "page": "a"}
        while not limiter.check(facts).blocked:
            pass
        asked()
        assert limiter.check(facts).blocked
        assert asked() == 1


@override_ruleset("api", [Rule("other", match={"user": 9}, limit=9, period=60), WINDOW])
async def test_after_a_charge_the_next_refusal_reports_the_new_usage(asked):
    limiter = Limiter("api")
    asked()
    for _ in range(4):
        await limiter.acheck({"user": 1})
    assert asked() == 3
    await limiter.acharge({"user": 1}, 5)
    after = (await limiter.acheck({"user": 1})).evaluations[0]
    assert (after.used, after.count) == (7, 10)
    await sync_to_async(limiter.charge)({"user": 1}, 5)
    after = (await limiter.acheck({"user": 1})).evaluations[0]
    assert (after.used, after.count) == (12, 16)


async def test_asynchronous_checks_are_answered_without_redis_too(asked):
    with override_ruleset("api", [WINDOW]):
        limiter = Limiter("api")
        assert [(await limiter.acheck({"user": 1})).blocked for _ in range(3)] == [False, False, True]
        asked()
        assert (await limiter.acheck({"user": 1})).blocked
        assert asked() == 0
        assert await limiter.areset({"user": 1}) == 1
        assert not (await limiter.acheck({"user": 1})).blocked


def test_refused_calls_are_counted_and_sent_to_redis_with_the_next_command(settings, asked):
    with override_ruleset("api", [WINDOW]):
        limiter = Limiter("api")
        for _ in range(2):
            limiter.check({"user": 1})
        assert refused(limiter, 5) == [3, 4, 5, 6, 7]
        # Redis is asked, because a call with a lower cost than the refused one might be allowed.
        settings.RATELIMIT_RULES_REFRESH_SECONDS = 0.01
        asked()
        assert limiter.check({"user": 1}, 0.5).evaluations[0].count == 7.5
        assert asked() == 1
        assert limiter.peek({"user": 1}).evaluations[0].count == 7.5


@pytest.mark.parametrize("chain", [[], [WINDOW.with_changes(name="bucket", limit=9, algorithm="token_bucket")]])
def test_refused_calls_are_counted_when_a_raised_limit_lets_the_next_one_in(chain):
    limiter = Limiter("api")
    with override_ruleset("api", [WINDOW, *chain]):
        limiter.check({"user": 1}, 2)
        refused(limiter, 5)
    with override_ruleset("api", [WINDOW.with_changes(limit=5), *chain]):
        counted = [limiter.check({"user": 1}).evaluations[0] for _ in range(2)]
    assert [(each.used, each.count) for each in counted] == [(3, 8), (4, 9)]


def test_metrics_count_every_refusal(client):
    with override_ruleset("measured_denials", [WINDOW]):
        limiter = Limiter("measured_denials")
        for _ in range(2):
            limiter.check({"user": 1})
        refused(limiter, 5)
        page = client.get("/metrics").content.decode()
    assert 'django_rate_limiter_calls_total{rate_limiter="measured_denials",result="block"} 5.0' in page


def test_a_client_is_let_in_again_when_its_window_ends():
    with override_ruleset("api", [WINDOW.with_changes(limit=1, period=1)]):
        limiter = Limiter("api")
        limiter.check({"user": 1})
        result = limiter.check({"user": 1})
        time.sleep(result.retry_after)
        assert not limiter.check({"user": 1}).blocked


def test_a_reset_an_edit_and_a_raised_limit_let_the_client_in(redis_client, settings):
    with override_ruleset("api", [WINDOW]):
        limiter = Limiter("api")
        for _ in range(3):
            limiter.check({"user": 1})
        with override_ruleset("api", [WINDOW.with_changes(limit=9)]):
            assert not limiter.check({"user": 1}).blocked
        assert limiter.check({"user": 1}).blocked
        limiter.reset({"user": 1})
        assert not limiter.check({"user": 1}).blocked


def test_a_reset_by_another_process_is_noticed_within_the_refresh_time(redis_client, settings):
    settings.RATELIMIT_RULES_REFRESH_SECONDS = 0.2
    with override_ruleset("api", [WINDOW]):
        limiter = Limiter("api")
        for _ in range(2):
            limiter.check({"user": 1})
        refused(limiter, 3)
        redis_client.delete(*redis_client.keys("*{api}*"))
        wait_until(lambda: not limiter.check({"user": 1}).blocked, what="the client to be allowed", seconds=5)


def test_no_more_refusals_are_kept_than_the_setting_says(settings, asked):
    settings.RATELIMIT_RULES_DENIAL_CACHE = 3
    with override_ruleset("api", [WINDOW.with_changes(limit=0)]):
        limiter = Limiter("api")
        for user in range(10):
            refused(limiter, 1, user)
        assert len(current()._kept) == 3
        asked()
        refused(limiter, 1, user=9)
        assert asked() == 0
        refused(limiter, 1, user=0)
        assert asked() == 1


def test_a_dry_run_blocks_no_client(asked):
    with override_ruleset("api", [WINDOW], mode="dry_run"):
        limiter = Limiter("api")
        limiter.check({"user": 1})
        asked()
        assert not any(limiter.check({"user": 1}).blocked for _ in range(5))
        assert asked() == 5


@pytest.mark.parametrize("rule", [WINDOW, WINDOW.with_changes(ban_for=600)], ids=["window", "ban"])
def test_a_repeated_refusal_differs_from_a_planned_one_only_in_its_numbers(rule, settings):
    # A repeated refusal is explained under the id of the first one.
    settings.RATELIMIT_RULES_DECISIONS = False
    with override_ruleset("api", [rule]):
        limiter = Limiter("api")
        while not limiter.check({"user": 1}).blocked:
            pass
        again = limiter.check({"user": 1}, 2)
        # An identifier that is not a plain dictionary is planned each time.
        planned = limiter.check(MappingProxyType({"user": 1}), 2)
        assert planned.evaluations[0].count - again.evaluations[0].count == (0 if rule.ban_for else 2)
        for result in (again, planned):
            evaluation = result.evaluations[0]
            assert result.most_restrictive == evaluation
            assert 0 < evaluation.reset_after == result.retry_after
        again, planned = (
            replace(
                result,
                evaluations=(result.evaluations[0]._replace(count=0, reset_after=0),),
                most_restrictive=None,
                retry_after=None,
            )
            for result in (again, planned)
        )
        assert [getattr(again, each.name) for each in fields(Result)] == [
            getattr(planned, each.name) for each in fields(Result)
        ]


def test_only_the_refused_client_is_refused_again(asked):
    with override_ruleset("api", [WINDOW.with_changes(limit=1)]):
        limiter = Limiter("api")
        for _ in range(2):
            limiter.check({"user": 1})
        asked()
        # In Python, 1.0 equals 1. For a limiter it is a different user, who was not refused.
        for other in ("1 ", 1.0, False):
            assert not limiter.check({"user": other}).blocked
        assert asked() == 3
        for same in (1, "1", True):
            assert limiter.check({"user": same}).blocked
        assert asked() == 0


def test_a_project_receives_each_refusal_and_the_log_the_first_second_fourth_and_eighth(caplog):
    heard = []

    def hear(result, **_):
        heard.append(result.evaluations[0].count)

    checked.connect(hear)
    try:
        with override_ruleset("api", [WINDOW]), caplog.at_level("WARNING", "django_ratelimit_rules"):
            limiter = Limiter("api")
            for _ in range(2):
                limiter.check({"user": 1})
            refused(limiter, 9)
    finally:
        checked.disconnect(hear)
    assert heard == [*range(1, 12)]
    assert [record.args[4] for record in caplog.records if "exceeded" in record.msg] == [3, 4, 6, 10]


tenant = threading.local()


def tenant_key(key: str, prefix: str, version: int) -> str:
    return f"{tenant.name}:{prefix}:{version}:{key}"


def test_a_refusal_for_one_tenant_is_none_for_another(settings):
    settings.CACHES = {"default": settings.CACHES["default"] | {"KEY_FUNCTION": f"{__name__}.tenant_key"}}
    with override_ruleset("api", [WINDOW]):
        limiter = Limiter("api")
        for tenant.name in ("north", "south"):
            assert [limiter.check({"user": 1}).blocked for _ in range(4)] == [False, False, True, True]


def test_a_record_holds_each_refusal(settings):
    settings.RATELIMIT_RULES_RECORD = 1
    with override_ruleset("api", [WINDOW]):
        refused_and_not = [Limiter("api").check({"user": 1}).blocked for _ in range(6)]
    assert refused_and_not == [False] * 2 + [True] * 4
    assert recording.size() == 6


@needs_fork
def test_a_forked_child_does_not_report_its_parents_refusals():
    with override_ruleset("api", [WINDOW]):
        limiter = Limiter("api")
        for _ in range(2):
            limiter.check({"user": 1})
        refused(limiter, 5)
        # Redis is asked, because a lower cost might be allowed. It has counted one refusal.
        assert in_child(lambda: limiter.check({"user": 1}, 0.5).evaluations[0].count == 3.5) == 0
        assert limiter.check({"user": 1}, 0.5).evaluations[0].count == 8


def test_without_the_cache_redis_is_asked_each_time(settings, asked):
    settings.RATELIMIT_RULES_DENIAL_CACHE = 0
    with override_ruleset("api", [WINDOW]):
        limiter = Limiter("api")
        for _ in range(3):
            limiter.check({"user": 1})
        asked()
        refused(limiter, 2)
        assert asked() == 2
