"""Trying rules on recorded traffic: the commands run, and the shown lines are read."""

from __future__ import annotations

import shutil

import pytest

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take
from tests.docs.running import shell
from tests.replay.test_logs import LOG

(REPLAY,) = take("docs/replay.md#replay")
(JSON_LINES,) = take("docs/replay.md#what-traffic-tells")
(SUGGEST,) = take("docs/replay.md#suggest")
pytestmark = pytest.mark.django_db

DRAFT = """
site:
  rules:
    - {name: crawlers, match: {header.user-agent: {regex: bot}}, characteristics: [ip], limit: 9, period: 1m}
"""
SHADOW = Rule("client_shadow", action="log", characteristics=["ip"], limit=5, period="1h")


@pytest.fixture
def folder(tmp_path):
    shutil.copy(LOG, tmp_path / "access.log")
    (tmp_path / "draft.yaml").write_text(DRAFT)
    return tmp_path


def test_a_draft_is_replayed(folder):
    (replayed,) = shell(REPLAY, folder)
    assert "crawlers" in replayed.said


def test_json_lines_as_shown_are_read(folder):
    (folder / "calls.jsonl").write_text(JSON_LINES)
    (folder / "draft.yaml").write_text(
        "search: {rules: [{name: per_user, characteristics: [user], limit: 1, period: 1d}]}"
    )
    (replayed,) = shell("manage.py ratelimit_replay --rules draft.yaml --traffic calls.jsonl --limiter search", folder)
    assert "per_user" in replayed.said
    assert "42" in replayed.said


def test_limits_are_suggested_from_traffic_a_draft_and_live_counters(folder):
    with override_ruleset("site", [SHADOW]):
        for number in range(9):
            Limiter("site").check({"ip": f"192.0.2.{number}"})
        suggested = shell(SUGGEST, folder)
    assert [("limit:" in ran.said, "p99" in ran.said) for ran in suggested] == [(True, True)] * 3
