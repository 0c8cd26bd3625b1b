"""Recorded traffic in forms: what was recorded, or a log that somebody uploads; the reader of it comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BufferedReader
from typing import Any, cast

from django import forms
from django.template.defaultfilters import filesizeformat

from ...conf import settings
from ...engine import Ruleset
from ...exceptions import CountersUnavailable
from ...monitoring import recording
from ...replay import reader_of
from ...replay.traffic.batches import Reader
from ...replay.traffic.formats import asked_for
from ...replay.traffic.json_lines import JsonLines
from ...rulesets import limiter_names

# What a page can run while somebody waits; the command takes any size.
MAX_UPLOAD = 20_000_000
MAX_UNPACKED = 60_000_000
RECORD, UPLOAD = "record", "upload"


class TooLarge(ValueError):
    """Say that a file holds more than a page can run."""


class TrafficForm(forms.Form):
    """A limiter, and traffic."""

    limiter = forms.ChoiceField()
    traffic = forms.ChoiceField(choices=[(RECORD, "What was recorded"), (UPLOAD, "A file")], initial=RECORD)
    file = forms.FileField(
        required=False,
        help_text=f"An access log of Apache or nginx, or JSON lines; at most {filesizeformat(MAX_UPLOAD)}."
        " For more there is a command.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        limiter: Any = self.fields["limiter"]
        limiter.choices = [(name, name) for name in limiter_names.chosen()]
        traffic: Any = self.fields["traffic"]
        self.recorded, traffic.help_text = _state_of_record()

    def clean(self) -> dict[str, Any]:
        """Refuse a file that is missing or too large, and to run over nothing."""
        said = super().clean() or {}
        file = said.get("file")
        if file is not None:
            # Whoever chooses a file means it, whatever the list above it says.
            said["traffic"] = UPLOAD
            if file.size > MAX_UPLOAD:
                self.add_error("file", f"The file is larger than {filesizeformat(MAX_UPLOAD)}; use the command.")
        elif said.get("traffic") == UPLOAD and "file" not in self.errors:
            self.add_error("file", "Choose a file.")
        elif said.get("traffic") == RECORD and self.recorded == 0:
            self.add_error("traffic", "Nothing is recorded yet: choose a file, or set RATELIMIT_RULES_RECORD.")
        return said

    def reader(self, asked: Sequence[Ruleset]) -> Reader:
        """Return the reader of the chosen traffic. It raises TooLarge, OSError, EOFError or CountersUnavailable."""
        if self.cleaned_data["traffic"] == RECORD:
            return JsonLines(recording.lines(), asked_for(asked), digested=True)
        return reader_of(BufferedReader(cast(Any, self.cleaned_data["file"].file)), asked, _bound(MAX_UNPACKED))


def _bound(most: int) -> Callable[[int], None]:
    """Return a function that raises when it hears of more bytes than this: a small file may unpack to a huge one."""
    left = most

    def read(size: int) -> None:
        nonlocal left
        left -= size
        if left < 0:
            raise TooLarge(f"It holds more than {filesizeformat(most)}; use the command.")

    return read


def _state_of_record() -> tuple[int | None, str]:
    """Return how many calls are recorded, None where nobody can tell, and that in words."""
    try:
        size = recording.size()
    except CountersUnavailable as error:
        return None, str(error)
    share = settings.RECORD
    recorded = f"{size:,} calls are recorded" if size else "Nothing is recorded"
    if not share:
        return size, f"{recorded}. RATELIMIT_RULES_RECORD is off."
    return size, f"{recorded}, of {'all' if share >= 1 else f'a share of {share:g} of all'} clients."
