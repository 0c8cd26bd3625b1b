"""``ratelimit_dashboard DIRECTORY``: a Grafana dashboard and Prometheus alert rules for the rulesets that exist."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError

from ...monitoring.dashboard.alerts import Thresholds, alert_rules
from ...monitoring.dashboard.grafana import dashboard
from ...monitoring.dashboard.promql import Expressions
from ...monitoring.dashboard.watched import watched

DASHBOARD, ALERTS = "ratelimit-dashboard.json", "ratelimit-alerts.yml"
HELP = {
    "blocked": "share of what a rule counts that it refuses",
    "shadow": "share of what a log rule, or a dry run, counts that would be refused",
    "bypassed": "share of a limiter's calls that skip rules let through",
    "failed": "share of a limiter's checks that fail",
    "slow": "seconds that a check takes, p99",
    "divergence": "share of the comparisons with a legacy limiter that disagree",
}


class Command(BaseCommand):
    """Write both files, over those that are there."""

    help = f"Write {DASHBOARD} for Grafana and {ALERTS} for Prometheus into DIRECTORY."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the directory, the limiters, and what the alerts fire at."""
        parser.add_argument("directory", metavar="DIRECTORY", type=Path)
        parser.add_argument("limiters", nargs="*", metavar="LIMITER", help="only these; without any, all limiters")
        parser.add_argument("--title", default="Rate limits", help="the dashboard's title (default: Rate limits)")
        parser.add_argument(
            "--label",
            action="append",
            default=[],
            type=_label,
            metavar="NAME=VALUE",
            help="look only at series with this label, such as job=shop; may be repeated",
        )
        for field in fields(Thresholds):
            text = f"alert above this {HELP[field.name]} (default: {field.default})"
            parser.add_argument(
                f"--{field.name}", type=float, default=field.default, metavar="N", help=text.replace("%", "%%")
            )

    def handle(self, *, directory: Path, limiters: list[str], title: str, label: Any, **options: Any) -> None:
        """Write the files."""
        try:
            chosen = watched(limiters)
        except LookupError as error:
            raise CommandError(error.args[0]) from error
        expressions = Expressions(dict(label))
        thresholds = Thresholds(**{field.name: options[field.name] for field in fields(Thresholds)})
        alerts = alert_rules(chosen, expressions, thresholds)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / DASHBOARD).write_text(json.dumps(dashboard(chosen, expressions, title), indent=2) + "\n")
            (directory / ALERTS).write_text(yaml.safe_dump(alerts, sort_keys=False, width=120))
        except OSError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{directory / DASHBOARD} and {directory / ALERTS}: {len(chosen)} limiters.")


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not name.isascii():
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
