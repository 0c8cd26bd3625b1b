"""Versions of rulesets: each change is kept once, with who, when and why, and can be taken back."""

from __future__ import annotations

import logging

import pytest
from django.core.exceptions import PermissionDenied

from django_ratelimit_rules import Limiter, rulesets
from django_ratelimit_rules.exceptions import InvalidRulesFile
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from django_ratelimit_rules.rulesets import history
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.rulesets.history import Author

pytestmark = pytest.mark.django_db

ONE = "search: [{name: per_user, limit: 1, period: 1h, characteristics: [user]}]"
TWO = "search: [{name: per_user, limit: 2, period: 1h, characteristics: [user]}]"


ADA = Author("ada", "typed", "a reason")


def apply(text, author=ADA, **options):
    return history.apply(ruleset_text.load(text, "text.yaml"), author, **options)


def kept(name="search"):
    return [(v.number, v.user, v.action) for v in RulesetVersion.objects.filter(ruleset=name).order_by("number")]


def test_each_change_is_a_version_and_the_ruleset_knows_its_number():
    apply(ONE)
    apply(TWO)
    apply(TWO)
    assert kept() == [(1, "ada", "typed"), (2, "ada", "typed")]
    assert Ruleset.objects.get().version == 2
    assert RulesetVersion.objects.get(number=1).reason == "a reason"
    assert "limit: 1\n" in RulesetVersion.objects.get(number=1).text


def test_what_was_there_before_and_what_changed_behind_our_back_are_kept_as_nobodys():
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


def test_a_version_reads_back_as_what_was_stored():
    apply(
        ONE.replace("limit: 1,", 'limit: 1, description: "two\\n    - lines",').replace(
            "search:", "search: {mode: off, rules:"
        )
        + "}"
    )
    version = RulesetVersion.objects.get()
    assert history.plain(version) == ruleset_text.stored()
    assert history.plain(None) == {}


def test_restoring_makes_a_new_version_that_says_what_the_old_one_said():
    apply(ONE)
    apply(TWO)
    first = RulesetVersion.objects.get(number=1)
    history.restore(first, Author("bob", "restored version 1"))
    assert Rule.objects.get().limit == 1
    assert kept()[-1] == (3, "bob", "restored version 1")
    assert RulesetVersion.objects.get(number=3).text == first.text


def test_a_deleted_ruleset_is_a_version_and_comes_back_with_numbers_going_on():
    apply(ONE)
    apply("{}", prune=True)
    assert not Ruleset.objects.exists()
    assert RulesetVersion.objects.get(number=2).text == ""
    history.restore(RulesetVersion.objects.get(number=1), Author("bob"))
    assert Ruleset.objects.get().version == 3
    history.restore(RulesetVersion.objects.get(number=2), Author("bob"))
    assert not Ruleset.objects.exists()


def test_a_version_that_can_no_longer_be_read_is_refused_and_nothing_changes():
    apply(ONE)
    bad = RulesetVersion.objects.create(ruleset="search", number=9, text="search: [{name: r, limit: x, period: 1m}]")
    with pytest.raises(InvalidRulesFile, match="search version 9:1: rule 'r': limit"):
        history.restore(bad, Author())
    assert Rule.objects.get().limit == 1


def test_what_the_author_may_not_do_is_taken_back_whole():
    apply(ONE)

    def refuse(before, after):
        raise PermissionDenied("no")

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
