"""Compares each decision of a replay with the engine's decision, for random rules and traffic.

A replay caches and skips work, but must decide each call like ``engine.plan``, ``MemoryCounters`` and
``engine.decide``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_ratelimit_rules.counters import Verb
from django_ratelimit_rules.counters.memory import MemoryCounters
from django_ratelimit_rules.engine import KeyWriter, Mode, Outcome, Rule, Ruleset, decide, plan
from django_ratelimit_rules.replay import plan_cache
from django_ratelimit_rules.replay.plan_cache import Refusal
from django_ratelimit_rules.replay.runner import (
    Blocked,
    Numbers,
    Runner,
    who,
)
from django_ratelimit_rules.replay.traffic.batches import Order, in_order
from django_ratelimit_rules.replay.traffic.formats import asked_for
from django_ratelimit_rules.replay.traffic.json_lines import JsonLines

NAMES = ["a", "b", "c", "d", "e"]
START = 1_700_000_000_000
matches = st.sampled_from(
    [
        {},
        {},
        {},
        {"plan": "free"},
        {"plan": None},
        {"path": {"prefix": "/x"}},
        [{"path": "/y"}, {"plan": {"not": "pro"}}],
    ]
)


@st.composite
def rules(draw: Any, name: str, plain: bool = False) -> Rule:
    """Return a strategy of rules. A replay may count plain rules by its fast path."""
    action = draw(st.sampled_from(["limit", "limit", "limit", "log", "skip"]))
    match = draw(matches)
    if action == "skip":
        return Rule(name, action=action, match=draw(st.sampled_from([{"plan": "pro"}, {"path": "/y"}])))
    options: dict[str, Any] = {
        "limit": draw(st.sampled_from([1, 2, 3, 5, 10] if plain else [0, 1, 2, 3, 5, 10])),
        "period": draw(st.sampled_from([1, 2, 7, 60])),
        "characteristics": draw(st.sampled_from([["user"], [], ["ip"], ["ip", "header.x-key|lower"]])),
        "response": None if plain else draw(st.sampled_from([None, None, None, {"status": [401, 403]}, {}])),
    }
    kind = draw(st.sampled_from(["fixed_window", "fixed_window", "sliding_window", "token_bucket", "distinct"]))
    if kind == "distinct":
        options["count_distinct"] = draw(st.sampled_from(["path", "plan"]))
    else:
        options["algorithm"] = kind
        options["ban_for"] = draw(st.sampled_from([None, None, None, 1, 5, 90]))
    return Rule(name, action=action, match=match, **options)


def rulesets(plain: bool) -> st.SearchStrategy[Ruleset]:
    return st.builds(
        lambda chain, mode: Ruleset("side", chain, mode=mode, keys=KeyWriter(b"secret")),
        st.integers(1, 5).flatmap(lambda size: st.tuples(*[rules(name, plain) for name in NAMES[:size]])),
        st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.ENFORCE, Mode.DRY_RUN]),
    )


whole_costs = st.sampled_from([1, 1, 1, 1, 1, 1, 1, 0, 2, 7])
calls = st.fixed_dictionaries(
    {
        "wait": st.sampled_from([0, 0, 0, 1, 250, 500, 999, 1000, 1001, 3500, 7000, 90_000]),
        "identifier": st.fixed_dictionaries(
            {"user": st.sampled_from(["1", "2", "<anonymous>"]), "ip": st.sampled_from(["192.0.2.1", "2001:db8::7"])},
            optional={
                "plan": st.sampled_from(["free", "pro"]),
                "path": st.sampled_from(["/x/1", "/y", "/z"]),
                "header.x-key": st.sampled_from(["K", "k", "q"]),
            },
        ),
        "cost": st.just(1) | whole_costs | st.sampled_from([0.5, 0.7, 2.25]),
        "status": st.sampled_from([200, 401, None]),
    }
)


def expected(ruleset: Ruleset, traffic: list[dict[str, Any]]) -> tuple[Any, ...]:
    clock = [0]
    counters = MemoryCounters(lambda: clock[0])
    numbers = {rule.name: Numbers() for rule in ruleset.rules}
    blocked: dict[Refusal, Blocked] = {}
    verdicts = []
    for call in traffic:
        clock[0] = call["at"]

        def value_of(name: str, call: dict[str, Any] = call) -> str | None:
            base, _, filtered = name.partition("|")
            text = call["identifier"].get(base)
            return text.lower() if filtered and text else text

        planned = plan(ruleset, value_of)
        tallies = counters.hit(planned.hits, call["cost"])
        result = decide(planned, tallies)
        for evaluation in result.evaluations:
            numbers[evaluation.rule].calls += 1
            numbers[evaluation.rule].exceeded += evaluation.exceeded
            numbers[evaluation.rule].blocked += evaluation.result is Outcome.BLOCK
        if result.skipped:
            numbers[result.rule].calls += 1
        answer = {} if call["status"] is None else {"status": str(call["status"])}
        if answer:
            charged = [hit for hit in result.pending if hit.rule.response_matcher.holds(answer.get)]
            counters.hit(charged, call["cost"], Verb.CHARGE)
        verdicts.append(result.blocked)
        if result.blocked:
            last = planned.hits[len(tallies) - 1]
            refusal = Refusal(last.rule.name, who(last.rule, ruleset.keys, value_of))
            blocked.setdefault(refusal, Blocked()).note(call["at"], tallies[-1].retry_ms)
    return verdicts, numbers, blocked


def replayed(ruleset: Ruleset, traffic: list[dict[str, Any]], at_once: int = 1000) -> tuple[Any, ...]:
    lines = [json.dumps({**call, "time": call["at"] / 1000}) for call in traffic]
    pieces = [lines[start : start + at_once] for start in range(0, len(lines), at_once)]
    reader = JsonLines(pieces, asked_for([ruleset]))
    runner = Runner(ruleset, reader)
    verdicts = []
    for batch in in_order(reader.batches(), Order()):
        refusals = runner.run(batch)
        verdicts += [position in refusals for position in range(len(batch.times))]
    runner.add_up()
    assert reader.bad.total == 0
    return verdicts, runner.numbers, runner.blocked


def timed(traffic: list[dict[str, Any]]) -> list[dict[str, Any]]:
    now = START
    for call in traffic:
        now += call.pop("wait")
        call["at"] = now
    return traffic


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(ruleset=rulesets(plain=False), traffic=st.lists(calls, min_size=1, max_size=60))
def test_a_replay_decides_every_call_as_the_engine_does(ruleset, traffic):
    traffic = timed(traffic)
    assert replayed(ruleset, traffic) == expected(ruleset, traffic)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(ruleset=rulesets(plain=False), traffic=st.lists(calls, min_size=1, max_size=60))
def test_a_replay_that_forgets_all_it_may_decides_the_same(ruleset, traffic):
    traffic = timed(traffic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_cache, "MOST_REMEMBERED", 0)
        patch.setattr("django_ratelimit_rules.replay.traffic.batches.HELD", 0)
        assert replayed(ruleset, traffic, at_once=3) == expected(ruleset, traffic)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(
    ruleset=rulesets(plain=True),
    traffic=st.lists(calls.map(lambda call: {**call, "cost": 1}), min_size=20, max_size=60),
)
def test_a_replay_of_plain_calls_decides_as_the_engine_does(ruleset, traffic):
    traffic = timed(traffic)
    assert replayed(ruleset, traffic) == expected(ruleset, traffic)


@pytest.mark.parametrize("kind", ["fixed_window", "sliding_window", "token_bucket", "distinct"])
def test_a_call_that_a_later_rule_refuses_is_charged_to_no_earlier_rule(kind):
    options = {"count_distinct": "path"} if kind == "distinct" else {"algorithm": kind}
    ruleset = Ruleset(
        "side", (Rule("first", limit=3, period=60, **options), Rule("second", limit=1, period=1)), keys=KeyWriter(b"")
    )
    paths = iter("aabbccddee")
    waits = [0, 0, 0, 0, 1000, 0, 0, 1000, 0, 1000]
    traffic = timed([{"wait": wait, "identifier": {"path": next(paths)}, "cost": 1, "status": None} for wait in waits])
    assert replayed(ruleset, traffic) == expected(ruleset, traffic)
    assert replayed(ruleset, traffic)[0].count(False) == 3
