"""Rules as text in the admin: a download, and an import that shows what it would change before it does."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern

from ...conf import settings
from ...exceptions import InvalidRulesFile
from ...rulesets import history
from ...rulesets import text as ruleset_text
from ...rulesets.file import MAX_BYTES
from ...rulesets.tiers import TierRules
from .. import permissions
from .base import Pages, page_url
from .confirmation import Step, confirm

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


class Transfer(Pages):
    """Export and import of rulesets."""

    def get_urls(self) -> list[URLPattern]:
        """Add the pages."""
        return [
            self.route("export/", self.export_view, "export_all"),
            self.route("import/", self.import_view, "import"),
            self.route("<path:object_id>/export/", self.export_view, "export"),
            *super().get_urls(),
        ]

    def export_view(self, request: HttpRequest, object_id: str | None = None) -> HttpResponse:
        """Send one ruleset, or all, as a file."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        ruleset = self.get_object(request, object_id) if object_id else None
        if object_id and ruleset is None:
            raise Http404
        text = ruleset_text.dump(ruleset_text.stored([ruleset.name])) if ruleset else ruleset_text.stored_text()
        name = f"{ruleset.name}.yaml" if ruleset else "rulesets.yaml"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(text, content_type="application/yaml; charset=utf-8", headers=headers)

    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Take a text, show what it would change, and apply it once that is confirmed."""
        permissions.require(request, permissions.LIMITS, permissions.SKIPS, permissions.SWITCH)
        form = ImportForm(request.POST or None, request.FILES or None)
        if request.method == "POST" and form.is_valid():
            return confirm(self, request, _step(form.cleaned_data))
        context = {**self.admin_site.each_context(request), "opts": self.opts, "title": "Import rulesets", "form": form}
        return TemplateResponse(request, "django_ratelimit_rules/import.html", context)


def _step(said: dict[str, Any]) -> Step:
    rulesets: dict[str, TierRules] = said["rulesets"]
    source = said.get("name") or "a text"
    return Step(
        title="Import rulesets",
        action=f"imported {source}",
        button="Import",
        names=sorted(rulesets),
        before=ruleset_text.stored(rulesets),
        after={name: ruleset_text.of_tier(tier) for name, tier in rulesets.items()},
        perform=lambda author: history.apply(rulesets, author),
        done=page_url("changelist"),
        said=["All of this or nothing. Other rulesets stay as they are; counters go on where rule names stay."],
        hidden={"text": said["text"], "name": said.get("name") or ""},
    )
