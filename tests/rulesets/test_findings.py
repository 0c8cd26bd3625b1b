"""``manage.py ratelimit_check`` for rules of all tiers."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_ratelimit_rules import Limiter
from django_ratelimit_rules import Rule as CodeRule
from django_ratelimit_rules.models import Rule, Ruleset
from django_ratelimit_rules.rulesets import findings, limiter_names

pytestmark = pytest.mark.django_db

COUNTING: dict[str, Any] = {"characteristics": ["ip"], "limit": 5, "period": 60}


@pytest.fixture(autouse=True)
def _only_these_limiters(monkeypatch):
    monkeypatch.setattr(limiter_names, "asked", set())


def run(*arguments: str) -> tuple[str, str]:
    """Return the command's output and its error."""
    printed = StringIO()
    try:
        call_command("ratelimit_check", *arguments, stdout=printed, no_color=True)
    except CommandError as error:
        return printed.getvalue(), str(error)
    return printed.getvalue(), ""


def test_sound_rules_pass():
    Limiter("search")
    Rule.objects.create(ruleset=Ruleset.objects.create(name="search"), name="per_ip", **COUNTING)
    assert run() == ("0 findings in 1 limiter.\n", "")


def test_a_finding_is_printed_with_reason_and_remedy_and_fails(settings, tmp_path):
    Limiter("search", rules=[CodeRule("per_user", characteristics=["user"], limit=5, period=60)])
    file = tmp_path / "rules.yaml"
    file.write_text("search:\n- {name: welcome, action: skip}\n")
    settings.RATELIMIT_RULES_FILE = str(file)
    Rule.objects.create(ruleset=Ruleset.objects.create(name="search"), name="per_ip", **COUNTING)
    printed, error = run()
    assert "search.per_ip: warning (unreachable): comes after welcome" in printed
    assert "search.per_user: warning (unreachable)" in printed
    assert "Move it before welcome" in printed
    assert error == "2 findings in 1 limiter. 2 findings are of level warning or worse."
    assert run("--fail-level", "error")[1] == ""


def test_hints_fail_only_when_asked():
    Limiter("search")
    ruleset = Ruleset.objects.create(name="search")
    Rule.objects.create(ruleset=ruleset, name="it", **COUNTING | {"characteristics": ["ip", "query.q"]})
    assert "hint (perhaps_missing)" in run()[0]
    assert run()[1] == ""
    assert run("--fail-level", "hint")[1]


def test_limiters_without_rules_and_rules_without_a_limiter_are_found():
    Limiter("asked")
    Rule.objects.create(ruleset=Ruleset.objects.create(name="forgotten"), name="per_ip", **COUNTING)
    printed, _ = run()
    assert "asked: warning (no_rules)" in printed
    assert "forgotten: warning (unknown_limiter)" in printed
    assert "forgotten" not in run("asked")[0]
    with pytest.raises(CommandError, match=r"no limiter 'other'\. The limiters are asked, forgotten\."):
        call_command("ratelimit_check", "other")


def test_a_row_that_is_no_valid_rule_is_an_error():
    Limiter("search")
    ruleset = Ruleset.objects.create(name="search")
    Rule.objects.create(ruleset=ruleset, name="broken", **COUNTING | {"match": {"path": {"regex": "("}}})
    unreadable, nothing_left = findings.of_limiter("search", ruleset.rules.all())
    assert (unreadable.rule, unreadable.code, unreadable.severity) == ("broken", "unreadable", "error")
    assert nothing_left.code == "no_rules"


def test_a_rule_that_a_higher_tier_replaces_is_not_looked_at():
    Limiter("search", rules=[CodeRule("per_ip", characteristics=["header.x-key"], limit=5, period=60)])
    Rule.objects.create(ruleset=Ruleset.objects.create(name="search"), name="per_ip", **COUNTING)
    assert findings.everywhere()["search"] == []


def test_all_limiters_take_few_queries(django_assert_max_num_queries):
    for number in range(20):
        ruleset = Ruleset.objects.create(name=f"limiter_{number}")
        Rule.objects.create(ruleset=ruleset, name="per_ip", **COUNTING)
    findings.everywhere()
    with django_assert_max_num_queries(2):
        findings.everywhere()
