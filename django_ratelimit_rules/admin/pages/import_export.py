"""Rules as text in the admin: a download, and an import that shows what it would change before it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse

from ...conf import settings
from ...exceptions import InvalidRulesFile
from ...models import Ruleset
from ...rulesets import history
from ...rulesets import text as ruleset_text
from ...rulesets.file import MAX_BYTES
from ...rulesets.tiers import TierRules
from .. import permissions
from ..links import Link, Links
from .base import AdminPage
from .confirmation import PendingChange, confirm

# What a confirmation sends besides the text.
ROOM = 10_000


class ImportForm(forms.Form):
    """A text, typed or uploaded, as rules."""

    file = forms.FileField(required=False, label="File", help_text="YAML, as exported; or JSON, named .json.")
    text = forms.CharField(
        required=False,
        strip=False,
        label="Or text",
        widget=forms.Textarea(attrs={"rows": 20, "cols": 80, "spellcheck": "false", "class": "ratelimit-json"}),
    )
    name = forms.CharField(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """Read the rules. What cannot be read is an error of the text, with line and reason."""
        said = super().clean() or {}
        file = said.get("file")
        if file is not None:
            if file.size > MAX_BYTES:
                raise forms.ValidationError({"file": f"The file is larger than {MAX_BYTES:,} bytes."})
            try:
                said["text"], said["name"] = file.read().decode(), file.name
            except UnicodeDecodeError as error:
                raise forms.ValidationError({"file": f"The file is not valid UTF-8: {error}"}) from error
        # The text is sent again with the confirmation, and then it is no file.
        most = settings.max_form_bytes
        if most is not None and len(said.get("text", "").encode()) + ROOM > most:
            raise forms.ValidationError(
                f"This is more than DATA_UPLOAD_MAX_MEMORY_SIZE ({most:,} bytes) lets through: import "
                "fewer rulesets at once, or use ratelimit_apply."
            )
        if not said.get("text", "").strip():
            raise forms.ValidationError("Choose a file, or write a text.")
        try:
            said["rulesets"] = ruleset_text.load(said["text"], said.get("name") or "text")
        except InvalidRulesFile as error:
            raise forms.ValidationError({"text" if file is None else "file": str(error)}) from error
        return said


class ExportAllPage(AdminPage):
    """All rulesets as a file."""

    name, route = "export_all", "export/"
    list_label = "Export"

    def respond(self, request: HttpRequest) -> HttpResponse:
        """Send the file."""
        return _download("rulesets.yaml", ruleset_text.stored_text())


class ExportPage(AdminPage):
    """One ruleset as a file."""

    name, route = "export", "<path:object_id>/export/"
    ruleset_label = "Export"

    def respond(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Send the file."""
        name = self.ruleset(request, object_id).name
        return _download(f"{name}.yaml", ruleset_text.dump(ruleset_text.stored([name])))

    def ruleset_links(self, ruleset: Ruleset) -> Iterator[Link]:
        """Yield the link to the file of this ruleset."""
        yield Link(self.ruleset_label, self.links.to(self.name, ruleset.pk))


class ImportPage(AdminPage):
    """Takes rulesets as text, shows what they would change, and applies them once that is confirmed."""

    name, route = "import", "import/"
    title = "Import rulesets"
    template = "django_ratelimit_rules/import.html"
    needs = permissions.WRITES
    list_label = "Import"

    def respond(self, request: HttpRequest) -> HttpResponse:
        """Ask for the text, or for the confirmation, or import."""
        form = ImportForm(request.POST or None, request.FILES or None)
        if request.method == "POST" and form.is_valid():
            return confirm(self, request, _pending(form.cleaned_data, self.links))
        return self.render(request, {"form": form})


def _download(name: str, text: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(text, content_type="application/yaml; charset=utf-8", headers=headers)


def _pending(said: dict[str, Any], links: Links) -> PendingChange:
    rulesets: dict[str, TierRules] = said["rulesets"]
    source = said.get("name") or "a text"
    return PendingChange(
        title="Import rulesets",
        action=f"imported {source}",
        button="Import",
        names=sorted(rulesets),
        before=ruleset_text.stored(rulesets),
        after={name: ruleset_text.of_tier(tier) for name, tier in rulesets.items()},
        perform=lambda author: history.apply(rulesets, author),
        done=links.to("changelist"),
        effects=["All of this or nothing. Other rulesets stay as they are; counters go on where rule names stay."],
        hidden={"text": said["text"], "name": said.get("name") or ""},
    )
