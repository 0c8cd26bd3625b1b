"""``ratelimit_dashboard DIRECTORY``: a Grafana dashboard and Prometheus alert rules for the rulesets that exist."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...engine.messages import message_of, ngettext
from ...monitoring.dashboard.alerts import Thresholds, alert_rules
from ...monitoring.dashboard.grafana import dashboard
from ...monitoring.dashboard.promql import Expressions
from ...monitoring.dashboard.watched import watched
from ...runtime.language import localized

DASHBOARD, ALERTS = "ratelimit-dashboard.json", "ratelimit-alerts.yml"
HELP = {
    "blocked": gettext_noop("alert above this share of blocked calls of a rule (default: %(default)s)"),
    "shadow": gettext_noop(
        "alert above this share of calls that a log rule or a dry run would block (default: %(default)s)"
    ),
    "bypassed": gettext_noop(
        "alert above this share of a limiter's calls that skip rules allow (default: %(default)s)"
    ),
    "failed": gettext_noop("alert above this share of a limiter's checks that fail (default: %(default)s)"),
    "slow": gettext_noop("alert above this duration of a check in seconds, p99 (default: %(default)s)"),
    "divergence": gettext_noop(
        "alert above this share of comparisons that disagree with a legacy limiter (default: %(default)s)"
    ),
}


class Command(BaseCommand):
    """Write both files. Existing files are overwritten."""

    help = gettext_noop(
        "Write ratelimit-dashboard.json for Grafana and ratelimit-alerts.yml for Prometheus into DIRECTORY."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the directory, the limiters, and the thresholds of the alerts."""
        parser.description = _(self.help)
        parser.add_argument("directory", metavar="DIRECTORY", type=Path)
        parser.add_argument(
            "limiters", nargs="*", metavar="LIMITER", help=_("only these limiters (default: all limiters)")
        )
        parser.add_argument("--title", default="Rate limits", help=_("title of the dashboard (default: %(default)s)"))
        parser.add_argument(
            "--label",
            action="append",
            default=[],
            type=_label,
            metavar="NAME=VALUE",
            help=_("query only series with this label, for example job=shop (can be repeated)"),
        )
        for field in fields(Thresholds):
            parser.add_argument(
                f"--{field.name}", type=float, default=field.default, metavar="N", help=_(HELP[field.name])
            )

    def handle(self, *, directory: Path, limiters: list[str], title: str, label: Any, **options: Any) -> None:
        """Write the files."""
        try:
            chosen = watched(limiters)
        except LookupError as error:
            raise CommandError(localized(message_of(error))) from error
        expressions = Expressions(dict(label))
        thresholds = Thresholds(**{field.name: options[field.name] for field in fields(Thresholds)})
        alerts = alert_rules(chosen, expressions, thresholds)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / DASHBOARD).write_text(json.dumps(dashboard(chosen, expressions, title), indent=2) + "\n")
            (directory / ALERTS).write_text(yaml.safe_dump(alerts, sort_keys=False, width=120))
        except OSError as error:
            raise CommandError(str(error)) from error
        message = ngettext(
            "Wrote %(dashboard)s and %(alerts)s for %(number)s limiter.",
            "Wrote %(dashboard)s and %(alerts)s for %(number)s limiters.",
            len(chosen),
            dashboard=str(directory / DASHBOARD),
            alerts=str(directory / ALERTS),
        )
        self.stdout.write(localized(message))


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not name.isascii():
        raise ArgumentTypeError(_("%(text)r is not NAME=VALUE") % {"text": text})
    return name, value
