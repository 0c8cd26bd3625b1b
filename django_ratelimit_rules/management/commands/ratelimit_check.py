"""``manage.py ratelimit_check``: the linter's findings in all rules of all tiers, for people and for CI."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...engine.lint import Finding, Severity
from ...rulesets import findings


class Command(BaseCommand):
    """Print each finding with its reason and remedy; exit with status 1 when one is as bad as ``--fail-level``."""

    help = "Look for rules that are probably mistakes, in the rules file, the database and code."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take limiters, and how bad a finding must be to fail."""
        parser.add_argument("limiters", nargs="*", metavar="limiter", help="Only these; without any, all limiters.")
        parser.add_argument(
            "--fail-level",
            choices=[severity.value for severity in Severity],
            default=Severity.WARNING.value,
            help="Exit with status 1 when there is a finding as bad as this (default: warning).",
        )

    def handle(self, *, limiters: list[str], fail_level: str, **_: Any) -> None:
        """Print the findings of each limiter, and say how many there are."""
        found = findings.everywhere()
        unknown = [name for name in limiters if name not in found]
        if unknown:
            raise CommandError(
                f"There is no limiter {unknown[0]!r}; there are {', '.join(found) or 'none'}.", returncode=2
            )
        chosen = {name: found[name] for name in limiters or found}
        for name, findings_here in chosen.items():
            for finding in findings_here:
                self.stdout.write(self._text(name, finding))
        total = [finding for findings_here in chosen.values() for finding in findings_here]
        failing = sum(finding.severity.rank >= Severity(fail_level).rank for finding in total)
        summary = f"{len(total)} findings in {len(chosen)} limiters"
        if failing:
            raise CommandError(f"{summary}; {failing} of them at least of level {fail_level}.")
        self.stdout.write(f"{summary}.")

    def _text(self, limiter: str, finding: Finding) -> str:
        place = f"{limiter}.{finding.rule}" if finding.rule else limiter
        style = {Severity.ERROR: self.style.ERROR, Severity.WARNING: self.style.WARNING}.get(finding.severity, str)
        head = f"{place}: {finding.severity} ({finding.code}): {finding.message}."
        return f"{style(head)}\n    {finding.why}\n    {finding.advice}"
