"""The sources of rules, and the time until a change is in force in this and in other processes."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from django_ratelimit_rules import Limiter, rulesets
from django_ratelimit_rules.engine import FailureMode, Mode
from django_ratelimit_rules.models import Rule, Ruleset
from django_ratelimit_rules.rulesets.tiers import Tier, join, tier_rules
from tests.servers import wait_until

COUNTING = {"limit": 1, "period": 60, "characteristics": ["user"]}


@pytest.fixture
def ruleset() -> Ruleset:
    made = Ruleset.objects.create(name="edited")
    Rule.objects.create(ruleset=made, name="per_user", **COUNTING)
    return made


def effective(limiter: str) -> list[tuple[str, str]]:
    return [(rule.name, str(tier)) for rule, tier in rulesets.effective(limiter).rules]


@pytest.mark.django_db
def test_nothing_is_loaded_before_the_first_check_and_no_sql_after_it(ruleset, django_assert_num_queries):
    limiter = Limiter("edited")
    assert limiter.check({"user": 1}).matched
    with django_assert_num_queries(0):
        assert limiter.check({"user": 1}).blocked


@pytest.mark.django_db(transaction=True)
def test_a_bad_row_is_logged_once_and_again_when_it_becomes_bad_again(ruleset, caplog):
    def logged() -> int:
        return len([record for record in caplog.records if record.levelname == "ERROR"])

    for times in (1, 2):
        Rule.objects.update(match={"path": {"regex": "*"}})
        Limiter("edited").check({"user": 1})
        Ruleset.objects.update(description=f"changed {times} times")
        assert logged() == times
        Rule.objects.update(match={})


@pytest.mark.django_db(transaction=True)
def test_rows_that_a_flush_removed_are_out_of_force(ruleset):
    limiter = Limiter("edited")
    assert limiter.check({"user": 1}).matched
    call_command("flush", interactive=False, verbosity=0)
    assert not limiter.check({"user": 1}).matched


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "change",
    [
        lambda ruleset: ruleset.rules.first().delete(),
        lambda ruleset: ruleset.delete(),
        lambda ruleset: ruleset.rules.update(enabled=False),
        lambda ruleset: Ruleset.objects.update(mode="off"),
        lambda ruleset: Rule.objects.all().delete(),
        lambda ruleset: Rule.objects.filter(name="per_user").update(expires_at=timezone.now() - timedelta(1)),
    ],
)
def test_a_change_is_in_force_here_as_soon_as_it_is_committed(ruleset, change):
    limiter = Limiter("edited")
    assert limiter.check({"user": 1}).matched
    change(ruleset)
    assert not limiter.check({"user": 1}).matched


@pytest.mark.django_db(transaction=True)
def test_a_change_is_never_in_force_before_its_commit(ruleset):
    limiter = Limiter("edited")
    limiter.check({"user": 1})
    with transaction.atomic():
        ruleset.rules.update(limit=5)
        Rule.objects.create(ruleset=ruleset, name="more", position=2, **COUNTING)
        assert limiter.check({"user": 1}).blocked
    assert effective("edited") == [("per_user", "admin"), ("more", "admin")]
    with transaction.atomic():
        ruleset.delete()
        transaction.set_rollback(True)
    assert len(effective("edited")) == 2


@pytest.mark.django_db(transaction=True)
def test_a_bad_row_disables_itself_alone_and_is_reported_once(ruleset, caplog):
    # Report 26.
    Rule.objects.create(ruleset=ruleset, name="broken", position=2, **COUNTING)
    for bad in ({"path": {"regex": "*"}}, {"path": {"regex": "("}}):
        Rule.objects.filter(name="broken").update(match=bad)
    limiter = Limiter("edited")
    assert [limiter.check({"user": 1}).rule for _ in range(3)] == ["per_user"] * 3
    assert len([r for r in caplog.records if r.levelno == logging.ERROR and "'broken'" in r.getMessage()]) == 2


@pytest.mark.django_db
def test_tiers_hide_each_other_by_name_and_report_a_rules_source(ruleset):
    Limiter("edited", rules=[{"name": "per_user", **COUNTING}, {"name": "from_code", **COUNTING}])
    assert effective("edited") == [("per_user", "admin"), ("from_code", "code")]


@pytest.mark.django_db
def test_modes_come_from_the_highest_tier_that_states_them(settings):
    settings.RATELIMIT_RULES_FAILURE_MODE = "closed"
    tiers = {
        Tier.FILE: tier_rules([]),
        Tier.ADMIN: tier_rules([], mode="dry_run"),
        Tier.CODE: tier_rules([], mode="off", failure_mode="local"),
    }
    joined = join("edited", tiers, time.time()).ruleset
    assert (joined.mode, joined.failure_mode) == (Mode.DRY_RUN, FailureMode.LOCAL)
    assert join("edited", {}, time.time()).ruleset.failure_mode is FailureMode.CLOSED


@pytest.mark.django_db
def test_a_rule_ends_when_it_expires_without_a_reload(ruleset):
    Rule.objects.update(expires_at=timezone.now() + timedelta(seconds=1))
    rulesets.reload()
    assert effective("edited") == [("per_user", "admin")]
    wait_until(lambda: effective("edited") == [], 3, "the rule to expire")


@pytest.mark.django_db
def test_a_failed_reload_keeps_the_last_good_rules_and_is_logged(ruleset, monkeypatch, caplog):
    rulesets.reload()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_ratelimit_rules_rule RENAME TO elsewhere")
        try:
            assert not rulesets.reload()
            assert Limiter("edited").check({"user": 1}).matched
        finally:
            cursor.execute("ALTER TABLE elsewhere RENAME TO django_ratelimit_rules_rule")
    assert "last good rules stay in force" in caplog.text


@pytest.mark.django_db
def test_a_reload_of_the_same_rows_rebuilds_no_rule(ruleset):
    before = rulesets.get("edited")
    assert rulesets.reload()
    assert rulesets.get("edited") is before
    Rule.objects.update(description="changed")
    assert rulesets.reload()
    assert rulesets.get("edited") is not before


def test_without_any_database_code_rules_are_in_force(caplog):
    # The test has no database mark, so each access to the database raises.
    Limiter("no_database", rules=[{"name": "per_user", **COUNTING}])
    assert effective("no_database") == [("per_user", "code")]
    assert "could not be loaded" in caplog.text


async def test_the_first_load_of_a_process_may_come_from_an_asynchronous_check():
    limiter = Limiter("async_first", rules=[{"name": "per_user", **COUNTING}])
    assert (await limiter.acheck({"user": 1})).matched


@pytest.mark.django_db
def test_a_reload_rebuilds_only_changed_rulesets(ruleset):
    Rule.objects.create(ruleset=Ruleset.objects.create(name="other"), name="r", **COUNTING)
    rulesets.reload()
    edited, other = rulesets.get("edited"), rulesets.get("other")
    Rule.objects.filter(ruleset=ruleset).update(limit=7)
    rulesets.reload()
    assert rulesets.get("other") is other
    assert rulesets.get("edited").rules[0].limit == 7
    Ruleset.objects.get(name="other").delete()
    rulesets.reload()
    assert rulesets.get("other").rules == ()
    assert edited.rules[0].limit != 7


@pytest.mark.django_db
def test_a_change_that_only_python_calls_equal_is_found(ruleset):
    Rule.objects.update(match={"plan": 1})
    rulesets.reload()
    for match, text in (({"plan": 1.0}, "1.0"), ({"plan": True}, "1")):
        Rule.objects.update(match=match)
        rulesets.reload()
        assert rulesets.get("edited").rules[0].match == match
        assert Limiter("edited").peek({"user": 1, "plan": text}).matched
