"""Traffic in forms: the record of this app or an uploaded log goes in, a reader of its requests comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BufferedReader
from typing import Any, ClassVar, cast

from django import forms
from django.template.defaultfilters import filesizeformat
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ...conf import settings
from ...engine import Ruleset
from ...exceptions import CountersUnavailable
from ...monitoring import recording
from ...replay import reader_of
from ...replay.traffic.batches import Reader
from ...replay.traffic.formats import asked_for
from ...replay.traffic.json_lines import JsonLines
from ...rulesets import limiter_names
from ...runtime.language import grouped, localized

# The most bytes that a page can run while the operator waits. The command accepts any size.
MAX_UPLOAD = 20_000_000
MAX_UNPACKED = 60_000_000
RECORD, UPLOAD = "record", "upload"


class TooLarge(ValueError):
    """Raised if a file unpacks to more bytes than a page can run."""


class TrafficForm(forms.Form):
    """A limiter, and traffic."""

    limiter = forms.ChoiceField(label=gettext_lazy("Limiter"))
    traffic = forms.ChoiceField(
        label=gettext_lazy("Traffic"),
        choices=[(RECORD, gettext_lazy("The recorded calls")), (UPLOAD, gettext_lazy("A file"))],
        initial=RECORD,
    )
    file = forms.FileField(required=False, label=gettext_lazy("File"))

    # The management command that runs larger files.
    command: ClassVar[str]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        limiter: Any = self.fields["limiter"]
        limiter.choices = [(name, name) for name in limiter_names.chosen()]
        traffic: Any = self.fields["traffic"]
        self.recorded, traffic.help_text = _state_of_record()
        file: Any = self.fields["file"]
        file.help_text = _(
            "An access log of Apache or nginx, or JSON lines, of at most %(size)s. For larger files use %(command)s."
        ) % {"size": filesizeformat(MAX_UPLOAD), "command": self.command}

    def clean(self) -> dict[str, Any]:
        """Reject a missing file, a file that is too large, and an empty record."""
        data = super().clean() or {}
        file = data.get("file")
        if file is not None:
            # An uploaded file overrides the choice of traffic.
            data["traffic"] = UPLOAD
            if file.size > MAX_UPLOAD:
                message = _("The file is larger than %(size)s. Use %(command)s.")
                self.add_error("file", message % {"size": filesizeformat(MAX_UPLOAD), "command": self.command})
        elif data.get("traffic") == UPLOAD and "file" not in self.errors:
            self.add_error("file", _("Choose a file."))
        elif data.get("traffic") == RECORD and self.recorded == 0:
            self.add_error("traffic", _("Nothing is recorded yet. Choose a file, or set RATELIMIT_RULES_RECORD."))
        return data

    def reader(self, asked: Sequence[Ruleset]) -> Reader:
        """Return the reader of the chosen traffic.

        Reading raises TooLarge, OSError, EOFError or CountersUnavailable.
        """
        if self.cleaned_data["traffic"] == RECORD:
            return JsonLines(recording.lines(), asked_for(asked), digested=True)
        return reader_of(
            BufferedReader(cast(Any, self.cleaned_data["file"].file)), asked, _bound(MAX_UNPACKED, self.command)
        )


def _bound(most: int, command: str) -> Callable[[int], None]:
    """Return a function that adds up bytes, because a small file may unpack to a huge one.

    The function raises TooLarge if there are more than ``most``.
    """
    left = most

    def read(size: int) -> None:
        nonlocal left
        left -= size
        if left < 0:
            message = _("The file unpacks to more than %(size)s. Use %(command)s.")
            raise TooLarge(message % {"size": filesizeformat(most), "command": command})

    return read


def _state_of_record() -> tuple[int | None, str]:
    """Return the number of recorded calls and the sentences about it. The number is None if Redis cannot be reached."""
    try:
        size = recording.size()
    except CountersUnavailable as error:
        return None, localized(error)
    if size:
        recorded = ngettext("%(number)s call is recorded.", "%(number)s calls are recorded.", size)
        recorded %= {"number": grouped(size)}
    else:
        recorded = _("Nothing is recorded yet.")
    if not settings.RECORD:
        setting = _("RATELIMIT_RULES_RECORD is off.")
    elif settings.RECORD >= 1:
        setting = _("RATELIMIT_RULES_RECORD covers all clients.")
    else:
        share = number_format(f"{settings.RECORD:g}", use_l10n=True)
        setting = _("RATELIMIT_RULES_RECORD covers a share of %(share)s of all clients.") % {"share": share}
    return size, f"{recorded} {setting}"
