"""``ratelimit_record``: the traffic of ``RATELIMIT_RULES_RECORD`` as JSON lines for ``ratelimit_replay``."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...engine.messages import message_of
from ...exceptions import CountersUnavailable
from ...monitoring import recording
from ...runtime.language import localized


class Command(BaseCommand):
    """Write the record to the standard output."""

    help = gettext_noop("Write the recorded traffic as JSON lines. Values from clients appear only as digests.")

    def add_arguments(self, parser: CommandParser) -> None:
        """Describe the command. It has no arguments."""
        parser.description = _(self.help)

    def handle(self, **options: Any) -> None:
        """Write the record, oldest calls first."""
        try:
            for lines in recording.lines():
                for line in lines:
                    self.stdout.write(line)
        except CountersUnavailable as error:
            raise CommandError(localized(message_of(error))) from error
