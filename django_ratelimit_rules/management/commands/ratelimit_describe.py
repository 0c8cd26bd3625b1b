"""``ratelimit_describe [LIMITER ...]``: the limits that clients meet, as Markdown or OpenAPI, to be published."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...http.published_limits import as_markdown, as_openapi, public_limits


class Command(BaseCommand):
    """Write the description to the standard output."""

    help = "Describe the limits in force for those who meet them. Tells no skip rules, log rules, notes or conditions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the names of limiters, and the format."""
        parser.add_argument(
            "limiters", nargs="*", metavar="LIMITER", help="limiters to tell about; all when none is named"
        )
        parser.add_argument("--format", choices=("markdown", "openapi"), default="markdown")

    def handle(self, *, limiters: list[str], format: str, **options: Any) -> None:
        """Write it."""
        try:
            limits = public_limits(limiters)
        except LookupError as error:
            raise CommandError(error.args[0]) from error
        self.stdout.write(as_openapi(limits) if format == "openapi" else as_markdown(limits), ending="")
