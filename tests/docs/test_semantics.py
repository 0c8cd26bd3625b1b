"""The meaning of rules: a replay with a moved clock must give the drawing on the page."""

from __future__ import annotations

import re

import pytest

from django_ratelimit_rules import Rule, rulesets
from django_ratelimit_rules.engine import Action, Evaluation, FailureMode, Mode, Result
from django_ratelimit_rules.engine.algorithms import ALGORITHMS
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take, text_of
from tests.docs.timelines import draw, rule_of

PAGE = "docs/semantics.md"
(FIXED,) = take(f"{PAGE}#fixed-window")
(SLIDING,) = take(f"{PAGE}#sliding-window")
(BUCKET,) = take(f"{PAGE}#token-bucket")
(BAN,) = take(f"{PAGE}#bans")
(TIERS,) = take(f"{PAGE}#tiers")
DRAWINGS = {"fixed": FIXED, "sliding": SLIDING, "bucket": BUCKET, "ban": BAN}


def section(heading: str) -> str:
    return text_of(PAGE).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_time_line_shows_the_numbers_of_a_replay(name):
    assert DRAWINGS[name] == draw(DRAWINGS[name])


@pytest.mark.parametrize(
    "wrong", [("retry         -", "retry         1"), ("┤├", "─├"), ("5     1     2", "6     1     2")]
)
def test_a_wrong_number_or_bar_does_not_pass(wrong):
    drawing = FIXED.replace(*wrong)
    assert drawing != FIXED
    assert drawing != draw(drawing)


def test_every_algorithm_and_a_ban_have_a_time_line():
    rules = [rule_of(drawing) for drawing in DRAWINGS.values()]
    assert {rule.algorithm for rule in rules} == set(ALGORITHMS.values())
    assert any(rule.ban_for for rule in rules)


def cells(label: str) -> list[str]:
    """Return the cells of a row of the tiers' drawing."""
    (row,) = re.findall(rf"^{label} +(.*)$", TIERS, re.MULTILINE)
    return re.split(r" {2,}", row)


def named_limits(label: str) -> list[tuple[str, int]]:
    return [(name, int(limit)) for name, limit in (cell.split(": ") for cell in cells(label))]


def test_the_tiers_join_as_drawn():
    tiers = {
        tier: [Rule(name, limit=limit, period=60) for name, limit in named_limits(tier)]
        for tier in ("file", "admin", "code")
    }
    with override_ruleset("search", tiers=tiers):
        joined = rulesets.effective("search").rules
    assert [(rule.name, rule.limit) for rule, _ in joined] == named_limits("in force")
    assert [str(tier) for _, tier in joined] == cells("from")


def test_the_tables_name_all_actions_modes_and_failure_modes():
    for heading, words in (("Actions", Action), ("Modes", Mode), ("Failure", FailureMode)):
        assert set(re.findall(r"^\| `(\w+)`", section(heading), re.MULTILINE)) == {str(word) for word in words}


def test_the_fields_of_a_result_and_an_evaluation_that_are_named_exist():
    table = re.findall(r"^\| (`.*?`) \|", section("The result"), re.MULTILINE)
    named = [name for cell in table for name in re.findall("`(.*?)`", cell)]
    assert len(named) > 8
    assert all(hasattr(Result("search"), name) for name in named)
    (sentence,) = re.findall(r"An evaluation has (.*?)\. `remaining`", section("The result"), re.DOTALL)
    assert set(re.findall("`(.*?)`", sentence)) == set(Evaluation.__annotations__)
