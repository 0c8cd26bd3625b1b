"""Suggested limits block the requested share, on the command line too."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.replay import distribution, reader_of
from django_ratelimit_rules.replay.distribution import Distribution, measure, of_counters
from django_ratelimit_rules.testing import override_ruleset
from tests.replay.test_exact import START
from tests.replay.test_logs import LOG
from tests.replay.test_report import SITE, of_lines, of_log, ruleset

BY_IP = Rule("by_ip", characteristics=["ip"], limit=1, period=60)


def measured(lines: list[dict[str, Any]], *rules: Rule) -> list[Distribution]:
    asked = ruleset(*rules)
    file = io.BytesIO("".join(json.dumps(line) + "\n" for line in lines).encode())
    return measure(asked, reader_of(file, [asked]))[0]


@given(
    traffic=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40)), min_size=1, max_size=80),
    percent=st.sampled_from([0, 1, 20, 50, 99, 100]),
)
def test_a_suggested_limit_is_the_lowest_that_refuses_no_more_than_the_share(traffic, percent):
    now, lines = START / 1000, []
    for client, wait in traffic:
        now += wait
        lines.append({"time": now, "ip": client})
    (found,) = measured(lines, BY_IP)
    limit = found.limit_for(percent)
    clients = len({client for client, _ in traffic})
    assert len(found.busiest) == clients
    refused = replayed(lines, limit)
    assert found.refused(limit) == refused
    assert refused[0] <= clients * percent / 100
    if limit:
        assert replayed(lines, limit - 1)[0] > clients * percent / 100


def replayed(lines: list[dict[str, Any]], limit: int) -> tuple[int, int]:
    (only,) = of_lines(lines, ruleset(BY_IP.with_changes(limit=limit))).replays
    return len(only.draft.blocked), only.draft.refused


def test_percentiles_are_those_of_windows():
    found = Distribution(BY_IP, windows=distribution.Counter({1: 50, 2: 45, 7: 4, 90: 1}), busiest=[1, 2, 7, 90])
    assert [found.percentile(percent) for percent in (0, 50, 51, 95, 99, 100)] == [1, 1, 2, 2, 7, 90]
    assert (found.most, found.calls) == (90, 258)


def test_nothing_measured_suggests_nothing():
    (found,) = measured([], BY_IP)
    assert (found.percentile(99), found.most, found.limit_for(1), found.refused(0)) == (0, 0, 0, (0, 0))


def test_the_measures_of_real_traffic():
    with LOG.open("rb") as file:
        asked = ruleset(*SITE)
        found = {each.rule.name: each for each in measure(asked, reader_of(file, [asked]))[0]}
    crawlers = found["crawlers"]
    # The replay of the same rules counts the same number of calls for this rule. The busiest crawler's hour has 62.
    assert (crawlers.calls, len(crawlers.busiest), crawlers.most) == (1411, 42, 62)
    clients = found["clients"]
    assert [clients.percentile(percent) for percent in (50, 95, 99)] == [1, 8, 32]
    limit = clients.limit_for(1)
    (only,) = of_log(ruleset(*[rule for rule in SITE if not rule.counts], clients.draft(1))).replays
    assert (len(only.draft.blocked), only.draft.refused) == clients.refused(limit)


def test_costs_and_different_values_are_measured_as_rules_count_them():
    lines = [{"time": 1, "ip": "a", "path": path, "cost": 5} for path in ("/1", "/1", "/2")]
    calls, values = measured(lines, BY_IP, Rule("values", count_distinct="path", limit=1, period=60))
    assert (calls.most, values.most) == (15, 2)


def test_only_the_limiters_own_calls_are_measured():
    lines = [{"time": 1, "ip": "a", "limiter": name} for name in ("site", "search", "site")]
    assert measured(lines, BY_IP)[0].calls == 2


def test_live_counters_are_reported_as_they_are():
    found = of_counters(BY_IP, [3, 0, 1, 1.5])
    assert (found.busiest, found.calls, found.percentile(50)) == ([1, 2, 3], 6, 2)


def run(*arguments: str, **options: Any) -> str:
    out = io.StringIO()
    call_command("ratelimit_suggest", "site", *arguments, stdout=out, **options)
    return out.getvalue()


@pytest.mark.django_db
def test_the_command_names_properties_that_the_traffic_lacks():
    said = run("--traffic", str(LOG), "--by", "post.email", "--period", "1d")
    assert "This traffic does not contain post.email, so it is treated as missing." in said
    assert "9,999 calls of 1 client in 4 windows." in said


@pytest.mark.django_db
def test_the_command_prints_tables_and_a_draft_that_replays_to_its_promise():
    said = run("--traffic", str(LOG), "--period", "1m", "--refuse", "5")
    assert "9,999 calls of 1,753 clients in 3,052 windows." in said
    assert "5 %                  9       87  1,851" in said
    (rule,) = yaml.safe_load(said[said.index("site:") :])["site"]["rules"]
    assert (rule["name"], rule["limit"], rule["period"]) == ("per_ip", 9, "1m")
    (only,) = of_log(ruleset(Rule(**rule))).replays
    assert (len(only.draft.blocked), only.draft.refused) == (87, 1851)


@pytest.mark.django_db
def test_several_periods_and_properties_are_measured_in_one_run():
    said = run("--traffic", str(LOG), "--period", "1m", "--period", "1h", "--by", "header.user-agent", "--by", "ip")
    assert "per_header_user_agent_ip_1h: by header.user-agent, ip, in 1 h" in said
    assert "per_header_user_agent_ip_1m: by" in said


@pytest.mark.django_db
def test_a_log_rules_live_counters_suggest_a_limit():
    shadow = Rule("shadow", action="log", characteristics=["ip"], limit=2, period=3600)
    with override_ruleset("site", [shadow, Rule("wide", limit=10**6, period=60)]):
        for client in range(10):
            for _ in range(client + 1):
                Limiter("site").check({"ip": f"192.0.2.{client}"})
        said = run("--rule", "shadow", "--refuse", "10")
    assert "55 calls of 10 clients in 10 windows." in said
    (rule,) = yaml.safe_load(said[said.index("site:") :])["site"]["rules"]
    assert (rule["name"], rule.get("action", "limit"), rule["limit"]) == ("shadow", "limit", 9)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "--traffic"),
        (["--rule", "none"], "has no rule none. Its rules are: shadow"),
        (["--traffic", "/none.log"], "No such file"),
        (["--traffic", str(LOG), "--by", "|"], "not a property"),
        (["--traffic", str(LOG), "--period", "1w"], "not a duration"),
        (["--traffic", str(LOG), "--refuse", "101"], "0 to 100"),
        (["--traffic", str(LOG), "--rules", "/none.yaml", "--rule", "x"], "none.yaml"),
    ],
)
def test_unmeasurable_input_is_reported_without_a_traceback(arguments, reason):
    shadow = Rule("shadow", action="log", characteristics=["ip"], limit=2, period=3600)
    with override_ruleset("site", [shadow]), pytest.raises(CommandError, match=reason):
        run(*arguments)
