"""Metrics as a scrape of /metrics sees them. Their labels come only from the configuration."""

from __future__ import annotations

import re
import time

import prometheus_client
import pytest

from django_ratelimit_rules import Limiter, Rule, rulesets
from django_ratelimit_rules.models import Rule as RuleRow
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.testing import override_ruleset
from tests.servers import free_port

CHAIN = [
    Rule("shadow", action="log", characteristics=["user"], limit=1, period=60),
    Rule("staff", action="skip", match={"staff": True}),
    Rule("per_user", action="limit", characteristics=["user"], limit=2, period=60),
]


@pytest.fixture
def scrape(client):
    """Return a function that returns the samples of one limiter, with the line without the value as key."""

    def samples(limiter: str) -> dict[str, float]:
        text = client.get("/metrics").content.decode()
        lines = re.findall(r"^(django_rate_limiter\S*\{.*\}) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in lines if f'rate_limiter="{limiter}"' in name}

    return samples


def evaluations(limiter, rule, action, result, exceeded):
    return (
        f'django_rate_limiter_rule_evaluations_total{{action="{action}",exceeded="{exceeded}",'
        f'rate_limiter="{limiter}",result="{result}",rule="{rule}"}}'
    )


@override_ruleset("measured", CHAIN)
def test_calls_and_evaluations_are_counted_by_their_result(scrape):
    limiter = Limiter("measured")
    for _ in range(3):
        limiter.check({"user": 1})
    limiter.check({"user": 2, "staff": True})
    limiter.peek({"user": 1})
    seen = scrape("measured")
    assert seen['django_rate_limiter_calls_total{rate_limiter="measured",result="allow"}'] == 3
    assert seen['django_rate_limiter_calls_total{rate_limiter="measured",result="block"}'] == 1
    assert seen[evaluations("measured", "shadow", "log", "allow", "false")] == 2
    assert seen[evaluations("measured", "shadow", "log", "allow", "true")] == 2
    assert seen[evaluations("measured", "per_user", "limit", "allow", "false")] == 2
    assert seen[evaluations("measured", "per_user", "limit", "block", "true")] == 1
    assert seen[evaluations("measured", "staff", "skip", "allow", "false")] == 1
    assert seen['django_rate_limiter_check_seconds_count{rate_limiter="measured"}'] == 4


@override_ruleset("measured_seconds", CHAIN[2:])
def test_the_buckets_of_a_duration_hold_all_shorter_ones(scrape):
    for _ in range(3):
        Limiter("measured_seconds").check({"user": 1})
    seen = scrape("measured_seconds")
    bounds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, "+Inf"]
    buckets = [
        seen[f'django_rate_limiter_check_seconds_bucket{{le="{le}",rate_limiter="measured_seconds"}}'] for le in bounds
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 3
    assert seen['django_rate_limiter_check_seconds_sum{rate_limiter="measured_seconds"}'] > 0


@override_ruleset("measured_since", CHAIN[:1])
def test_the_times_of_creation_are_shown_unless_the_project_turns_them_off(scrape):
    Limiter("measured_since").check({"user": 1})
    created = [
        'django_rate_limiter_calls_created{rate_limiter="measured_since",result="allow"}',
        'django_rate_limiter_check_seconds_created{rate_limiter="measured_since"}',
        evaluations("measured_since", "shadow", "log", "allow", "false").replace("_total", "_created"),
    ]
    seen = scrape("measured_since")
    assert all(0 <= time.time() - seen[name] < 60 for name in created)
    prometheus_client.disable_created_metrics()
    try:
        assert not [name for name in scrape("measured_since") if "_created" in name]
    finally:
        prometheus_client.enable_created_metrics()


@override_ruleset("measured_dry", CHAIN[2:], mode="dry_run")
def test_a_dry_run_shows_the_configured_action_and_its_result(scrape):
    for _ in range(3):
        Limiter("measured_dry").check({"user": 1})
    assert scrape("measured_dry")[evaluations("measured_dry", "per_user", "limit", "allow", "true")] == 1


@override_ruleset("measured_off", CHAIN, mode="off")
def test_a_ruleset_that_is_off_counts_in_no_metric(scrape):
    Limiter("measured_off").check({"user": 1})
    assert scrape("measured_off") == {}


@override_ruleset("measured_down", CHAIN)
def test_failed_checks_are_counted(scrape, settings):
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"redis://127.0.0.1:{free_port()}/0"}}
    for _ in range(2):
        Limiter("measured_down").check({"user": 1})
    seen = scrape("measured_down")
    assert seen['django_rate_limiter_errors_total{rate_limiter="measured_down"}'] == 2
    assert seen['django_rate_limiter_calls_total{rate_limiter="measured_down",result="allow"}'] == 2


@override_ruleset("measured_many", [*CHAIN, Rule("by_path", characteristics=["path"], limit=2, period=60)])
def test_no_value_of_a_request_becomes_a_label(scrape):
    # Report 32.
    limiter = Limiter("measured_many")
    for number in range(500):
        limiter.check({"user": f"user-{number}", "path": f"/p/{number}", "ip": f"198.51.100.{number % 250}"})
    seen = scrape("measured_many")
    assert len(seen) < 40
    assert not [name for name in seen if re.search(r"user-|/p/|198\.51", name)]


@pytest.mark.django_db
def test_gauges_show_the_values_in_force_and_go_with_the_rule(scrape):
    ruleset = Ruleset.objects.create(name="gauged")
    RuleRow.objects.create(ruleset=ruleset, name="per_user", limit=30, period=60)
    rulesets.reload()
    labels = '{rate_limiter="gauged",rule="per_user"}'
    assert scrape("gauged") == {
        "django_rate_limiter_limit" + labels: 30,
        "django_rate_limiter_period_seconds" + labels: 60,
    }
    RuleRow.objects.update(limit=40)
    rulesets.reload()
    assert scrape("gauged")["django_rate_limiter_limit" + labels] == 40
    RuleRow.objects.all().delete()
    rulesets.reload()
    assert scrape("gauged") == {}


def test_gauges_follow_an_override_and_its_end(scrape):
    labels = '{rate_limiter="gauged_override",rule="per_user"}'
    with override_ruleset("gauged_override", CHAIN[2:]):
        assert scrape("gauged_override")["django_rate_limiter_limit" + labels] == 2
    assert scrape("gauged_override") == {}
