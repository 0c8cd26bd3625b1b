"""``ratelimit_export [LIMITER ...]``: the admin's rules as YAML, in a fixed order."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from ...rulesets import text as ruleset_text


class Command(BaseCommand):
    """Write the admin tier to the standard output."""

    help = gettext_noop(
        "Write the admin's rulesets as YAML, for ratelimit_plan, ratelimit_apply or RATELIMIT_RULES_FILE."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the names of rulesets."""
        parser.description = _(self.help)
        parser.add_argument(
            "limiters", nargs="*", metavar="LIMITER", help=_("rulesets to write (default: all rulesets)")
        )

    def handle(self, *, limiters: list[str], **options: Any) -> None:
        """Write the YAML. Reject unknown names, because a script would take them for empty rulesets."""
        if not limiters:
            self.stdout.write(ruleset_text.stored_text(), ending="")
            return
        rulesets = ruleset_text.stored(limiters)
        missing = [name for name in limiters if name not in rulesets]
        if missing:
            message = ngettext(
                "The admin has no ruleset %(names)s.", "The admin has no rulesets %(names)s.", len(missing)
            )
            raise CommandError(message % {"names": ", ".join(missing)})
        self.stdout.write(ruleset_text.dump(rulesets), ending="")
