"""Explanations: the failed condition, the state of each counter, and the verdict of the chain."""

from __future__ import annotations

import json

import pytest

from django_ratelimit_rules.counters import Verb
from django_ratelimit_rules.counters.memory import MemoryCounters
from django_ratelimit_rules.engine import KeyWriter, Mode, Rule, Ruleset, decide, explain, plan, record, trace
from django_ratelimit_rules.engine.explanation import Explanation, Known, Miss
from django_ratelimit_rules.exceptions import CallableFailed

COUNTING = {"characteristics": ["user"], "limit": 2, "period": 60}


class Caller:
    """One identifier and one ruleset, with separate counters."""

    def __init__(self, *rules: Rule, mode: Mode = Mode.ENFORCE, **identifier: str) -> None:
        self.ruleset = Ruleset("search", rules, mode=mode, keys=KeyWriter(b"secret"))
        self.counters = MemoryCounters()
        self.identifier = {name.replace("__", "."): value for name, value in identifier.items()}

    def check(self):
        planned = plan(self.ruleset, self.identifier.get)
        return decide(planned, self.counters.hit(planned.hits))

    def explain(self):
        traced = trace(self.ruleset, self.identifier.get)
        return explain(traced, self.counters.hit(traced.hits, 1, Verb.PEEK))


def standings(explanation) -> dict[str, str]:
    return {rule.name: str(rule.standing) for rule in explanation.rules}


@pytest.mark.parametrize(
    ("match", "identifier", "misses"),
    [
        ({"plan": "free"}, {"plan": "pro"}, [Miss("plan", "plan is free", "pro")]),
        ({"plan": "free"}, {}, [Miss("plan", "plan is free", None)]),
        ({"user": "7", "path": {"prefix": "/a/", "suffix": ".js"}}, {"user": "7", "path": "/a/b"},
         [Miss("path", "path ends with .js", "/a/b")]),
        ({"path": {"not": {"glob": "/x/**"}}}, {"path": "/x/y"}, [Miss("path", "path is not like /x/**", "/x/y")]),
        ([{"user": "7"}, {"plan": ["a", "b"]}], {"user": "8", "plan": "c"},
         [Miss("user", "user is 7", "8"), Miss("plan", "plan is in (a, b)", "c")]),
        ([{"user": "7"}, {"plan": "c"}], {"user": "8", "plan": "c"}, []),
        ({}, {}, []),
    ],
)  # fmt: skip
def test_a_rule_that_does_not_match_names_the_condition_and_the_text_it_met(match, identifier, misses):
    [rule] = Caller(Rule("r", match=match, **COUNTING), **identifier).explain().rules
    assert list(rule.misses) == misses
    assert rule.standing == ("unmatched" if misses else "allowed")


def test_rules_after_a_block_are_not_reached_but_their_counters_are_shown():
    caller = Caller(
        Rule("wide", **COUNTING | {"limit": 9}), Rule("narrow", **COUNTING), Rule("behind", **COUNTING), user="42"
    )
    caller.check(), caller.check()
    said = caller.explain()
    assert standings(said) == {"wide": "allowed", "narrow": "blocked", "behind": "not reached"}
    assert [rule.reading["used"] for rule in said.rules] == [2, 2, 2]
    assert [rule.reading["remaining"] for rule in said.rules] == [7, 0, 0]
    assert (said.action, said.rule) == ("block", "narrow")
    assert said.retry_after == pytest.approx(60, abs=1)


def test_an_explanation_agrees_with_the_check_that_follows_it():
    caller = Caller(
        Rule("shadow", action="log", **COUNTING | {"limit": 1}),
        Rule("limit", **COUNTING | {"limit": 3}),
        user="42",
    )
    for _ in range(5):
        said, did = caller.explain(), caller.check()
        assert (said.action, said.rule) == (did.action, did.rule)
        assert [r.reading["exceeded"] for r in said.rules] == [e.exceeded for e in did.evaluations]


def test_rules_after_a_skip_are_not_reached():
    caller = Caller(Rule("staff", action="skip", match={"is_staff": True}), Rule("all", **COUNTING), is_staff="1")
    said = caller.explain()
    assert standings(said) == {"staff": "skipped", "all": "not reached"}
    assert (said.action, said.rule, said.skipped) == ("allow", "staff", True)


def test_in_a_dry_run_a_limit_exceeds_and_the_chain_continues():
    caller = Caller(Rule("a", **COUNTING | {"limit": 0}), Rule("b", **COUNTING), mode=Mode.DRY_RUN, user="42")
    assert standings(caller.explain()) == {"a": "exceeded", "b": "allowed"}


def test_an_off_ruleset_reaches_no_rule():
    said = Caller(Rule("a", **COUNTING | {"limit": 0}), mode=Mode.OFF, user="42").explain()
    assert (standings(said), said.action, said.rule) == ({"a": "not reached"}, "allow", None)


def test_a_distinct_rule_without_its_property_is_skipped_with_a_reason():
    [rule] = Caller(Rule("spread", count_distinct="post.name", **COUNTING), user="42").explain().rules
    assert (rule.standing, rule.reason) == ("passed over", "post.name is missing")


def test_a_limit_that_cannot_be_computed_fails_the_chain_even_after_a_block():
    def broken() -> int:
        raise RuntimeError("no plan")

    caller = Caller(Rule("full", **COUNTING | {"limit": 0}), Rule("broken", **COUNTING | {"limit": broken}), user="42")
    said = caller.explain()
    assert standings(said) == {"full": "not reached", "broken": "failed"}
    assert "no plan" in said.error
    with pytest.raises(CallableFailed):
        caller.check()


def test_without_counters_the_rules_still_show_whether_they_match():
    caller = Caller(Rule("a", match={"plan": "x"}, **COUNTING), Rule("b", **COUNTING), user="42")
    said = explain(trace(caller.ruleset, caller.identifier.get), None, "Redis is down")
    assert standings(said) == {"a": "unmatched", "b": "failed"}
    assert said.error == "Redis is down"


def test_an_explanation_is_json():
    caller = Caller(Rule("a", match={"plan": "x"}, **COUNTING), Rule("b", **COUNTING), user="42", plan="y")
    said = json.loads(json.dumps(caller.explain().as_dict()))
    assert said["rules"][0]["misses"] == [{"property": "plan", "condition": "plan is x", "text": "y"}]
    assert said["rules"][1]["reading"]["limit"] == 2
    assert said["values"] == [["plan", "y"], ["user", "42"]]


def test_an_explanation_is_the_same_after_it_was_stored_as_json():
    caller = Caller(Rule("a", match={"plan": "x"}, **COUNTING), Rule("b", **COUNTING), user="42", plan="y")
    explained = caller.explain()
    assert Explanation.from_dict(json.loads(json.dumps({"at": 1.5, **explained.as_dict()}))) == explained


@pytest.mark.parametrize("change", [{"mode": "x"}, {"rules": [{"name": "a"}]}, {"rules": 1}, {"values": [["ip"]]}])
def test_dictionaries_that_hold_no_explanation_are_rejected(change):
    stored = Caller(Rule("b", **COUNTING), user="42").explain().as_dict()
    with pytest.raises((LookupError, TypeError, ValueError)):
        Explanation.from_dict(stored | change)


def test_a_record_reads_no_further_property_and_keeps_strings_as_the_function_returns_them():
    caller = Caller(
        Rule("first", match={"header.x": "a", "plan": "x"}, **COUNTING),
        Rule("full", **COUNTING | {"limit": 0}),
        Rule("behind", match={"costly": "1"}, **COUNTING),
        user="42",
        header__x="b",
    )
    planned = plan(caller.ruleset, caller.identifier.get)
    result = decide(planned, caller.counters.hit(planned.hits))

    said = record(
        planned,
        caller.ruleset,
        result,
        Known(caller.identifier.__getitem__, caller.identifier.__contains__),
        lambda name, text: f"<{text}>",
        most=10,
    )
    assert standings(said) == {"first": "unmatched", "full": "blocked", "behind": "not reached"}
    assert said.rules[0].misses == (Miss("header.x", "header.x is a", "<b>"),)
    assert said.rules[1].counter == planned.hits[0].key
    assert dict(said.values) == {"header.x": "<b>", "user": "<42>"}


def test_a_record_of_a_long_ruleset_is_bounded_and_keeps_the_rule_that_blocked():
    others = [Rule(f"r{number}", match={"user": str(number)}, **COUNTING) for number in range(50)]
    caller = Caller(*others, Rule("full", **COUNTING | {"limit": 0}), user="nobody")
    planned = plan(caller.ruleset, caller.identifier.get)
    result = decide(planned, caller.counters.hit(planned.hits))
    said = record(planned, caller.ruleset, result, Known(caller.identifier.get), lambda _, text: text, most=5)
    assert (len(said.rules), said.rules[-1].name, said.left_out) == (6, "full", 45)
