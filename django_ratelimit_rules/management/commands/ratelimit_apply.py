"""``ratelimit_apply FILE``: make the admin's rules say what a file says, all of it or nothing."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from ...exceptions import InvalidRulesFile
from ...rulesets import diff as ruleset_diff
from ...rulesets import history
from ...rulesets import text as ruleset_text


class Command(BaseCommand):
    """Write a file into the admin tier."""

    help = "Make the rulesets that FILE names say what it says; others stay. Counters go on: they belong to rule names."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the file, and what to note in the history."""
        parser.add_argument("file", metavar="FILE")
        parser.add_argument("--prune", action="store_true", help="delete rulesets that the file does not name")
        parser.add_argument("--reason", default="", help="why; kept with the version")
        parser.add_argument("--as", dest="user", default="", metavar="NAME", help="who; kept with the version")

    def handle(self, *, file: str, prune: bool, reason: str, user: str, **options: Any) -> None:
        """Write the rows, and say what changed."""
        try:
            rulesets = ruleset_text.load_file(file)
            before = ruleset_text.stored(None if prune else rulesets)
            author = history.Author(user=user, action=f"ratelimit_apply {file}", reason=reason)
            names = history.apply(rulesets, author, prune=prune)
        except (InvalidRulesFile, DatabaseError) as error:
            raise CommandError(str(error)) from error
        changes = ruleset_diff.compare(before, ruleset_text.stored(names))
        self.stdout.write(ruleset_diff.as_text(changes) or "Nothing changed.\n", ending="")
