"""``partition_by`` in code, file, admin and text, and the errors for an invalid one."""

from __future__ import annotations

import logging

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse

from django_ratelimit_rules import Limiter, rulesets
from django_ratelimit_rules import Rule as CodeRule
from django_ratelimit_rules.checks.form_size import OPEN_AT_ONCE
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.exceptions import InvalidRule, InvalidRulesFile
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from django_ratelimit_rules.monitoring.fullest_counters import heaviest
from django_ratelimit_rules.rulesets import findings, history
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.rulesets.diff import as_text, compare
from django_ratelimit_rules.rulesets.file import read_text
from django_ratelimit_rules.testing import override_ruleset
from tests.admin.test_admin import CHANGE, Page

BY_USER = {"characteristics": ["user"], "limit": 2, "period": 60}
BY_ADDRESS = {"characteristics": ["ip"], "limit": 2, "period": 60}
TEXT = """\
search:
  partition_by: user
  rules:
    - {name: per_user, characteristics: [user], limit: 2, period: 1m}
    - {name: both, characteristics: [ip, user], limit: 9, period: 1m}
"""


def test_counting_resetting_listing_and_forgetting_work_as_without(keys):
    with override_ruleset("search", [CodeRule("r", **BY_USER)], partition_by="user"):
        search = Limiter("search")
        assert [search.check({"user": 7}).blocked for _ in range(3)] == [False, False, True]
        assert not search.check({"user": 8}).blocked
        assert sorted(key.partition("}")[0] for key in keys()) == [":1:rl{search|7", ":1:rl{search|8"]
        assert [(heavy.who, heavy.used) for heavy in heaviest("search").counters] == [("7", 2), ("8", 1)]
        assert search.explain({"user": 7}).rules[0].counter.startswith("{search|7}")
        assert search.reset({"user": 7}) == 1
        assert not search.check({"user": 7}).blocked
    with override_ruleset("search", [CodeRule("r", **BY_USER)]):
        # Counters with and without a partition are never the same.
        assert Limiter("search").check({"user": 8}).most_restrictive.used == 1
    with override_ruleset("searching", [CodeRule("r", **BY_USER)], partition_by="user"):
        Limiter("searching").check({"user": 8})
    assert current().clear("search") == 3
    assert current().clear() == 1


def test_code_states_it_with_its_rules(db):
    Limiter("by_code", rules=[CodeRule("r", **BY_USER)], partition_by="user")
    assert rulesets.get("by_code").partition_by == "user"
    with pytest.raises(InvalidRule, match="does not count by 'team'"):
        Limiter("by_code_too", rules=[CodeRule("r", **BY_USER)], partition_by="team")
    with pytest.raises(TypeError, match="goes with rules"):
        Limiter("by_code", partition_by="user")


def test_the_file_states_it_and_a_fault_has_its_line(db, settings, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text(TEXT)
    settings.RATELIMIT_RULES_FILE = str(file)
    assert rulesets.get("search").partition_by == "user"
    for wrong in ("team", "true", "user|shout"):
        with pytest.raises(InvalidRulesFile, match=r"rules.yaml:2: partition_by: "):
            read_text(TEXT.replace("partition_by: user", f"partition_by: {wrong}"), "rules.yaml")


def test_text_goes_through_the_database_and_changes_are_listed(db):
    ruleset_text.write(ruleset_text.load(TEXT, "rules.yaml"))
    assert rulesets.get("search").partition_by == "user"
    exported = ruleset_text.dump(ruleset_text.stored(["search"]))
    assert exported.startswith("search:\n  partition_by: user\n")
    assert (
        ruleset_text.dump({"search": ruleset_text.of_tier(ruleset_text.load(exported, "again.yaml")["search"])})
        == exported
    )
    before = ruleset_text.stored(["search"])
    Ruleset.objects.update(partition_by="")
    assert "~ partition_by: user → none" in as_text(compare(before, ruleset_text.stored(["search"])))


@pytest.fixture
def ruleset(db):
    ruleset = Ruleset.objects.create(name="search", partition_by="user")
    Rule.objects.create(ruleset=ruleset, name="per_user", **BY_USER)
    return ruleset


def test_models_refuse_on_the_field_concerned(ruleset):
    ruleset.full_clean()
    ruleset.partition_by = "ip"
    with pytest.raises(ValidationError, match="per_user does not count by ip") as refused:
        ruleset.full_clean()
    assert set(refused.value.message_dict) == {"partition_by"}
    with pytest.raises(ValidationError, match="partitioned by user") as refused:
        Rule(ruleset=Ruleset.objects.get(), name="per_ip", **BY_ADDRESS).full_clean()
    assert set(refused.value.message_dict) == {"characteristics"}


def test_the_page_takes_rules_and_partition_together_and_puts_the_error_on_the_rule(admin_client, ruleset):
    page = Page(admin_client, reverse(CHANGE, args=[ruleset.pk]))
    page.data["partition_by"] = " ip "
    assert not page.save()
    assert page.errors() == [{"characteristics": ["The ruleset is partitioned by ip: every rule must count by it."]}]
    assert Ruleset.objects.get().partition_by == "user"
    assert page.fill(0, characteristics="user, ip").save(), page.errors()
    assert Ruleset.objects.get().partition_by == "ip"
    page = Page(admin_client, reverse(CHANGE, args=[ruleset.pk]))
    page.data["partition_by"] = ""
    page.add(name="everyone", action="limit", limit="5", period="1m", characteristics="", match="{}", warn_at="80")
    assert page.save(), page.errors()


def test_a_rule_that_is_not_opened_is_named_above_the_rules(admin_client, ruleset):
    for number in range(OPEN_AT_ONCE):
        Rule.objects.create(ruleset=ruleset, name=f"rule{number}", **BY_USER)
    page = Page(admin_client, reverse(CHANGE, args=[ruleset.pk]))
    page.data["partition_by"] = "team"
    assert not page.save()
    assert "per_user: The ruleset is partitioned by team: every rule must count by it." in page.text


def test_a_rule_of_another_tier_that_does_not_count_by_it_puts_it_out_of_force_and_is_found(ruleset, caplog):
    Limiter("search", rules=[CodeRule("per_ip", **BY_ADDRESS)])
    with caplog.at_level(logging.ERROR):
        assert rulesets.get("search").partition_by is None
    assert "The partition of limiter search is not in force: rule 'per_ip' does not count by 'user'" in caplog.text
    assert [rule.name for rule in rulesets.get("search").rules] == ["per_user", "per_ip"]
    found = findings.of_limiter("search", ruleset.rules.all())
    assert ("per_ip", "unpartitioned") in [(finding.rule, finding.code) for finding in found]


def test_a_bad_partition_in_the_database_takes_no_rule_along(ruleset, caplog):
    Ruleset.objects.update(partition_by="user|shout")
    with caplog.at_level(logging.ERROR):
        found = rulesets.get("search")
    assert (found.partition_by, [rule.name for rule in found.rules]) == (None, ["per_user"])
    assert "unknown filter" in caplog.text


def test_versions_hold_it(admin_client, ruleset):
    page = Page(admin_client, reverse(CHANGE, args=[ruleset.pk]))
    page.data["partition_by"] = ""
    assert page.save()
    assert Ruleset.objects.get().partition_by == ""
    texts = history.as_texts(RulesetVersion.objects.order_by("number"))
    assert ["partition_by: user" in text for text in texts] == [True, False]
