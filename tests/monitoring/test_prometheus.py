"""A real Prometheus scrapes the example site, and evaluates each query of the dashboard and each alert."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
import yaml
from django.conf import settings

from django_ratelimit_rules.management.commands.ratelimit_dashboard import ALERTS, DASHBOARD
from django_ratelimit_rules.monitoring.dashboard.grafana import WINDOW, queries
from tests.servers import free_port, wait_until

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Debian's prometheus package")

MANAGE = Path(__file__).resolve().parents[2] / "example_project" / "manage.py"
SCRAPES = 4
CONFIG = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}
rule_files: [{alerts}]
scrape_configs:
  - job_name: example
    static_configs: [{{targets: ["{target}"]}}]
"""
# Metrics that this test's traffic does not change for the limiter search. Their queries return no data.
SILENT = ("shadow_total", "errors_total", 'exceeded="true"')


def manage(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a command of the example site in its own group, with its data in the folder."""
    (folder / "metrics").mkdir(exist_ok=True)
    environ = {
        **os.environ,
        "REDIS_URL": f"{settings.REDIS_URL}/5",
        "EXAMPLE_DATA": str(folder),
        "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics"),
    }
    environ.pop("DJANGO_SETTINGS_MODULE", None)
    with (folder / "site.log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, str(MANAGE), *arguments], env=environ, stdout=log, stderr=log, text=True
        )


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """Serve the example site with its rules and empty counters. Yields host and port."""
    assert manage(folder, "prepare").wait(60) == 0
    log = folder / "site.log"
    with running(manage(folder, "serve", "--port=0")):
        wait_until(lambda: re.search(r"site\s+http://\S+", log.read_text()), 60, "the example site")
        yield re.search(r"site\s+http://([^/\s]+)", log.read_text())[1]


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """Run a Prometheus that scrapes the target twice a second. Yields its URL."""
    (folder / "prometheus.yml").write_text(CONFIG.format(alerts=ALERTS, target=target))
    address = f"127.0.0.1:{free_port()}"
    options = ["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(["prometheus", *options], cwd=folder, stdout=log, stderr=log, text=True)
    with running(process):
        url = f"http://{address}"

        def ready() -> bool:
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            try:
                return bool(urlopen(f"{url}/-/ready", timeout=5).status == 200)
            except OSError:
                return False

        wait_until(ready, 30, "Prometheus")
        yield url


def visit(target: str) -> None:
    """Search until the limit blocks, and pass all earlier limits."""
    for headers in ({}, {"X-Bypass-Rate-Limits": "open-sesame"}):
        with suppress(HTTPError):
            urlopen(Request(f"http://{target}/search/?q=redis", headers=headers), timeout=10).close()


def ask(url: str, path: str, **parameters: str) -> dict:
    with urlopen(f"{url}/api/v1/{path}?{urlencode(parameters)}", timeout=10) as answer:
        return json.loads(answer.read())["data"]


def test_every_query_and_alert_runs_on_a_prometheus_that_scrapes_the_example_site(tmp_path):
    with site(tmp_path) as target:
        assert manage(tmp_path, "ratelimit_dashboard", str(tmp_path)).wait(60) == 0
        board = json.loads((tmp_path / DASHBOARD).read_text())
        with prometheus(tmp_path, target) as url:

            def visited_and_scraped() -> bool:
                """Visit and return whether a scrape followed. Rates need scrapes before and after a visit."""
                visit(target)
                seen = ask(url, "query", query="count_over_time(django_rate_limiter_calls_total[1m])")["result"]
                blocked = any(series["metric"]["result"] == "block" for series in seen)
                return blocked and all(int(series["value"][1]) > SCRAPES for series in seen)

            wait_until(visited_and_scraped, 60, "scrapes of the example site")
            asked = [query.replace(WINDOW, "1m") for query in queries(board)]
            answers = {query: ask(url, "query", query=query)["result"] for query in asked}
            about = [query for query in asked if 'rate_limiter="search"' in query or 'rate_limiter="' not in query]
            expected = [query for query in about if not any(name in query for name in SILENT)]
            loaded = ask(url, "rules")["groups"]
            wait_until(
                lambda: all(rule["health"] != "unknown" for g in ask(url, "rules")["groups"] for rule in g["rules"]),
                30,
                "an evaluation of every alert",
            )
            health = {
                r["name"]: (r["health"], r.get("lastError")) for g in ask(url, "rules")["groups"] for r in g["rules"]
            }

    assert len(asked) > 40
    assert len(expected) >= 10
    assert [query for query in expected if not answers[query]] == []
    assert sum(len(group["rules"]) for group in loaded) == sum(
        len(group["rules"]) for group in yaml.safe_load((tmp_path / ALERTS).read_text())["groups"]
    )
    assert set(health.values()) == {("ok", None)}
