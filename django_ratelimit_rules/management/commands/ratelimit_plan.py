"""``ratelimit_plan FILE``: the changes that ``ratelimit_apply FILE`` would make. Exit status 2 for changes, else 0."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...engine.messages import message_of
from ...exceptions import InvalidRulesFile
from ...rulesets import diff as ruleset_diff
from ...rulesets import text as ruleset_text
from ...runtime.language import localized
from ._changes import as_lines


class Command(BaseCommand):
    """Compare a file with the admin tier."""

    help = gettext_noop(
        "Show the changes that ratelimit_apply FILE would make. Exit status: 0 for no changes, 2 for changes, 1 for an"
        " error in the file."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the file."""
        parser.description = _(self.help)
        parser.add_argument("file", metavar="FILE")
        parser.add_argument(
            "--prune", action="store_true", help=_("also delete rulesets that the file does not contain")
        )

    def handle(self, *, file: str, prune: bool, **options: Any) -> None:
        """Write the changes."""
        try:
            rulesets = ruleset_text.load_file(file)
        except InvalidRulesFile as error:
            raise CommandError(localized(message_of(error))) from error
        changes = ruleset_diff.compare(
            ruleset_text.stored(None if prune else rulesets),
            {name: ruleset_text.of_tier(tier) for name, tier in rulesets.items()},
        )
        if changes:
            self.stdout.write(as_lines(changes), ending="")
            sys.exit(2)
        self.stdout.write(_("Nothing would change."))
