"""The alert rules and the conditions that fire them, as unit tests of promtool, Prometheus's own tool."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.management.commands.ratelimit_dashboard import ALERTS
from django_ratelimit_rules.monitoring.dashboard.promql import Expressions
from django_ratelimit_rules.testing import override_ruleset

pytestmark = [
    pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian's prometheus package)"),
    pytest.mark.django_db,
]

RULES = [
    Rule("staff", action="skip", match={"is_staff": True}),
    Rule("shadow", action="log", characteristics=["ip"], limit=1, period=60),
    Rule("per_user", characteristics=["user"], limit=2, period=60),
]
BLOCKS, SHADOW, BYPASSED = "RateLimitBlocksMany", "RateLimitShadowWouldBlock", "RateLimitBypassed"
FAILS, SLOW, DIVERGES = "RateLimiterFails", "RateLimiterSlow", "RateLimiterDiverges"
ALL = {BLOCKS, SHADOW, BYPASSED, FAILS, SLOW, DIVERGES}
MINUTES = 120


def calls(number: float, result: str = "allow") -> tuple[str, float]:
    """Return a series that grows by a number per minute."""
    return f'django_rate_limiter_calls_total{{rate_limiter="search",result="{result}"}}', number


def evaluated(number: float, rule: str, action: str, result: str, exceeded: str) -> tuple[str, float]:
    labels = f'rule="{rule}",action="{action}",result="{result}",exceeded="{exceeded}"'
    return f'django_rate_limiter_rule_evaluations_total{{rate_limiter="search",{labels}}}', number


def checked(number: float, seconds: float) -> list[tuple[str, float]]:
    """Return the series of checks that all take about the same time."""
    name = 'django_rate_limiter_check_seconds_bucket{{rate_limiter="search",le="{}"}}'
    return [(name.format(le), number if le == "+Inf" or float(le) >= seconds else 0) for le in ("0.01", "0.05", "+Inf")]


def compared(number: float, agreement: str) -> tuple[str, float]:
    return f'django_rate_limiter_shadow_total{{rate_limiter="search",agreement="{agreement}",boundary="false"}}', number


def errors(number: float) -> tuple[str, float]:
    return 'django_rate_limiter_errors_total{rate_limiter="search"}', number


QUIET = [
    *(calls(1000), calls(50, "block"), errors(0), *checked(1050, 0.002)),
    *(evaluated(950, "per_user", "limit", "allow", "false"), evaluated(50, "per_user", "limit", "block", "true")),
    *(evaluated(1000, "shadow", "log", "allow", "false"), evaluated(5, "shadow", "log", "allow", "true")),
    *(evaluated(100, "staff", "skip", "allow", "false"), compared(1000, "match"), compared(4, "diverge")),
]


def fires(*changes: tuple[str, float]) -> dict:
    """Return QUIET with a different growth of some series."""
    return dict(QUIET) | dict(changes)


CASES = {
    "nothing is wrong": (fires(), set()),
    "a rule refuses every fifth call": (fires(evaluated(240, "per_user", "limit", "block", "true")), {BLOCKS}),
    "a shadow would refuse two in a hundred": (fires(evaluated(20, "shadow", "log", "allow", "true")), {SHADOW}),
    "a dry run would refuse": (fires(evaluated(60, "per_user", "limit", "allow", "true")), {SHADOW}),
    "most calls are let through uncounted": (fires(evaluated(800, "staff", "skip", "allow", "false")), {BYPASSED}),
    "checks fail": (fires(errors(30)), {FAILS}),
    "checks are slow": (fires(*checked(1050, 0.05)), {SLOW}),
    "limiters disagree": (fires(compared(8, "diverge")), {DIVERGES}),
    "shares are high but calls are few": (
        {
            **{name: value / 10000 for name, value in fires().items()},
            **dict([evaluated(0.9, "per_user", "limit", "block", "true"), compared(0.1, "diverge")]),
            **dict(
                [evaluated(0.9, "shadow", "log", "allow", "true"), evaluated(0.9, "staff", "skip", "allow", "false")]
            ),
        },
        set(),
    ),
}


@pytest.fixture
def alerts(tmp_path) -> Path:
    """Return the rule file of a limiter with each kind of rule."""
    Limiter("search")
    with override_ruleset("search", RULES):
        call_command("ratelimit_dashboard", str(tmp_path), "search", verbosity=0)
    return tmp_path / ALERTS


def promtool(*arguments: str, folder: Path) -> str:
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def growing(series: dict[str, float]) -> list[dict[str, str]]:
    return [{"series": name, "values": f"0+{value}x{MINUTES}"} for name, value in series.items()]


def test_rules_are_accepted_by_promtool(alerts):
    assert f"{len(ALL)} rules found" in promtool("check", "rules", alerts.name, folder=alerts.parent)
    assert {rule["alert"] for group in yaml.safe_load(alerts.read_text())["groups"] for rule in group["rules"]} == ALL


def test_each_alert_fires_at_its_own_cause_and_at_no_other(alerts):
    cases = [
        {
            "name": name,
            "interval": "1m",
            "input_series": growing(series),
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing",rate_limiter="search"})',
                    "eval_time": f"{MINUTES}m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(expected)],
                }
            ],
        }
        for name, (series, expected) in CASES.items()
    ]
    assert set().union(*(expected for _, expected in CASES.values())) == ALL
    tests = {"rule_files": [alerts.name], "evaluation_interval": "1m", "tests": cases}
    (alerts.parent / "tests.yml").write_text(yaml.safe_dump(tests))
    promtool("test", "rules", "tests.yml", folder=alerts.parent)


def test_an_alert_names_the_rule_the_amount_and_the_remedy(alerts):
    expected = {
        "exp_labels": {"severity": "warning", "rate_limiter": "search", "rule": "per_user"},
        "exp_annotations": {
            "summary": "Rule per_user of search blocks 20% of its calls",
            "description": "The admin's Explain page shows why clients are blocked. Switch the ruleset to dry run to"
            " stop it at once.",
        },
    }
    series = [
        evaluated(800, "per_user", "limit", "allow", "false"),
        evaluated(200, "per_user", "limit", "block", "true"),
    ]
    case = {
        "interval": "1m",
        "input_series": growing(dict(series)),
        "alert_rule_test": [{"alertname": BLOCKS, "eval_time": "60m", "exp_alerts": [expected]}],
    }
    tests = {"rule_files": [alerts.name], "evaluation_interval": "1m", "tests": [case]}
    (alerts.parent / "tests.yml").write_text(yaml.safe_dump(tests))
    promtool("test", "rules", "tests.yml", folder=alerts.parent)


def test_a_limiter_that_fails_closed_pages_and_thresholds_come_from_the_command(tmp_path):
    Limiter("search")
    with override_ruleset("search", RULES[2:], failure_mode="closed"):
        call_command("ratelimit_dashboard", str(tmp_path), "search", "--slow", "0.5", verbosity=0)
    rules = {rule["alert"]: rule for rule in yaml.safe_load((tmp_path / ALERTS).read_text())["groups"][0]["rules"]}
    assert rules[FAILS]["labels"]["severity"] == "critical"
    assert rules[SLOW]["expr"].endswith("> 0.5")
    assert BYPASSED not in rules


def test_divergence_is_split_by_the_edge_of_the_window_as_shares_of_all_comparisons(tmp_path):
    series = {name.replace('"false"', f'"{edge}"'): value for edge, agreement, value in (
        ("false", "match", 970), ("false", "diverge", 10), ("true", "match", 0), ("true", "diverge", 20)
    ) for name, value in [compared(value, agreement)]}  # fmt: skip
    expected = [{"labels": '{boundary="true"}', "value": 0.02}, {"labels": '{boundary="false"}', "value": 0.01}]
    asked = {"expr": Expressions().divergence_at_boundary("10m", "search"), "eval_time": "60m", "exp_samples": expected}
    case = {"interval": "1m", "input_series": growing(series), "promql_expr_test": [asked]}
    (tmp_path / "tests.yml").write_text(
        yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [case]})
    )
    promtool("test", "rules", "tests.yml", folder=tmp_path)
