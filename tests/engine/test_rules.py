"""A rule checks itself on creation, and names the invalid field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from django_ratelimit_rules import Rule
from django_ratelimit_rules.engine import Action, as_rule, check_unique_names, sentence
from django_ratelimit_rules.engine.durations import format_duration, parse_duration
from django_ratelimit_rules.exceptions import InvalidRule

GOOD = {"limit": 5, "period": 60}


def refused(**fields) -> InvalidRule:
    with pytest.raises(InvalidRule) as raised:
        Rule(**({"name": "watched"} | GOOD | fields))
    return raised.value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Bad-Name"),
        ("name", "a" * 65),
        ("name", "a\n"),
        ("name", None),
        ("action", "deny"),
        ("action", ["limit"]),
        ("limit", -1),
        ("limit", 10**12 + 1),
        ("limit", True),
        ("limit", "5"),
        ("limit", 5.0),
        ("limit", None),
        ("period", 0),
        ("period", 31_536_001),
        ("period", "5w"),
        ("period", "1.5"),
        ("period", "-5m"),
        ("period", 1.5),
        ("period", Decimal("1.5")),
        ("period", True),
        ("period", timedelta(milliseconds=500)),
        ("period", timedelta(seconds=600, milliseconds=1)),
        ("period", None),
        ("ban_for", 0),
        ("warn_at", 101),
        ("warn_at", True),
        ("warn_at", 80.0),
        ("ban_for", "forever"),
        ("algorithm", "leaky"),
        ("characteristics", "user"),
        ("characteristics", ["user", "user"]),
        ("characteristics", [""]),
        ("characteristics", [7]),
        ("characteristics", ["user|upcase"]),
        ("count_distinct", ""),
        ("match", []),
        ("match", "plan"),
        ("match", None),
        ("match", [{}, 5]),
        ("response", []),
        ("enabled", "yes"),
        ("expires_at", "tomorrow"),
        ("expires_at", datetime(2027, 1, 1)),  # naive on purpose
        ("description", 5),
    ],
)
def test_a_bad_field_is_refused_by_its_name(field, value):
    error = refused(**{field: value})
    assert error.field == field
    assert field in str(error)


@pytest.mark.parametrize(
    "condition",
    [
        {},
        {"contains": "x"},
        {"regex": "("},
        {"regex": "a" * 501},
        {"regex": "^(?!x)"},
        {"regex": "(a)\\1"},
        {"regex": 5},
        {"regex": "\udcff"},
        {"glob": ["a"]},
        {"cidr": "10.0.0.0/33"},
        {"cidr": ["10.0.0.0/8", 5]},
        {"cidr": "nowhere"},
        {"gt": "many"},
        {"gt": True},
        {"gt": None},
        {"gt": float("nan")},
        {"exists": "yes"},
        {"in": "abc"},
        {"eq": [1]},
        {"eq": float("inf")},
        {"prefix": None},
        {"prefix": [True]},
        {"not": {}},
        {"not": {"regex": "["}},
        [["nested"]],
        {5: "x"},
    ],
)
def test_a_bad_condition_is_refused_naming_the_property(condition):
    error = refused(match={"plan": "free", "path": condition})
    assert error.field == "match"
    assert "path" in error.reason


def test_conditions_nested_beyond_reason_are_refused_not_a_stack_overflow():
    condition: object = "x"
    for _ in range(5000):
        condition = {"not": condition}
    assert "deep" in refused(match={"plan": condition}).reason


def test_a_skip_takes_nothing_of_counting():
    for option in ("limit", "period", "count_distinct", "ban_for", "warn_at"):
        with pytest.raises(InvalidRule) as raised:
            Rule("bypass", action="skip", **{option: 5 if option != "count_distinct" else "user"})
        assert raised.value.field == option
    with pytest.raises(InvalidRule, match="algorithm"):
        Rule("bypass", action="skip", algorithm="token_bucket")


def test_the_older_action_names_are_read():
    assert Rule("a", action="block", **GOOD).action is Action.LIMIT
    assert Rule("a", action="allow").action is Action.SKIP


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(60, 60), ("30s", 30), ("5m", 300), ("2h", 7200), ("1d", 86400), (timedelta(minutes=2), 120), ("60s", 60)],
)
def test_durations_are_read(written, seconds):
    assert Rule("a", limit=1, period=written).period == seconds


def test_durations_come_back_as_written_shortest():
    for text in ("90s", "1m", "2h", "1d", "36h"):
        assert format_duration(parse_duration(text)) == text
    assert format_duration(120) == "2m"


def test_header_names_have_one_spelling():
    # Report 27.
    rule = Rule("a", characteristics=["header.X_Team", "Header.X-User"], **GOOD)
    assert rule.characteristics == ("header.x-team", "header.x-user")


def test_a_rule_cannot_be_changed_after_its_matcher_is_built():
    match = {"plan": ["free"]}
    rule = Rule("a", match=match, **GOOD)
    match["plan"].append("pro")
    assert rule.match == {"plan": ["free"]}
    with pytest.raises(AttributeError):
        rule.limit = 9


def test_a_mapping_becomes_a_rule_and_unknown_fields_are_named():
    assert as_rule({"name": "a", **GOOD}) == Rule("a", **GOOD)
    with pytest.raises(InvalidRule, match="limits: unknown field"):
        as_rule({"name": "a", "limits": 5})
    with pytest.raises(InvalidRule, match="needs a name"):
        as_rule(GOOD)


def test_a_name_used_twice_is_refused():
    with pytest.raises(InvalidRule, match="twice"):
        check_unique_names([Rule("a", **GOOD), Rule("a", **GOOD)])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"characteristics": ["org"], "limit": 100, "match": {"plan": "free"}},
            "limit 100 per 1 min by org when plan is free",
        ),
        ({"limit": 1_000_000}, "limit 1,000,000 per 1 min for everyone together"),
        ({"action": "log"}, "log above 5 per 1 min for everyone together"),
        ({"ban_for": "15m", "characteristics": ["ip"]}, "limit 5 per 1 min by ip, then ban for 15 min"),
        ({"count_distinct": "project"}, "limit 5 different project per 1 min for everyone together"),
        ({"algorithm": "token_bucket"}, "limit 5 per 1 min for everyone together (token bucket)"),
        (
            {"response": {"status": 401}, "characteristics": ["ip"]},
            "limit 5 per 1 min by ip, charged by the answer when status is 401",
        ),
        (
            {"match": [{"a": {"not": {"gte": 1, "lt": 5}}, "b": None}, {"c": {"prefix": ["x", "y z"]}}]},
            "limit 5 per 1 min for everyone together"
            " when (not (a is at least 1 and a is below 5) and b is missing) or c starts with (x, “y z”)",
        ),
        ({"match": {"a": {"not": {"exists": True}}, "b": {"not": [1, None]}}}, None),
    ],
)
def test_a_rule_has_a_sentence(fields, words):
    text = sentence(Rule("a", **(GOOD | fields)))
    assert text == words or (words is None and text.endswith("a is missing and b is not in (1, missing)"))


def test_a_skip_has_a_sentence():
    assert (
        sentence(Rule("a", action="skip", match={"bypass": True})) == "skip: let through uncounted when bypass is true"
    )


def test_an_expiry_is_a_moment():
    assert Rule("a", expires_at="2027-01-31T12:00:00+00:00", **GOOD).expires_at == datetime(2027, 1, 31, 12, tzinfo=UTC)
