"""``ratelimit_check [LIMITER ...]``: the linter's findings in all rules of all tiers, for people and for CI."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...engine.lint import Finding, Severity
from ...engine.messages import ngettext
from ...rulesets import findings
from ...rulesets.limiter_names import no_such_limiter
from ...runtime.language import localized


class Command(BaseCommand):
    """Print each finding with its reason and remedy. Exit with status 1 if a finding is as bad as ``--fail-level``."""

    help = gettext_noop("Look for rules that are probably mistakes, in the rules file, the database and code.")

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the limiters and the severity that makes the command fail."""
        parser.description = _(self.help)
        parser.add_argument(
            "limiters", nargs="*", metavar="limiter", help=_("Check only these limiters (default: all limiters).")
        )
        parser.add_argument(
            "--fail-level",
            choices=[severity.value for severity in Severity],
            default=Severity.WARNING.value,
            help=_("Exit with status 1 if a finding is at least this severe (default: %(default)s)."),
        )

    def handle(self, *, limiters: list[str], fail_level: str, **options: Any) -> None:
        """Print the findings of each limiter and their number."""
        by_limiter = findings.everywhere()
        unknown = [name for name in limiters if name not in by_limiter]
        if unknown:
            raise CommandError(localized(no_such_limiter(unknown[0], list(by_limiter))), returncode=2)
        chosen = {name: by_limiter[name] for name in limiters or by_limiter}
        for name, findings_here in chosen.items():
            for finding in findings_here:
                self.stdout.write(self._text(name, finding))
        total = [finding for findings_here in chosen.values() for finding in findings_here]
        failing = sum(finding.severity.rank >= Severity(fail_level).rank for finding in total)
        checked = ngettext("%(number)s limiter", "%(number)s limiters", len(chosen))
        summary = ngettext(
            "%(number)s finding in %(limiters)s.", "%(number)s findings in %(limiters)s.", len(total), limiters=checked
        )
        if failing:
            count = ngettext(
                "%(number)s finding is of level %(level)s or worse.",
                "%(number)s findings are of level %(level)s or worse.",
                failing,
                level=fail_level,
            )
            raise CommandError(f"{localized(summary)} {localized(count)}")
        self.stdout.write(localized(summary))

    def _text(self, limiter: str, finding: Finding) -> str:
        place = f"{limiter}.{finding.rule}" if finding.rule else limiter
        style = {Severity.ERROR: self.style.ERROR, Severity.WARNING: self.style.WARNING}.get(finding.severity, str)
        message = localized(finding.message).removesuffix(".")
        head = f"{place}: {finding.severity} ({finding.code}): {message}."
        return f"{style(head)}\n    {localized(finding.why)}\n    {localized(finding.advice)}"
