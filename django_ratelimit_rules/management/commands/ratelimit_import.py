"""``ratelimit_import --from django-ratelimit|drf``: the project's rates as draft rules, in YAML."""

from __future__ import annotations

from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...engine.messages import ngettext
from ...legacy import drafts
from ...runtime.language import localized

# Loaded by name, because each reader needs its library, which a project may not have installed.
READERS = {
    "django-ratelimit": "django_ratelimit_rules.contrib.django_ratelimit_rates",
    "drf": "django_ratelimit_rules.contrib.rest_framework_rates",
}


class Command(BaseCommand):
    """Write the drafts to the standard output, or to a new file."""

    help = gettext_noop(
        "Read the rates of another limiter from views and settings, and write equivalent draft rules as YAML."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the source and the file to write."""
        parser.description = _(self.help)
        parser.add_argument("--from", dest="source", choices=sorted(READERS), required=True)
        parser.add_argument(
            "--output", metavar="FILE", type=Path, help=_("new file to write (default: the standard output)")
        )

    def handle(self, *, source: str, output: Path | None, **options: Any) -> None:
        """Write the drafts. Report a library that is not installed, and a file that exists."""
        try:
            reader = import_module(READERS[source])
        except ModuleNotFoundError as error:
            if str(error.name).startswith("django_ratelimit_rules"):
                raise
            message = _("%(library)s is not installed here: %(error)s.")
            raise CommandError(message % {"library": source, "error": error}) from error
        rulesets = reader.drafts()
        if not rulesets:
            message = _("No rates of %(library)s were found in the views and settings of this project.")
            self.stderr.write(message % {"library": source})
        text = drafts.write(rulesets, reader.HEADING)
        if output is None:
            self.stdout.write(text, ending="")
            return
        try:
            with output.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise CommandError(str(error)) from error
        written = ngettext(
            "Wrote %(number)s ruleset to %(file)s. Review the file, then run: ratelimit_plan %(file)s",
            "Wrote %(number)s rulesets to %(file)s. Review the file, then run: ratelimit_plan %(file)s",
            len(rulesets),
            file=str(output),
        )
        self.stdout.write(localized(written))
