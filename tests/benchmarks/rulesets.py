"""Long rulesets: a check of 2,000 rules with 5 matches, against a check of 5 rules that all match.

No peer has rulesets.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial
from typing import Any

from tests.benchmarks.contestants import FIRST_PERSON, HOUR, NEVER_REACHED, OURS
from tests.benchmarks.report import Row, multiples
from tests.benchmarks.timing import BATCH, Call, interleaved

FIVE = "5 rules, all match"


def rulesets(seconds: float) -> list[Row]:
    """A row for each kind of difference between rules."""
    calls = {title: _call(number, rules) for number, (title, rules) in enumerate(_rules().items())}
    five = {FIVE: calls.pop(FIVE)}
    samples = interleaved({**five, **calls}, {}, seconds)
    floor = statistics.median(samples[FIVE].values())
    return [
        Row(
            f"check, 2,000 rules {title}, 5 match",
            f"{FIVE} {floor * 1e6:.0f} µs",
            "flat",
            {OURS.name: cell},
            f"{len(samples[title])} x {BATCH}",
        )
        for title, cell in multiples(samples, FIVE).items()
    ]


def _rules() -> dict[str, list[Mapping[str, object]]]:
    """Return the conditions of each ruleset's rules."""
    plans = [{"plan": f"p{number % 400}"} for number in range(2000)]
    mixed: list[Mapping[str, object]] = [{("plan", "team", "path")[number % 3]: f"x{number}"} for number in range(1995)]
    return {
        FIVE: [{}] * 5,
        "by equality": [*plans],
        "by three properties": [*mixed, *[{}] * 5],
        "by prefix": [{"path": {"prefix": f"/p{number % 400}/"}} for number in range(2000)],
        "by regex": [{"path": {"regex": f"^/p{number % 400}/"}} for number in range(2000)],
        "by network": [{"ip": {"cidr": f"10.{number % 400 // 200}.{number % 200}.0/24"}} for number in range(2000)],
    }


def _call(number: int, conditions: list[Mapping[str, object]]) -> Call:
    from django_ratelimit_rules import Limiter, Rule

    made: Any = partial(Rule, characteristics=["user"], limit=NEVER_REACHED, period=HOUR)
    rules = [made(f"r{position}", match=condition) for position, condition in enumerate(conditions)]
    check = Limiter(f"long_{number}", rules=rules).check
    facts = {"plan": "p42", "team": "red", "path": "/p42/x", "ip": "10.0.42.7"}

    def evaluations(person: int) -> int:
        return len(check({"user": FIRST_PERSON + person, **facts}).evaluations)

    if evaluations(0) != 5:
        raise AssertionError(f"5 rules should match, not {evaluations(0)}: {conditions[0]}")
    return evaluations
