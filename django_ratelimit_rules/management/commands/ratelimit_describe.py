"""``ratelimit_describe [LIMITER ...]``: the limits of clients as Markdown or OpenAPI, for publication."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...engine.messages import message_of
from ...http.published_limits import as_markdown, as_openapi, public_limits
from ...runtime.language import localized


class Command(BaseCommand):
    """Write the description to the standard output."""

    help = gettext_noop(
        "Describe the limits in force for clients. Skip rules, log rules, notes and conditions are left out."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the names of limiters, and the format."""
        parser.description = _(self.help)
        parser.add_argument(
            "limiters", nargs="*", metavar="LIMITER", help=_("limiters to describe (default: all limiters)")
        )
        parser.add_argument("--format", choices=("markdown", "openapi"), default="markdown")

    def handle(self, *, limiters: list[str], format: str, **options: Any) -> None:
        """Write the description, or report a limiter that does not exist."""
        try:
            limits = public_limits(limiters)
        except LookupError as error:
            raise CommandError(localized(message_of(error))) from error
        self.stdout.write(as_openapi(limits) if format == "openapi" else as_markdown(limits), ending="")
