"""``ratelimit_import --from django-ratelimit|drf``: the project's rates as draft rules, in YAML."""

from __future__ import annotations

from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...legacy import drafts

# Loaded by name, because each needs its library, which a project need not have.
READERS = {
    "django-ratelimit": "django_ratelimit_rules.contrib.django_ratelimit_rates",
    "drf": "django_ratelimit_rules.contrib.rest_framework_rates",
}


class Command(BaseCommand):
    """Write the drafts to the standard output, or to a file that is not there yet."""

    help = "Read the rates of another limiter from views and settings, and write equivalent draft rules as YAML."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take where to read, and where to write."""
        parser.add_argument("--from", dest="source", choices=sorted(READERS), required=True)
        parser.add_argument("--output", metavar="FILE", type=Path, help="a new file; without it the standard output")

    def handle(self, *, source: str, output: Path | None, **options: Any) -> None:
        """Write them."""
        try:
            reader = import_module(READERS[source])
        except ModuleNotFoundError as error:
            if str(error.name).startswith("django_ratelimit_rules"):
                raise
            raise CommandError(f"{source} is not installed here: {error}.") from error
        found = reader.drafts()
        if not found:
            self.stderr.write(f"Nothing of {source} was found in the views and settings of this project.")
        text = drafts.write(found, reader.HEADING)
        if output is None:
            self.stdout.write(text, ending="")
            return
        try:
            with output.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{output}: {len(found)} rulesets. Read it, then ratelimit_plan {output}")
