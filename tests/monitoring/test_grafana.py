"""Current Grafana imports the dashboard, and it shows the rulesets of all tiers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_ratelimit_rules import Limiter, Rule, rulesets
from django_ratelimit_rules.management.commands.ratelimit_dashboard import ALERTS, DASHBOARD
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.monitoring.dashboard.grafana import queries
from django_ratelimit_rules.testing import override_ruleset
from tests.monitoring.schema import faults, newest_version

RULES = [
    Rule("staff", action="skip", match={"is_staff": True}),
    Rule("shadow", action="log", characteristics=["ip"], limit=1, period=60),
    Rule("per_user", characteristics=["user"], limit=2, period=60),
]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def written(tmp_path, db):
    """Return a function that runs the command and returns the written dashboard."""

    def write(*arguments: str) -> dict:
        call_command("ratelimit_dashboard", str(tmp_path), *arguments, verbosity=0)
        return json.loads((tmp_path / DASHBOARD).read_text())

    return write


@override_ruleset("watched", RULES)
def test_current_grafana_reads_the_dashboard_without_a_lost_key_or_a_wrong_type(written):
    Limiter("watched")
    board = written("watched")
    assert board["schemaVersion"] == newest_version()
    assert faults(board) == []


def test_the_schema_check_finds_an_unknown_key_and_a_wrong_type(written):
    board = written()
    board["panels"][1]["grid"] = {"h": 8}
    board["panels"][1]["gridPos"]["h"] = "tall"
    assert faults(board) == ["lost: .panels[1].grid.h", "dashboard.panels[].grid_pos.h: 'tall' is no <class 'int'>"]


@override_ruleset("watched", RULES)
@override_ruleset("only_logs", RULES[1:2])
def test_each_limiter_has_a_row_with_the_panels_that_its_rules_call_for(written):
    Limiter("watched")
    Limiter("only_logs")
    board = written("watched", "only_logs")
    rows = {
        row["title"]: [panel["title"] for panel in row["panels"]] for row in board["panels"] if row["type"] == "row"
    }
    assert list(rows) == ["All limiters", "only_logs", "watched"]
    assert "watched: blocks per rule" in rows["watched"]
    assert "watched: bypasses" in rows["watched"]
    assert "only_logs: shadow impact" in rows["only_logs"]
    assert not {"only_logs: blocks per rule", "only_logs: bypasses"} & set(rows["only_logs"])


def test_rulesets_of_the_file_the_admin_and_code_are_all_watched(written, settings, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("from_file: [{name: all, limit: 1, period: 1m}]")
    settings.RATELIMIT_RULES_FILE = str(file)
    Ruleset.objects.create(name="from_admin").rules.create(name="all", limit=1, period=60)
    Limiter("from_code", rules=RULES)
    rulesets.reload()
    rows = [row["title"] for row in written()["panels"] if row["type"] == "row"]
    assert {"from_file", "from_admin", "from_code"} < set(rows)


@override_ruleset("watched", RULES)
def test_panels_have_ids_of_their_own_and_do_not_overlap(written):
    Limiter("watched")
    board = written("watched")
    panels = [inner for panel in board["panels"] for inner in (panel, *panel.get("panels", ()))]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for row in board["panels"]:
        taken = set()
        for panel in row.get("panels") or [panel for panel in board["panels"] if panel["type"] != "row"]:
            position = panel["gridPos"]
            cells = {(position["x"] + x, position["y"] + y) for x in range(position["w"]) for y in range(position["h"])}
            assert not cells & taken
            assert max(x for x, _ in cells) < 24
            taken |= cells


def test_an_import_replaces_the_dashboard_of_the_same_title_and_site_and_no_other(written):
    assert written()["uid"] == written()["uid"]
    assert len({written()["uid"], written("--title", "Shop")["uid"], written("--label", "job=shop")["uid"]}) == 3


def test_a_label_with_any_value_narrows_every_query_to_one_site(written):
    for query in queries(written("--label", 'job=a"b\\')):
        assert query.count('job="a\\"b\\\\"') == query.count("django_rate_limiter_")


def test_an_unknown_limiter_or_an_invalid_label_or_directory_is_reported(written, tmp_path):
    with pytest.raises(CommandError, match="no limiter 'nobody'"):
        written("nobody")
    with pytest.raises(CommandError, match="NAME=VALUE"):
        written("--label", "job")
    (tmp_path / "taken").write_text("")
    with pytest.raises(CommandError, match="taken"):
        call_command("ratelimit_dashboard", str(tmp_path / "taken"))


NAMESPACED = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
from django.conf import settings
settings.PROMETHEUS_METRIC_NAMESPACE = "shop"
import django
django.setup()
from django.core.management import call_command
from prometheus_client import generate_latest
from django_ratelimit_rules import Limiter, Rule, rulesets
Limiter("search", rules=[Rule("all", limit=1, period=60)]).check({})
call_command("ratelimit_dashboard", sys.argv[1], "search", verbosity=0)
print(generate_latest().decode())
"""


def test_queries_and_alerts_use_the_names_that_a_site_with_a_namespace_serves(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", NAMESPACED, str(tmp_path)], cwd=ROOT, env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    served = set(re.findall(r"^# TYPE (\w*rate_limiter\w*)", done.stdout, re.MULTILINE))
    asked = (tmp_path / DASHBOARD).read_text() + (tmp_path / ALERTS).read_text()
    names = {name.removesuffix("_bucket") for name in re.findall(r"\w*django_rate_limiter_\w+", asked)}
    assert "shop_django_rate_limiter_calls_total" in names
    assert names <= served
