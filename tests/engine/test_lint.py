"""The linter reports each finding in the right place, and in no other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_ratelimit_rules.engine import Rule
from django_ratelimit_rules.engine.lint import Severity, Surroundings, lint

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def rule(name: str, **fields: Any) -> Rule:
    counting = {"characteristics": ["ip"], "limit": 10, "period": 60}
    return Rule(name, **({} if fields.get("action") == "skip" else counting) | fields)


def found(*rules: Rule, **around: Any) -> list[tuple[str | None, str]]:
    return [(finding.rule, finding.code) for finding in lint(rules, Surroundings(NOW, **around))]


PER_IP = rule("per_ip")


def test_a_sound_ruleset_has_no_findings():
    seen = rule("seen", action="log", match={"bypass": True}, limit=10_000)
    bypass = rule("bypass", action="skip", match={"bypass": True})
    assert found(seen, bypass, rule("shadow", action="log", limit=5), PER_IP, rule("all", characteristics=[])) == []


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([rule("all", action="skip"), PER_IP, rule("more", limit=5)], ["per_ip", "more"]),
        ([rule("all", action="skip", match=[{"ip": "::1"}, {}]), PER_IP], ["per_ip"]),
        ([rule("some", action="skip", match={"ip": "::1"}), PER_IP], []),
        ([rule("all", action="skip", enabled=False), PER_IP], []),
        ([rule("all", action="skip", expires_at=NOW - timedelta(days=1), enabled=True), PER_IP], []),
        ([PER_IP, rule("all", action="skip")], []),
    ],
)
def test_rules_after_a_skip_of_everything_are_unreachable(rules, expected):
    assert [name for name, code in found(*rules) if code == "unreachable"] == expected


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ({"limit": 11}, True),
        ({"limit": 10}, False),
        ({"limit": 5}, False),
        ({"limit": 11, "period": 61}, False),
        ({"limit": 11, "match": {"ip": "::1"}}, False),
        ({"limit": 11, "characteristics": ["user"]}, False),
        ({"limit": lambda: 11}, False),
    ],
)
def test_a_log_threshold_above_the_limit_it_shadows_is_found(log, expected):
    for order in ([rule("try", action="log", **log), PER_IP], [PER_IP, rule("try", action="log", **log)]):
        assert (("try", "loose_shadow") in found(*order)) is expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({}, True),
        ({"limit": 3}, True),
        ({"match": {"user": 1}}, False),
        ({"response": {"status": 401}}, False),
        ({"algorithm": "token_bucket"}, False),
        ({"action": "log", "limit": 3}, False),
    ],
)
def test_two_rules_with_the_same_counter_meaning_are_found(other, expected):
    assert found(PER_IP, rule("again", **other)) == ([("again", "same_meaning")] if expected else [])


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([rule("all", characteristics=[])], True),
        ([rule("all", characteristics=["path"])], True),
        ([rule("all", characteristics=[]), PER_IP], False),
        ([rule("all", characteristics=[]), rule("one", match={"path": "/x"})], True),
        ([rule("all", characteristics=[], match={"path": "/x"}), rule("one", match={"path": "/x"})], False),
        ([rule("all", characteristics=[]), rule("one", action="log")], True),
        ([rule("closed", characteristics=[], limit=0)], False),
        ([rule("watch", characteristics=[], action="log")], False),
        ([PER_IP], False),
    ],
)
def test_a_limit_that_strangers_share_without_one_for_each_is_found(rules, expected):
    assert ("broad_alone" in [code for _, code in found(*rules)]) is expected


@pytest.mark.parametrize(
    ("characteristics", "expected"),
    [(["header.x-key"], True), (["query.a", "cookie.b"], True), (["header.x-key", "ip"], False), ([], False)],
)
def test_a_client_written_value_as_the_only_characteristic_is_found(characteristics, expected):
    assert (("it", "client_written") in found(rule("it", characteristics=characteristics))) is expected


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({}, True),
        ({"post.email": {"exists": True}}, False),
        ({"post.email": {"suffix": ".org"}}, False),
        ({"post.email": {"not": "a@b.org"}}, True),
        ({"post.email": None}, True),
        ([{"post.email": {"exists": True}}, {"ip": "::1"}], True),
        ([{"post.email": {"exists": True}}, {"post.email": "a@b.org", "ip": "::1"}], False),
    ],
)
def test_a_characteristic_that_may_be_missing_is_a_hint_unless_the_match_requires_it(match, expected):
    findings = lint([rule("it", match=match, characteristics=["ip", "post.email|lower"])], Surroundings(NOW))
    assert [(each.code, each.severity) for each in findings] == [("perhaps_missing", Severity.HINT)] * expected


def test_an_expired_rule_is_found_and_hides_nothing():
    over = rule("over", expires_at=NOW)
    assert found(over, PER_IP) == [("over", "expired")]
    assert found(over.with_changes(enabled=False), PER_IP) == []


def test_a_property_without_a_provider_is_an_error():
    def fault_of(name: str) -> str | None:
        return "nobody" if name == "planet" else None

    (finding,) = lint([rule("it", match={"planet": "x"})], Surroundings(NOW, fault_of=fault_of))
    assert (finding.rule, finding.code, finding.message) == ("it", "unknown_property", "nobody")
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("match", "said"),
    [
        ({"plan": "free"}, None),
        ({"plan": ["free", None]}, None),
        ({"plan": {"prefix": "fr"}}, None),
        ({"plan|lower": "pro"}, None),
        ({"colour": "any"}, None),
        ({"plan": "fre"}, "requires that plan is fre"),
        ({"plan|lower": "Pro"}, "requires that plan|lower is Pro"),
        ([{"plan": "Pro"}, {"path": "/x", "plan": ["free", "gold", "old"]}], "requires that plan is gold or old"),
    ],
)
def test_a_condition_on_a_value_that_is_none_of_its_propertys_choices_is_found(match, said):
    choices = {"plan": ("free", "Pro")}
    found = lint([rule("it", match=match)], Surroundings(NOW, choices_of=lambda name: choices.get(name[:4], ())))
    assert [finding.message for finding in found if finding.code == "unknown_value"] == ([] if said is None else [said])


def test_rules_without_a_checkpoint_and_a_checkpoint_without_rules_are_found():
    assert found(PER_IP, checkpoint=False) == [(None, "unknown_limiter")]
    assert found() == [(None, "no_rules")]
    assert found(rule("off", enabled=False)) == [(None, "no_rules")]
    assert found(checkpoint=False) == []


def test_findings_come_in_the_order_of_the_rules_with_reason_and_remedy():
    rules = [
        rule("by_key", characteristics=["header.x-key"]),
        rule("all", action="skip", characteristics=[]),
        rule("late", limit=1),
    ]
    findings = lint(rules, Surroundings(NOW, checkpoint=False))
    assert [each.rule for each in findings] == [None, "by_key", "by_key", "late"]
    assert all(each.message and each.why.endswith(".") and each.advice.endswith(".") for each in findings)
