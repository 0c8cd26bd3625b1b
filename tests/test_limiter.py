"""The limiter: the cost and exactness of a check, and the decision while the store is unavailable."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import SimpleLazyObject

from django_ratelimit_rules import Limiter, RateLimited, Rule, limiter
from django_ratelimit_rules.exceptions import InvalidRule
from django_ratelimit_rules.rulesets import snapshot
from django_ratelimit_rules.runtime import background
from django_ratelimit_rules.testing import override_ruleset, reset_counters
from tests.servers import free_port

PER_USER = Rule("per_user", action="limit", characteristics=["user"], limit=2, period=60)
SKIP = Rule("staff", action="skip", match={"staff": True})
api = Limiter("api")


@pytest.fixture
def nobody_listens(settings):
    location = f"redis://127.0.0.1:{free_port()}/0"
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": location}}


def evalsha_calls(client) -> int:
    return int(client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))


@pytest.mark.django_db
@override_ruleset("api", [SKIP, PER_USER, Rule("org", characteristics=["org"], limit=9, period=60)])
def test_a_check_takes_one_evalsha_and_no_sql(redis_client, django_assert_num_queries):
    api.check({"user": 0})
    before = evalsha_calls(redis_client)
    with django_assert_num_queries(0):
        api.check({"user": 1, "org": 1})
    assert evalsha_calls(redis_client) == before + 1


@pytest.mark.django_db
@override_ruleset("api", [SKIP, Rule("pro", match={"plan": "pro"}, limit=1, period=60)])
def test_a_check_that_counts_nothing_sends_no_command(redis_client, django_assert_num_queries):
    api.check({"staff": True})
    before = evalsha_calls(redis_client)
    with django_assert_num_queries(0):
        assert api.check({"staff": True}).skipped
        assert not api.check({"plan": "free"}).matched
    assert evalsha_calls(redis_client) == before


@pytest.mark.django_db
def test_a_limiter_without_rules_allows(redis_client):
    result = Limiter("unheard_of").check({"user": 1})
    assert (result.action, result.matched, result.evaluations) == ("allow", False, ())


@override_ruleset("api", [PER_USER])
def test_enforce_raises_with_the_result():
    api.enforce({"user": 1}, cost=2)
    with pytest.raises(RateLimited, match=r"'api' blocked .* by rule 'per_user'; it may pass in [56]\d\.") as raised:
        api.enforce({"user": 1})
    assert raised.value.result.blocked


@override_ruleset("api", [PER_USER])
async def test_the_asynchronous_versions_return_the_same():
    assert (await api.acheck({"user": 1})).action == "allow"
    await api.acharge({"user": 1}, 1)
    assert (await api.apeek({"user": 1})).blocked
    with pytest.raises(RateLimited):
        await api.aenforce({"user": 1})
    assert await api.areset({"user": 1}) == 1


@override_ruleset("api", [Rule("failures", characteristics=["ip"], limit=1, period=60, response={"status": 401})])
async def test_a_result_settles_once_in_both_colours():
    result = api.check({"ip": "203.0.113.7"})
    await api.asettle(result, {"status": 401})
    api.settle(result, {"status": 401})
    assert api.peek({"ip": "203.0.113.7"}).evaluations[0].used == 1
    assert api.check({"ip": "203.0.113.7"}).blocked


@pytest.mark.parametrize("cost", [True, "1", None, [1], -1, float("nan"), float("inf"), 10**400])
@override_ruleset("api", [PER_USER])
def test_an_invalid_cost_is_rejected_before_redis_is_used(keys, cost):
    with pytest.raises((TypeError, ValueError), match="cost"):
        api.check({"user": 1}, cost=cost)
    assert keys() == []


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1,), {1}, iter("x"), {}.keys()])
@override_ruleset("api", [PER_USER])
def test_a_container_is_refused_whether_a_rule_uses_it_or_not(value):
    for name in ("user", "unused"):
        with pytest.raises(TypeError, match=name):
            api.check({name: value})
    with pytest.raises(TypeError, match="mapping"):
        api.check([("user", 1)])


def test_code_rules_given_twice_for_one_name_are_refused():
    Limiter("given_once", rules=[PER_USER])
    assert Limiter("given_once").name == "given_once"
    with pytest.raises(ImproperlyConfigured, match="given_once"):
        Limiter("given_once", rules=[PER_USER])


@override_ruleset("api", [Rule("per_user", action="limit", characteristics=["user"], limit=50, period=60)])
def test_exactly_the_limit_of_many_threads_passes():
    # Report 11.
    def twenty(_):
        return [api.check({"user": 1}) for _ in range(20)]

    with ThreadPoolExecutor(20) as pool:
        results = [result for batch in pool.map(twenty, range(20)) for result in batch]
    passed = [result.evaluations[0].remaining for result in results if not result.blocked]
    assert sorted(passed) == list(range(50))


def test_exactly_the_limit_of_many_processes_passes():
    # Report 11.
    program = textwrap.dedent(
        """
        import django
        django.setup()
        from django_ratelimit_rules import Limiter, Rule
        from django_ratelimit_rules.testing import override_ruleset
        chain = [
            Rule("wide", characteristics=["org"], limit=90, period=60),
            Rule("narrow", characteristics=["user"], limit=40, period=60),
        ]
        with override_ruleset("api", chain):
            print(sum(not Limiter("api").check({"org": 1, "user": n % 3}).blocked for n in range(150)))
        """
    )
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert sum(int(process.communicate(timeout=60)[0]) for process in running) == 90


@pytest.mark.usefixtures("nobody_listens")
@pytest.mark.parametrize(("failure_mode", "action"), [("open", "allow"), ("closed", "block")])
def test_without_redis_the_failure_mode_answers_with_an_error(failure_mode, action):
    with override_ruleset("api", [PER_USER], failure_mode=failure_mode):
        result = api.check({"user": 1})
    assert (result.action, result.error, result.evaluations) == (action, True, ())
    assert (result.retry_after or 0) <= 0.1


@pytest.mark.usefixtures("nobody_listens")
@override_ruleset("api", [PER_USER], failure_mode="local")
def test_without_redis_the_local_mode_counts_in_this_process():
    assert [api.check({"user": 1}).blocked for _ in range(4)] == [False, False, True, True]
    assert api.check({"user": 1}).error
    assert reset_local() is None
    assert not api.check({"user": 1}).blocked


def reset_local() -> None:
    from django_ratelimit_rules.limiter import forget_local_counters

    forget_local_counters()


@pytest.mark.usefixtures("nobody_listens")
@override_ruleset("api", [PER_USER], mode="dry_run", failure_mode="closed")
def test_a_dry_run_blocks_nothing_even_without_redis():
    assert not api.check({"user": 1}).blocked


@pytest.mark.usefixtures("nobody_listens")
@override_ruleset("api", [PER_USER])
def test_an_outage_logs_one_line_a_minute(caplog):
    for _ in range(50):
        api.check({"user": 1})
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


@override_ruleset("api", [Rule("per_user", limit=lambda: 1 / 0, period=60)], failure_mode="closed")
def test_a_callable_that_raises_is_answered_by_the_failure_mode():
    assert api.check({}).blocked
    assert api.check({}).error


@override_ruleset("api", [Rule("watched", action="log", characteristics=["user"], limit=1, period=60), PER_USER])
def test_a_log_rule_over_its_limit_leaves_one_line_a_call(caplog):
    # Report 25.
    caplog.set_level(logging.INFO)
    for _ in range(2):
        api.check({"user": 1})
    lines = [record.getMessage() for record in caplog.records if "watched" in record.getMessage()]
    assert len(lines) == 1
    assert "limiter=api" in lines[0]


@override_ruleset("api", [PER_USER])
def test_switched_off_by_setting_everything_passes_uncounted(settings, keys):
    # Report 35.
    for _ in range(2):
        settings.RATELIMIT_RULES_ENABLED = False
        assert not api.check({"user": 1}, cost=99).matched
        settings.RATELIMIT_RULES_ENABLED = True
        assert api.check({"user": 1}, cost=99).blocked
    assert reset_counters("api") == 1
    assert keys() == []


@override_ruleset("api", [PER_USER])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_reset_while_switched_off_by_setting_still_forgets(settings, asynchronous):
    api.check({"user": 1})
    settings.RATELIMIT_RULES_ENABLED = False
    assert (asyncio.run(api.areset({"user": 1})) if asynchronous else api.reset({"user": 1})) == 1
    settings.RATELIMIT_RULES_ENABLED = True
    assert api.peek({"user": 1}).evaluations[0].count == 0


@override_ruleset("api", [PER_USER])
def test_a_receiver_that_raises_never_changes_a_decision():
    from django_ratelimit_rules import signals

    def broken(**_):
        raise RuntimeError("receiver")

    signals.checked.connect(broken)
    try:
        assert api.check({"user": 1}).action == "allow"
    finally:
        signals.checked.disconnect(broken)


def test_overrides_nest_and_end_and_hold_on_functions_of_both_colours():
    with override_ruleset("api", [PER_USER]):
        with override_ruleset("api", [PER_USER], mode="off"):
            assert not api.check({"user": 1}).matched
        assert api.check({"user": 1}).matched
    with pytest.raises(TypeError, match="not both"):
        override_ruleset("api", [PER_USER], tiers={"code": []})


@pytest.mark.usefixtures("nobody_listens")
def test_a_callable_is_called_once_even_when_the_local_counters_answer():
    asked = []

    def flaky():
        asked.append(1)
        if len(asked) % 2 == 0:
            raise RuntimeError
        return 3

    with override_ruleset("api", [Rule("r", limit=flaky, period=60)], failure_mode="local"):
        assert api.check({}).evaluations[0].limit == 3
        assert api.check({}).error
    assert len(asked) == 2


@override_ruleset("api", [PER_USER])
def test_strangers_count_separately_by_address_and_a_lazy_none_is_missing(keys):
    for address in ("203.0.113.1", "203.0.113.2"):
        assert not api.check({"user": AnonymousUser(), "ip": address}, cost=2).blocked
        assert api.check({"user": SimpleLazyObject(AnonymousUser), "ip": address}).blocked
    api.check({"user": SimpleLazyObject(lambda: None)})
    assert not any("None" in key or "Anonymous" in key for key in keys())


@override_ruleset("api", [PER_USER])
def test_odd_names_in_an_identifier_hurt_only_when_they_are_no_text():
    assert api.check({"user": 1, "a|b": 2, "header.X-\x00": 3, "x." * 200: 4}).matched
    with pytest.raises(TypeError, match="must be a string"):
        api.check({5: 1})


@pytest.mark.parametrize("spelled", ["header.x-team", "header.X-Team", "Header.X_TEAM", "header.x-team | lower"])
def test_a_fact_wins_over_the_request_however_its_name_is_spelled(rf, spelled):
    rule = Rule("red", match={"header.x-team|lower": "red"}, limit=5, period=60)
    with override_ruleset("api", [rule]):
        assert api.check_request(rf.get("/", headers={"X-Team": "blue"}), identifier={spelled: "red"}).matched


@pytest.mark.django_db
def test_a_query_set_is_a_container():
    with pytest.raises(TypeError, match="user"):
        api.check({"user": User.objects.all()})


@override_ruleset("api", [Rule("r", limit=lambda *, context: context, period=60)])
def test_a_required_keyword_gets_the_context():
    assert api.check({}, context=7).evaluations[0].limit == 7


def test_an_asynchronous_callable_is_refused_when_the_rule_is_made():
    async def limit():
        return 5

    with pytest.raises(InvalidRule, match="regular function"):
        Rule("r", limit=limit, period=60)


@override_ruleset("api", [Rule("failures", characteristics=["ip"], limit=9, period=60, response={"status": 401})])
def test_a_bad_answer_spends_no_result_and_a_peek_settles_nothing():
    result = api.check({"ip": "203.0.113.7"})
    with pytest.raises(TypeError):
        api.settle(result, None)
    api.settle(result, {"status": 401})
    api.settle(api.peek({"ip": "203.0.113.7"}), {"status": 401})
    with override_ruleset("api", mode="off"):
        api.settle(result, {"status": 401})
    assert api.peek({"ip": "203.0.113.7"}).evaluations[0].used == 1


@override_ruleset("api", [PER_USER])
def test_errors_survive_pickling_as_a_task_queue_does_it():
    with pytest.raises(RateLimited) as raised:
        api.enforce({"user": 1}, cost=3)
    assert pickle.loads(pickle.dumps(raised.value)).result.rule == "per_user"
    assert str(pickle.loads(pickle.dumps(InvalidRule("limit", "no", rule="r")))) == "rule 'r': limit: no"


def test_an_override_of_the_modes_alone_keeps_the_rules():
    with override_ruleset("api", [PER_USER]), override_ruleset("api", mode="dry_run"):
        result = api.check({"user": 1}, cost=5)
    assert (result.action, result.exceeded, result.rule) == ("allow", True, "per_user")


def test_an_override_decorates_test_cases_as_a_whole_and_refuses_other_classes():
    @override_ruleset("api", [PER_USER])
    class Case(unittest.TestCase):
        def test_rules_are_there(self):
            assert api.check({"user": 1}).matched

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert (result.testsRun, result.failures, result.errors) == (1, [], [])
    with pytest.raises(TypeError, match="unittest"):
        override_ruleset("api", [PER_USER])(object)


def test_a_child_forked_while_a_lock_was_held_continues(django_db_blocker):
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with snapshot.rules.lock, limiter.local.counters.lock:
            held.set()
            let_go.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(5)
            with override_ruleset("api", [PER_USER]):
                limiter.local.counters.reset(["x"])
            status = 0
        finally:
            os._exit(status)
    let_go.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_process_forks_between_two_looks_of_the_refresher_and_not_within_one():
    at_work, let_go = threading.Event(), threading.Event()

    def task():
        at_work.set()
        let_go.wait(2)
        at_work.clear()

    background.every(0, task)
    try:
        background.ensure()
        assert at_work.wait(10)
        threading.Timer(0.2, let_go.set).start()
        child = os.fork()
        if child == 0:
            os._exit(at_work.is_set())
        assert os.waitpid(child, 0)[1] == 0
    finally:
        let_go.set()
        del background.tasks[task]
