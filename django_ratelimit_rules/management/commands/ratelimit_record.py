"""``ratelimit_record``: what ``RATELIMIT_RULES_RECORD`` recorded, as JSON lines for ``ratelimit_replay``."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...exceptions import CountersUnavailable
from ...monitoring import recording


class Command(BaseCommand):
    """Write the record to the standard output."""

    help = "Write the recorded traffic as JSON lines. What clients wrote is in it as digests only."

    def handle(self, **options: Any) -> None:
        """Write it, the oldest first."""
        try:
            for lines in recording.lines():
                for line in lines:
                    self.stdout.write(line)
        except CountersUnavailable as error:
            raise CommandError(str(error)) from error
