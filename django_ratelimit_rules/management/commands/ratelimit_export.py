"""``ratelimit_export [LIMITER ...]``: the admin's rules as YAML, always in the same order."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...rulesets import text as ruleset_text


class Command(BaseCommand):
    """Write the admin tier to the standard output."""

    help = "Write the admin's rulesets as YAML, for ratelimit_plan, ratelimit_apply or RATELIMIT_RULES_FILE."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the names of rulesets."""
        parser.add_argument("limiters", nargs="*", metavar="LIMITER", help="rulesets to write; all when none is named")

    def handle(self, *, limiters: list[str], **options: Any) -> None:
        """Write the text; refuse names that there are not, which a script would take for empty rulesets."""
        if not limiters:
            self.stdout.write(ruleset_text.stored_text(), ending="")
            return
        said = ruleset_text.stored(limiters)
        missing = [name for name in limiters if name not in said]
        if missing:
            raise CommandError(f"the admin has no ruleset {', '.join(missing)}")
        self.stdout.write(ruleset_text.dump(said), ending="")
