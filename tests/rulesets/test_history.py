"""Versions of rulesets: each change is stored once, with author, time and reason, and can be undone."""

from __future__ import annotations

import logging

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_ratelimit_rules import Limiter, rulesets, signals
from django_ratelimit_rules.exceptions import InvalidRulesFile
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from django_ratelimit_rules.rulesets import history
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.rulesets.history import Author
from tests.admin.test_admin import CHANGE, Page

pytestmark = pytest.mark.django_db

ONE = "search: [{name: per_user, limit: 1, period: 1h, characteristics: [user]}]"
TWO = "search: [{name: per_user, limit: 2, period: 1h, characteristics: [user]}]"


ADA = Author("ada", "typed", "a reason")


def apply(text, author=ADA, **options):
    return history.apply(ruleset_text.load(text, "text.yaml"), author, **options)


def refuse(before, after):
    raise PermissionDenied("no")


def kept(name="search"):
    return [(v.number, v.user, v.action) for v in RulesetVersion.objects.filter(ruleset=name).order_by("number")]


def test_each_change_is_a_version_and_the_ruleset_knows_its_number():
    apply(ONE)
    apply(TWO)
    apply(TWO)
    assert kept() == [(1, "ada", "typed"), (2, "ada", "typed")]
    assert Ruleset.objects.get().version == 2
    assert RulesetVersion.objects.get(number=1).reason == "a reason"
    (text,) = history.as_texts([RulesetVersion.objects.get(number=1)])
    assert "limit: 1\n" in text


def test_earlier_rows_and_direct_changes_of_the_database_are_kept_without_an_author():
    ruleset = Ruleset.objects.create(name="search")
    Rule.objects.create(ruleset=ruleset, name="per_user", limit=7, period=60)
    apply(ONE)
    Rule.objects.update(limit=9)
    apply(TWO)
    assert kept() == [
        (1, "", history.FIRST),
        (2, "ada", "typed"),
        (3, "", history.ELSEWHERE),
        (4, "ada", "typed"),
    ]


def test_a_version_reads_back_unchanged():
    apply(
        ONE.replace("limit: 1,", 'limit: 1, description: "two\\n    - lines",').replace(
            "search:", "search: {mode: off, rules:"
        )
        + "}"
    )
    version = RulesetVersion.objects.get()
    assert history.plain(version) == ruleset_text.stored()
    assert history.plain(None) == {}


def test_restoring_makes_a_new_version_with_the_old_content():
    apply(ONE)
    apply(TWO)
    first = RulesetVersion.objects.get(number=1)
    history.restore(first, Author("bob", "restored version 1"))
    assert Rule.objects.get().limit == 1
    assert kept()[-1] == (3, "bob", "restored version 1")
    assert RulesetVersion.objects.get(number=3).content == first.content


def test_a_deleted_ruleset_is_a_version_and_comes_back_with_numbers_going_on():
    apply(ONE)
    apply("{}", prune=True)
    assert not Ruleset.objects.exists()
    assert RulesetVersion.objects.get(number=2).content is None
    history.restore(RulesetVersion.objects.get(number=1), Author("bob"))
    assert Ruleset.objects.get().version == 3
    history.restore(RulesetVersion.objects.get(number=2), Author("bob"))
    assert not Ruleset.objects.exists()


def test_a_version_that_can_no_longer_be_read_is_refused_and_nothing_changes():
    apply(ONE)
    bad = RulesetVersion.objects.create(
        ruleset="search", number=9, content={"rules": [{"name": "r", "limit": "x", "period": "1m"}]}
    )
    # The line of the version's text on the history page.
    with pytest.raises(InvalidRulesFile, match="search version 9:4: rule 'r': limit"):
        history.restore(bad, Author())
    assert Rule.objects.get().limit == 1


def test_a_change_without_permission_is_undone_completely():
    apply(ONE)
    with pytest.raises(PermissionDenied):
        apply(TWO, Author("eve", allow=refuse))
    assert Rule.objects.get().limit == 1
    assert len(kept()) == 1


def test_the_version_in_force_is_in_the_snapshot_and_in_the_line_of_a_block(caplog):
    apply(ONE)
    apply(TWO)
    rulesets.reload()
    assert rulesets.get("search").version == 2
    with caplog.at_level(logging.INFO, "django_ratelimit_rules"):
        Limiter("search").check({"user": 1}, cost=3)
    (line,) = [record.getMessage() for record in caplog.records if "exceeded" in record.getMessage()]
    assert " version=2" in line
    assert rulesets.get("nobody").version is None


TEN = "search: {rules: [" + ", ".join(f"{{name: r{n}, limit: {n}, period: 1h}}" for n in range(1, 11)) + "]}"


@pytest.fixture
def announced():
    """Record the announcements of changed rules by the name of their sender."""
    heard: list[str] = []

    def hear(sender, **_):
        heard.append(sender.__name__)

    signals.rules_changed.connect(hear)
    yield heard
    signals.rules_changed.disconnect(hear)


@pytest.fixture
def converted(monkeypatch):
    """Record the names of the rules that are converted to their plain form, once for each conversion."""
    names: list[str] = []
    convert = ruleset_text.rule_of_fields

    def counting(fields):
        names.append(fields["name"])
        return convert(fields)

    monkeypatch.setattr(ruleset_text, "rule_of_fields", counting)
    return names


def test_a_save_of_the_page_converts_a_rule_once_for_each_state_and_announces_the_ruleset_once(
    admin_client, announced, converted
):
    apply(TEN)
    page = Page(admin_client, reverse(CHANGE, args=[Ruleset.objects.get().pk]))
    page.fill(2, limit="7").fill(3, position="999")
    announced.clear()
    converted.clear()
    assert page.save()
    assert announced == ["Ruleset"]
    # The saved rule is converted again, because its values have changed.
    assert sorted(converted) == sorted([*(f"r{n}" for n in range(1, 11)), "r3"])
    assert [rule["name"] for rule in history.plain(RulesetVersion.objects.get(number=2))["search"]["rules"]][-1] == "r4"


def test_any_other_change_of_rulesets_is_announced_once(announced):
    apply(TEN)
    assert announced == ["Ruleset"]
    history.restore(RulesetVersion.objects.get(), Author())
    assert announced == ["Ruleset"] * 2
    with history.changing(["search"], ADA):
        Rule.objects.update(limit=3)
        Ruleset.objects.get().delete()
    assert announced == ["Ruleset"] * 3


def test_a_change_that_is_taken_back_is_not_announced(announced):
    with pytest.raises(PermissionDenied):
        apply(ONE, Author("eve", allow=refuse))
    assert announced == []
    Ruleset.objects.create(name="search")
    assert announced == ["Ruleset"]


def test_one_true_and_1_0_are_three_versions():
    for value in ("1", "1.0", "true"):
        apply(f"search: [{{name: r, limit: 1, period: 1h, match: {{query.page: {value}}}}}]")
    assert len(kept()) == 3
    assert ruleset_text.same({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    assert not ruleset_text.same({"a": [1]}, {"a": [1.0]})


def test_the_same_rules_again_write_no_row():
    apply(TEN)
    with CaptureQueriesContext(connection) as queries:
        apply(TEN)
    assert not [query["sql"] for query in queries if query["sql"].startswith(("INSERT", "DELETE"))]


def test_fields_are_written_in_the_order_for_people_with_any_order_in_the_database():
    content = {"rules": [{"limit": 1, "period": "1m", "name": "r"}], "mode": "off", "description": "x"}
    (text,) = history.as_texts([RulesetVersion(ruleset="search", number=1, content=content)])
    assert text == (
        'search:\n  description: x\n  mode: "off"\n  rules:\n    - name: r\n      limit: 1\n      period: 1m\n'
    )
