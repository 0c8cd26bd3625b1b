"""``ratelimit_plan FILE``: what ``ratelimit_apply FILE`` would change. Exit status 2 when it would, 0 when not."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...exceptions import InvalidRulesFile
from ...rulesets import diff as ruleset_diff
from ...rulesets import text as ruleset_text


class Command(BaseCommand):
    """Compare a file with the admin tier."""

    help = "Show what ratelimit_apply FILE would change. Exit status: 0 nothing, 2 something, 1 the file has an error."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the file."""
        parser.add_argument("file", metavar="FILE")
        parser.add_argument(
            "--prune", action="store_true", help="also list as deleted the rulesets that the file does not name"
        )

    def handle(self, *, file: str, prune: bool, **options: Any) -> None:
        """Write the changes."""
        try:
            rulesets = ruleset_text.load_file(file)
        except InvalidRulesFile as error:
            raise CommandError(str(error)) from error
        changes = ruleset_diff.compare(
            ruleset_text.stored(None if prune else rulesets),
            {name: ruleset_text.of_tier(tier) for name, tier in rulesets.items()},
        )
        if changes:
            self.stdout.write(ruleset_diff.as_text(changes), ending="")
            sys.exit(2)
        self.stdout.write("Nothing would change.")
