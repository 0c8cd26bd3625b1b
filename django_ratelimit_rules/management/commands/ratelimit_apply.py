"""``ratelimit_apply FILE``: write the rules of a file to the admin, all of them or none."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...engine.messages import message_of
from ...exceptions import InvalidRulesFile
from ...rulesets import diff as ruleset_diff
from ...rulesets import history
from ...rulesets import text as ruleset_text
from ...runtime.language import localized
from ._changes import as_lines


class Command(BaseCommand):
    """Write a file into the admin tier."""

    help = gettext_noop(
        "Write the rulesets of FILE to the admin. Other rulesets stay. Counters continue, because they belong to the"
        " names of rules."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the file, and the user and reason for the history."""
        parser.description = _(self.help)
        parser.add_argument("file", metavar="FILE")
        parser.add_argument("--prune", action="store_true", help=_("delete rulesets that the file does not contain"))
        parser.add_argument("--reason", default="", help=_("reason, which is kept with the version"))
        parser.add_argument(
            "--as", dest="user", default="", metavar="NAME", help=_("user, who is kept with the version")
        )

    def handle(self, *, file: str, prune: bool, reason: str, user: str, **options: Any) -> None:
        """Write the rows, and print the changes."""
        try:
            rulesets = ruleset_text.load_file(file)
            before = ruleset_text.stored(None if prune else rulesets)
            author = history.Author(user=user, action=f"ratelimit_apply {file}", reason=reason)
            names = history.apply(rulesets, author, prune=prune)
        except (InvalidRulesFile, DatabaseError) as error:
            raise CommandError(localized(message_of(error))) from error
        changes = ruleset_diff.compare(before, ruleset_text.stored(names))
        self.stdout.write(as_lines(changes) or _("Nothing changed.") + "\n", ending="")
