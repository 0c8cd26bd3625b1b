"""Runs each decision vector on a real Redis, and on memory with a moved clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from django_ratelimit_rules import Rule
from django_ratelimit_rules.testing import moved_clock
from tests.vector_runner import Run, cases

ALL = cases()
DECISIONS = [pytest.param(case, id=title) for title, case in ALL if "invalid" not in case]
INVALID = [pytest.param(case, id=title) for title, case in ALL if "invalid" in case]


@pytest.mark.parametrize("case", DECISIONS)
def test_vector_holds_on_redis(case):
    Run(case, wait=time.sleep, now=time.time).run()


@pytest.mark.parametrize("case", DECISIONS)
def test_vector_holds_where_refusals_are_answered_without_redis(case, settings):
    settings.RATELIMIT_RULES_DENIAL_CACHE = 1000
    Run(case, wait=time.sleep, now=time.time).run()


@pytest.mark.parametrize("case", DECISIONS)
def test_vector_holds_in_memory_without_sleeping(case):
    start = datetime.fromisoformat(case["now"]) if "now" in case else datetime.now(UTC)
    with moved_clock(start) as clock:
        Run(case, wait=clock.move, now=clock.timestamp).run()


@pytest.mark.parametrize("case", INVALID)
def test_invalid_rule_is_refused_naming_field_or_property(case):
    with pytest.raises((ValueError, TypeError), match=case["invalid"]):
        Rule(**case["rule"])
