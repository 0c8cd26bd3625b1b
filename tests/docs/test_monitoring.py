"""Monitoring: the dashboard's commands, the alerts' defaults, and the site's own log lines."""

from __future__ import annotations

import logging.config
import re
import shutil

import pytest

from django_ratelimit_rules import Rule, rate_limited
from django_ratelimit_rules.monitoring.dashboard.alerts import FEW, Thresholds
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take, text_of
from tests.docs.running import define, serve, shell

(COMMANDS,) = take("docs/monitoring.md#dashboard-and-alerts")
(LINES,) = take("docs/monitoring.md#your-own-log-lines")

PER_USER = Rule("per_user", characteristics=["ip"], limit=30, period=60)


@pytest.mark.django_db
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian's prometheus package)")
def test_the_dashboard_and_alerts_are_written_and_prometheus_reads_them(tmp_path):
    with override_ruleset("search", [PER_USER]):
        assert [ran.status for ran in shell(COMMANDS, tmp_path)] == [0, 0]
    page = text_of("docs/monitoring.md")
    assert {f"monitoring/{file.name}" for file in (tmp_path / "monitoring").iterdir()} <= set(
        re.findall("`(.*?)`", page)
    )


def test_alerts_fire_at_the_stated_values():
    page = text_of("docs/monitoring.md")
    said = dict(re.findall(r"`--(\w+) ([\d.]+)`", page))
    assert {name: float(value) for name, value in said.items()} == {
        name: getattr(Thresholds(), name) for name in Thresholds.__slots__
    }
    assert f"below {FEW} events" in page


def test_a_line_of_the_site_contains_the_limits_of_its_request(settings, capsys):
    @rate_limited("search")
    def search(request):
        logging.getLogger("shop").info("searched")
        return define("")["HttpResponse"]()

    client = serve(settings, search=search)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logging.config.dictConfig(define(LINES)["LOGGING"])
        with override_ruleset("search", [PER_USER]):
            client.get("/search/")
    finally:
        root.handlers[:], root.level = handlers, level
    assert "INFO searched [search:per_user:allow]" in capsys.readouterr().err
