"""The call that takes a counter near its limit sends one signal and adds to one metric. Other calls do not."""

from __future__ import annotations

import re

import pytest
from prometheus_client import generate_latest

from django_ratelimit_rules import Limiter, Rule, signals
from django_ratelimit_rules.testing import override_ruleset
from tests.servers import free_port

BY_USER = {"characteristics": ["user"], "limit": 10, "period": 3600}


@pytest.fixture
def sent():
    """Record the values of the signal in this test: rule, used, limit, key."""
    found = []

    def note(sender, signal, limiter, rule, used, limit, key):
        assert limiter == "near"
        found.append((rule.name, used, limit, key))

    signals.near_limit.connect(note)
    yield found
    signals.near_limit.disconnect(note)


def counted() -> dict[str, float]:
    pattern = r'^django_rate_limiter_near_limit_total\{rate_limiter="near",rule="(\w+)"\} (\S+)$'
    return {rule: float(value) for rule, value in re.findall(pattern, generate_latest().decode(), re.MULTILINE)}


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window", "token_bucket"])
def test_only_the_eighth_of_ten_calls_sends_the_signal(sent, algorithm):
    before = counted().get("all", 0)
    with override_ruleset("near", [Rule("all", algorithm=algorithm, **BY_USER | {"period": 86_400 * 365})]):
        for _ in range(14):
            Limiter("near").check({"user": 7})
        assert [said[:3] for said in sent] == [("all", 8, 10)]
        Limiter("near").check({"user": 8})
    assert counted()["all"] == before + 1
    assert sent[0][3].endswith("7")


async def test_an_asynchronous_check_sends_the_signal_too(sent):
    with override_ruleset("near", [Rule("all", **BY_USER)]):
        for _ in range(9):
            await Limiter("near").acheck({"user": 7})
    assert len(sent) == 1


@pytest.mark.parametrize(("warn_at", "at"), [(50, 5), (75, 8), (100, 10), (1, 1)])
def test_a_rule_sets_the_share(sent, warn_at, at):
    with override_ruleset("near", [Rule("all", warn_at=warn_at, **BY_USER)]):
        for _ in range(12):
            Limiter("near").check({"user": 7})
    assert [said[1] for said in sent] == [at]


def test_a_rule_may_send_no_signal_and_a_rule_of_distinct_values_sends_none(sent):
    rules = [Rule("quiet", warn_at=0, **BY_USER), Rule("distinct", count_distinct="path", **BY_USER)]
    with override_ruleset("near", rules):
        for number in range(12):
            Limiter("near").check({"user": 7, "path": f"/{number}"})
    assert sent == []


def test_a_cost_that_passes_the_threshold_sends_the_signal_once(sent):
    with override_ruleset("near", [Rule("all", **BY_USER)]):
        for cost in (5, 4, 0, 1):
            Limiter("near").check({"user": 7}, cost=cost)
    assert [said[1] for said in sent] == [9]


def test_a_call_that_another_rule_refuses_takes_no_counter_there(sent):
    rules = [Rule("all", **BY_USER), Rule("eight", **BY_USER | {"limit": 8}, warn_at=0)]
    with override_ruleset("near", rules):
        for _ in range(12):
            Limiter("near").check({"user": 7})
    assert [said[:2] for said in sent] == [("all", 8)]


def test_peeking_sends_no_signal(sent):
    with override_ruleset("near", [Rule("all", **BY_USER)]):
        for _ in range(8):
            Limiter("near").check({"user": 7})
        sent.clear()
        for _ in range(3):
            Limiter("near").peek({"user": 7})
    assert sent == []


def test_a_charge_and_a_rule_by_outcome_send_the_signal_when_they_are_charged(sent):
    rules = [Rule("failed", response={"status": 401}, **BY_USER | {"limit": 5}), Rule("all", **BY_USER)]
    limiter = Limiter("near")
    with override_ruleset("near", rules):
        for _ in range(4):
            limiter.settle(limiter.check({"user": 7}), {"status": 401})
        limiter.charge({"user": 7}, 20)
        limiter.charge({"user": 7}, 1)
    assert [said[:3] for said in sent] == [("failed", 4, 5), ("all", 24, 10)]


def test_a_dry_run_a_log_rule_and_counters_of_this_process_send_the_signal(sent, settings):
    rules = [Rule("shadow", action="log", **BY_USER | {"limit": 5}), Rule("all", **BY_USER)]
    with override_ruleset("near", rules, mode="dry_run"):
        for _ in range(9):
            Limiter("near").check({"user": 7})
    assert [said[:2] for said in sent] == [("shadow", 4), ("all", 8)]
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"redis://127.0.0.1:{free_port()}/0"}}
    with override_ruleset("near", rules[1:], failure_mode="local"):
        for _ in range(9):
            Limiter("near").check({"user": 7})
    assert len(sent) == 3


def test_a_receiver_that_fails_changes_no_decision():
    def broken(**_):
        raise RuntimeError

    signals.near_limit.connect(broken, weak=False)
    try:
        with override_ruleset("near", [Rule("all", **BY_USER | {"limit": 1})]):
            assert not Limiter("near").check({"user": 7}).blocked
    finally:
        signals.near_limit.disconnect(broken)
