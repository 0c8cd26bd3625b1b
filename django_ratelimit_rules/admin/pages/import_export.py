"""Rulesets as YAML in the admin: a download, and an import that shows its changes before it makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...conf import settings
from ...exceptions import InvalidRulesFile
from ...models import Ruleset
from ...rulesets import history
from ...rulesets import text as ruleset_text
from ...rulesets.file import MAX_BYTES
from ...rulesets.tiers import TierRules
from ...runtime.language import grouped, localized
from .. import permissions
from ..links import Link, Links
from . import actions
from .base import AdminPage
from .confirmation import PendingChange, confirm

# Bytes that a confirmation posts besides the rulesets.
ROOM = 10_000


class ImportForm(forms.Form):
    """Rulesets as YAML or JSON, pasted or uploaded."""

    file = forms.FileField(
        required=False,
        label=gettext_lazy("File"),
        help_text=gettext_lazy("YAML, as exported, or JSON in a file whose name ends in .json."),
    )
    text = forms.CharField(
        required=False,
        strip=False,
        label=gettext_lazy("Or text"),
        widget=forms.Textarea(attrs={"rows": 20, "cols": 80, "spellcheck": "false", "class": "ratelimit-json"}),
    )
    name = forms.CharField(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """Read the rulesets. Raises ValidationError, with line and reason, on the field that cannot be read."""
        data = super().clean() or {}
        file = data.get("file")
        if file is not None:
            if file.size > MAX_BYTES:
                message = _("The file is larger than %(bytes)s bytes.") % {"bytes": grouped(MAX_BYTES)}
                raise forms.ValidationError({"file": message})
            try:
                data["text"], data["name"] = file.read().decode(), file.name
            except UnicodeDecodeError as error:
                message = _("The file is not valid UTF-8: %(error)s") % {"error": error}
                raise forms.ValidationError({"file": message}) from error
        # The confirmation posts the rulesets again as a form field, even if they came as a file.
        most = settings.max_form_bytes
        if most is not None and len(data.get("text", "").encode()) + ROOM > most:
            raise forms.ValidationError(
                _(
                    "This is more than DATA_UPLOAD_MAX_MEMORY_SIZE (%(bytes)s bytes) allows."
                    " Import fewer rulesets at once, or use ratelimit_apply."
                )
                % {"bytes": grouped(most)}
            )
        if not data.get("text", "").strip():
            raise forms.ValidationError(_("Choose a file, or paste rulesets."))
        try:
            data["rulesets"] = ruleset_text.load(data["text"], data.get("name") or "text")
        except InvalidRulesFile as error:
            raise forms.ValidationError({"text" if file is None else "file": localized(error)}) from error
        return data


class ExportAllPage(AdminPage):
    """All rulesets as a file."""

    name, route = "export_all", "export/"
    list_label = gettext_lazy("Export")

    def respond(self, request: HttpRequest) -> HttpResponse:
        """Send the file."""
        return _download("rulesets.yaml", ruleset_text.stored_text())


class ExportPage(AdminPage):
    """One ruleset as a file."""

    name, route = "export", "<path:object_id>/export/"
    ruleset_label = gettext_lazy("Export")

    def respond(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Send the file."""
        name = self.ruleset(request, object_id).name
        return _download(f"{name}.yaml", ruleset_text.dump(ruleset_text.stored([name])))

    def ruleset_links(self, ruleset: Ruleset) -> Iterator[Link]:
        """Yield the link to the file."""
        yield Link(self.ruleset_label, self.links.to(self.name, ruleset.pk))


class ImportPage(AdminPage):
    """Reads rulesets as YAML or JSON, shows the changes, and applies them after a confirmation."""

    name, route = "import", "import/"
    title = gettext_lazy("Import rulesets")
    template = "django_ratelimit_rules/import.html"
    needs = permissions.WRITES
    list_label = gettext_lazy("Import")

    def respond(self, request: HttpRequest) -> HttpResponse:
        """Show the form, or the confirmation, or import."""
        form = ImportForm(request.POST or None, request.FILES or None)
        if request.method == "POST" and form.is_valid():
            return confirm(self, request, _pending(form.cleaned_data, self.links))
        return self.render(request, {"form": form})


def _download(name: str, text: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(text, content_type="application/yaml; charset=utf-8", headers=headers)


def _pending(data: dict[str, Any], links: Links) -> PendingChange:
    rulesets: dict[str, TierRules] = data["rulesets"]
    file = data.get("name") or ""
    return PendingChange(
        title=_("Import rulesets"),
        action=actions.IMPORTED % {"file": file} if file else actions.IMPORTED_TEXT,
        button=_("Import"),
        names=sorted(rulesets),
        before=ruleset_text.stored(rulesets),
        after={name: ruleset_text.of_tier(tier) for name, tier in rulesets.items()},
        perform=lambda author: history.apply(rulesets, author),
        done=links.to("changelist"),
        effects=[
            _(
                "All changes are made, or none if one fails. Other rulesets stay as they are."
                " Rules that keep their name keep their counters."
            )
        ],
        hidden={"text": data["text"], "name": file},
    )
