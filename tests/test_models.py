"""Rows of the admin tier: validation, constraints of the database, and announcements of changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core import serializers
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from django_ratelimit_rules import signals
from django_ratelimit_rules.engine import Action, Algorithm
from django_ratelimit_rules.exceptions import InvalidRule
from django_ratelimit_rules.models import Rule, Ruleset
from tests.vector_runner import cases

pytestmark = pytest.mark.django_db

COUNTING: dict[str, Any] = {"name": "per_ip", "characteristics": ["ip"], "limit": 5, "period": 60}


@pytest.fixture
def ruleset() -> Ruleset:
    return Ruleset.objects.create(name="search")


def refused(ruleset: Ruleset, **fields: Any) -> dict[str, list[str]]:
    """Return the messages of full_clean() for a rule, by field."""
    with pytest.raises(ValidationError) as caught:
        Rule(ruleset=ruleset, **{**COUNTING, **fields}).full_clean()
    return caught.value.message_dict


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"action": "deny"}, "action", "deny"),
        ({"name": "Bad-Name"}, "name", "lower-case letter"),
        ({"limit": -1}, "limit", "out of range"),
        ({"limit": 10**12 + 1}, "limit", "out of range"),
        ({"limit": None}, "limit", "needs a limit"),
        ({"period": 0}, "period", "out of range"),
        ({"period": 31_536_001}, "period", "out of range"),
        ({"ban_for": 0}, "ban_for", "out of range"),
        ({"action": "skip", "period": None}, "limit", "takes no limit"),
        ({"action": "skip", "limit": None}, "period", "takes no period"),
        ({"characteristics": ["usr"]}, "characteristics", "did you mean 'user'"),
        ({"characteristics": "ip"}, "characteristics", "must be a list"),
        ({"match": {"planet": "x"}}, "match", "no provider"),
        ({"match": {"path": {"regex": "*"}}}, "match", "does not compile"),
        ({"match": {"path": {"regex": "(?P<x>"}}}, "match", "does not compile"),
        ({"match": [{"path": "/"}, {"ip": {"not": {"cidr": "10.0.0.0/33"}}}]}, "match", "not a network"),
        ({"match": {1: "/"}}, "match", "must be a string"),
        ({"match": {"path": {None: "/"}}}, "match", "unknown operator"),
        ({"expires_at": "soon"}, "expires_at", "'soon'"),
        ({"count_distinct": "nobody"}, "count_distinct", "no provider"),
        ({"response": {"path": "/"}}, "response", "not a property of a response"),
        ({"response": {"login": "failed", "statuss": 401}}, "response", "statuss"),
    ],
)
def test_a_bad_field_is_refused_with_an_error_on_that_field_alone(ruleset, fields, field, words):
    errors = refused(ruleset, **fields)
    assert list(errors) == [field]
    assert words in " ".join(errors[field])


# A row holds seconds. The admin's form reads durations as strings.
INVALID = [
    pytest.param(case, id=title)
    for title, case in cases()
    if "invalid" in case and not isinstance(case["rule"].get("period"), str)
]


@pytest.mark.parametrize("case", INVALID)
def test_every_rule_that_the_engine_refuses_is_refused_as_a_row(ruleset, case):
    with pytest.raises(ValidationError) as caught:
        Rule(ruleset=ruleset, **case["rule"]).full_clean()
    assert case["invalid"] in str(caught.value)


def test_all_bad_fields_of_a_rule_are_named_at_once(ruleset):
    errors = refused(ruleset, name="No Name", limit=-1, period=0, characteristics=["usr"], match={"ip": {}})
    assert set(errors) == {"name", "limit", "period", "characteristics", "match"}


def test_a_name_used_twice_in_a_ruleset_is_refused_on_the_name_and_free_in_another_ruleset(ruleset):
    Rule.objects.create(ruleset=ruleset, **COUNTING)
    assert list(refused(ruleset)) == ["name"]
    Rule(ruleset=Ruleset.objects.create(name="login"), **COUNTING).full_clean()


def test_a_saved_rule_is_no_duplicate_of_itself(ruleset):
    Rule.objects.create(ruleset=ruleset, **COUNTING).full_clean()


@pytest.mark.parametrize("name", ["Search", "1st", "a-b", "x" * 65, "", "search\n"])
def test_a_ruleset_with_an_invalid_limiter_name_is_rejected_on_the_name(name):
    with pytest.raises(ValidationError) as caught:
        Ruleset(name=name).full_clean()
    assert list(caught.value.message_dict) == ["name"]


@pytest.mark.parametrize(
    "change",
    [
        {"action": "deny"},
        {"algorithm": "leaky"},
        {"limit": -1},
        {"limit": 10**12 + 1},
        {"limit": None},
        {"period": 0},
        {"ban_for": 0},
        {"warn_at": 101},
        {"action": "skip"},
    ],
)
def test_the_database_itself_rejects_values_that_no_engine_can_read(ruleset, change):
    rule = Rule.objects.create(ruleset=ruleset, **COUNTING)
    with pytest.raises(IntegrityError), transaction.atomic():
        Rule.objects.filter(pk=rule.pk).update(**change)


def test_the_database_keeps_out_an_unknown_mode(ruleset):
    with pytest.raises(IntegrityError), transaction.atomic():
        Ruleset.objects.update(mode="loud")


def test_a_row_becomes_the_engines_rule_with_every_field(ruleset):
    expires_at = timezone.now() + timedelta(days=1)
    row = Rule.objects.create(
        ruleset=ruleset,
        name="failed_sign_ins",
        action="log",
        match=[{"method": "POST"}, {"ip": {"cidr": "10.0.0.0/8"}}],
        characteristics=["Header.X_Team", "post.username|strip|lower"],
        limit=5,
        period=600,
        ban_for=60,
        response={"login": "failed"},
        enabled=False,
        expires_at=expires_at,
        description="why",
    )
    rule = Rule.objects.get(pk=row.pk).to_engine()
    assert (rule.name, rule.action, rule.limit, rule.period) == ("failed_sign_ins", Action.LOG, 5, 600)
    assert rule.characteristics == ("header.x-team", "post.username|strip|lower")
    assert rule.match == [{"method": "POST"}, {"ip": {"cidr": "10.0.0.0/8"}}]
    assert (rule.algorithm, rule.count_distinct, rule.ban_for) == (Algorithm.FIXED_WINDOW, None, 60)
    assert (rule.response, rule.enabled, rule.expires_at, rule.description) == (
        {"login": "failed"},
        False,
        expires_at,
        "why",
    )


def test_a_local_expiry_of_a_project_without_time_zones_is_made_aware(ruleset, settings):
    settings.USE_TZ = False
    rule = Rule(ruleset=ruleset, expires_at=datetime(2030, 1, 31, 12), **COUNTING)
    assert rule.to_engine().expires_at == timezone.make_aware(datetime(2030, 1, 31, 12))


def test_a_row_that_became_bad_in_the_database_is_rejected_only_by_the_engine(ruleset):
    Rule.objects.create(ruleset=ruleset, **COUNTING)
    Rule.objects.update(match={"path": {"regex": "("}})
    with pytest.raises(InvalidRule, match="does not compile"):
        Rule.objects.get().to_engine()


def test_rules_come_in_order_of_position_then_of_creation(ruleset):
    for name, position in [("c", 2), ("a", 1), ("b", 1)]:
        Rule.objects.create(ruleset=ruleset, position=position, **{**COUNTING, "name": name})
    assert [rule.name for rule in ruleset.rules.all()] == ["a", "b", "c"]


WRITES = {
    "save": lambda rule: rule.save(),
    "delete": lambda rule: rule.delete(),
    "create": lambda rule: Rule.objects.create(ruleset=rule.ruleset, **{**COUNTING, "name": "more"}),
    "update": lambda rule: Rule.objects.update(limit=6),
    "related update": lambda rule: rule.ruleset.rules.update(limit=6),
    "bulk_create": lambda rule: Rule.objects.bulk_create([Rule(ruleset=rule.ruleset, **{**COUNTING, "name": "more"})]),
    "bulk_update": lambda rule: Rule.objects.bulk_update([rule], ["limit"]),
    "query set delete": lambda rule: Rule.objects.all().delete(),
    "ruleset's delete": lambda rule: rule.ruleset.delete(),
    "ruleset's update": lambda rule: Ruleset.objects.update(mode="off"),
    "fixture": lambda rule: next(serializers.deserialize("json", serializers.serialize("json", [rule]))).save(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_through_django_is_announced_with_its_database(ruleset, write):
    rule = Rule.objects.create(ruleset=ruleset, **COUNTING)
    heard: list[tuple[object, str]] = []

    def hear(sender: object, using: str, **_: object) -> None:
        heard.append((sender, using))

    signals.rules_changed.connect(hear)
    try:
        write(rule)
    finally:
        signals.rules_changed.disconnect(hear)
    assert heard
    assert all(sender in (Rule, Ruleset) and using == "default" for sender, using in heard)


def test_fixtures_with_natural_keys_bring_the_rules_to_another_database(ruleset):
    Rule.objects.create(ruleset=ruleset, **COUNTING)
    options = {"use_natural_foreign_keys": True, "use_natural_primary_keys": True}
    text = serializers.serialize("json", [*Ruleset.objects.all(), *Rule.objects.all()], **options)
    Ruleset.objects.all().delete()
    Ruleset.objects.create(name="other")
    for each in serializers.deserialize("json", text):
        each.save()
    rule = Rule.objects.get_by_natural_key("search", "per_ip")
    assert (rule.ruleset.name, rule.limit) == ("search", 5)
    assert Ruleset.objects.get_by_natural_key("search") == rule.ruleset


def test_the_migrations_agree_with_the_models():
    call_command("makemigrations", "django_ratelimit_rules", check=True, dry_run=True, stdout=StringIO())
    assert {"django_ratelimit_rules_rule", "django_ratelimit_rules_ruleset"} <= set(
        connection.introspection.table_names()
    )


def test_code_may_write_durations_as_strings(ruleset):
    rule = Rule.objects.create(ruleset=ruleset, name="timed", limit=1, period="5m", ban_for=timedelta(hours=2))
    rule.refresh_from_db()
    assert (rule.period, rule.ban_for) == (300, 7200)
    assert Rule.objects.get(period="5m") == rule
    Rule(ruleset=ruleset, name="checked", limit=1, period="1m").full_clean()
    with pytest.raises(ValidationError, match="not a duration"):
        Rule(ruleset=ruleset, name="checked", limit=1, period="soon").full_clean()
    with pytest.raises(ValueError, match="not a duration"):
        Rule.objects.create(ruleset=ruleset, name="checked", limit=1, period="soon")


def test_owner_reason_and_ticket_are_kept_and_decide_nothing(ruleset):
    notes = {"owner": "Ann", "reason": "scrapers", "ticket": "https://issues.example/7"}
    rule = Rule.objects.create(ruleset=ruleset, name="noted", limit=1, period=60, **notes)
    said = Rule.objects.get(pk=rule.pk).to_engine()
    assert {name: getattr(said, name) for name in notes} == notes
    with pytest.raises(InvalidRule, match="must be a string"):
        said.with_changes(owner=7)
