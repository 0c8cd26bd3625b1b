"""Tiers and rules as text: changes of the file take effect, and an export can be planned and applied."""

from __future__ import annotations

import pytest

from django_ratelimit_rules import Limiter, rulesets
from django_ratelimit_rules import Rule as EngineRule
from django_ratelimit_rules.models import Rule, Ruleset
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take
from tests.docs.running import shell

(FILE,) = take("docs/rules.md#three-tiers")
COMMANDS, EXPORTED = take("docs/rules.md#rules-as-text")
(BY_OUTCOME,) = take("docs/rules.md#by-outcome")
pytestmark = pytest.mark.django_db


def test_rules_of_the_file_come_before_those_of_the_admin_and_replace_their_namesakes(tmp_path, settings):
    search = Ruleset.objects.create(name="search", mode="off")
    for position, name in enumerate(("per_user", "own")):
        Rule.objects.create(ruleset=search, name=name, position=position, limit=5, period=60)
    (tmp_path / "rules.yaml").write_text(FILE)
    settings.RATELIMIT_RULES_FILE = str(tmp_path / "rules.yaml")
    rulesets.forget()
    ruleset = rulesets.get("search")
    assert ruleset.mode == "enforce"
    assert [(rule.name, rule.limit) for rule in ruleset.rules] == [("staff", None), ("per_user", 30), ("own", 5)]


def test_rules_are_exported_as_shown_and_go_back_as_they_came(tmp_path):
    (tmp_path / "shown.yaml").write_text(EXPORTED)
    shell("manage.py ratelimit_apply shown.yaml", tmp_path)
    exported, planned, applied = shell(COMMANDS, tmp_path)
    assert exported.said == EXPORTED
    assert (tmp_path / "rules.yaml").read_text() == EXPORTED
    assert (planned.status, applied.status) == (0, 0)
    assert ruleset_text.load(EXPORTED, "rules.yaml").keys() == {"search"}


def test_the_plan_ends_with_2_when_something_would_change(tmp_path):
    (tmp_path / "rules.yaml").write_text(EXPORTED)
    _, plan, _ = COMMANDS.splitlines()
    assert shell(plan, tmp_path)[0].status == 2


def test_five_failed_sign_ins_are_refused_and_a_right_password_pays_nothing():
    limiter, who = Limiter("login"), {"ip": "192.0.2.1", "post.username|strip|lower": "ada"}
    with override_ruleset("login", [eval(BY_OUTCOME, {"Rule": EngineRule})]):
        for login in ["ok", *["failed"] * 5]:
            result = limiter.check(who)
            assert not result.blocked
            limiter.settle(result, {"login": login})
        assert limiter.check(who).blocked
