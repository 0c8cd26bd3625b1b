"""Events: each observer and receiver is called even if another one raises, and receives a frozen result."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError

import pytest

from django_ratelimit_rules import Limiter, Rule, signals
from django_ratelimit_rules.monitoring import exceeding_clients, log_lines, metrics
from django_ratelimit_rules.testing import override_ruleset

RULE = Rule("one", characteristics=["user"], limit=1, period=60)
ANSWERS = Rule("failures", characteristics=["user"], limit=2, period=60, response={"status": 401})


@pytest.fixture
def heard():
    """Record the keyword arguments of ``checked``, in order."""
    heard = []

    def receive(**arguments):
        heard.append(arguments)

    signals.checked.connect(receive)
    yield heard
    signals.checked.disconnect(receive)


def raising(_event):
    raise RuntimeError("observer")


@pytest.mark.parametrize("asynchronous", [False, True])
@override_ruleset("api", [RULE])
def test_an_observer_that_raises_silences_neither_the_others_nor_the_projects_receiver(
    heard, monkeypatch, asynchronous, caplog
):
    seen = []
    monkeypatch.setattr(signals.checked, "observers", (raising, seen.append, raising))
    limiter = Limiter("api")
    for _ in range(3):
        asyncio.run(limiter.acheck({"user": 1})) if asynchronous else limiter.check({"user": 1})
    assert [event.result.blocked for event in seen] == [False, True, True]
    assert [arguments["result"].blocked for arguments in heard] == [False, True, True]
    assert [record.message for record in caplog.records if record.name == signals.__name__] == [
        "An observer of limiter api failed. The decision is unchanged"
    ]


def test_the_apps_own_observers_are_plain_and_the_same_for_every_process():
    assert signals.checked.observers == (metrics.count_check, log_lines.log_check, exceeding_clients.note)


@override_ruleset("api", [RULE])
def test_a_receiver_gets_every_field_of_the_event_by_name(heard):
    Limiter("api").check({"user": 1})
    (arguments,) = heard
    assert set(signals.CheckEvent._fields) <= set(arguments)
    assert (arguments["sender"], arguments["limiter"], arguments["refused_again"]) == (Limiter, "api", False)


@override_ruleset("api", [RULE, ANSWERS])
def test_a_result_is_frozen_when_it_is_announced_and_only_settling_changes_it(heard):
    limiter = Limiter("api")
    result = limiter.check({"user": 1})
    assert heard[0]["result"] is result
    for name in ("action", "pending", "cost", "decision"):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(result, name, None)
    assert [evaluation.used for evaluation in result.evaluations] == [1, 0]
    limiter.settle(result, {"status": 401})
    assert ([evaluation.used for evaluation in result.evaluations], result.pending) == ([1, 1], ())


@override_ruleset("api", [RULE])
def test_a_decision_has_its_id_before_it_is_announced(heard):
    limiter = Limiter("api")
    limiter.check({"user": 1})
    refused = limiter.check({"user": 1})
    assert refused.decision is not None
    assert heard[1]["result"].decision == refused.decision
