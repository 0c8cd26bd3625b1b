"""The form of a ruleset's own fields, with the reason for the change.

A page that is older than the ruleset is rejected: the form compares a digest of what the page showed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ...models import Ruleset
from ...rulesets import text as ruleset_text
from ...rulesets.text import PlainForms
from .fields import SeenField, digest
from .script_words import script_words

if TYPE_CHECKING:
    BaseForm = forms.ModelForm[Ruleset]
else:
    BaseForm = forms.ModelForm

MAX_REASON = 2000
STALE = _(
    "Somebody else changed this after you opened the page. Nothing was saved. Saving again would make these changes:"
)


class RulesetForm(BaseForm):
    """A ruleset, with the reason for saving it."""

    change_reason = forms.CharField(
        label=_("Reason for the change"),
        required=False,
        max_length=MAX_REASON,
        widget=forms.TextInput(
            attrs={"class": "vTextField", "placeholder": _("An incident, a ticket, the person who requested it")}
        ),
    )
    seen = SeenField()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.instance.rules_come_along = True
        self.instance.plain_forms = PlainForms()
        # Include the fields that this user may not change, because other users may change them.
        stored = [getattr(self.instance, name) for name in ("name", *ruleset_text.RULESET_FIELDS)]
        self.initial["seen"] = digest(stored)

    @property
    def words(self) -> dict[str, str]:
        """The texts of the page's scripts."""
        return script_words()

    def clean(self) -> dict[str, Any]:
        """Reject a page that would undo changes made since it was shown. Saving it once more is accepted."""
        cleaned = super().clean() or {}
        fields = [name for name in self.changed_data if name in self.initial]
        stale = cleaned.get("seen") and cleaned["seen"] != self.initial["seen"]
        if stale and fields and not self.instance._state.adding:
            line = gettext("%(field)s: “%(before)s” becomes “%(after)s”")
            lines = [
                line % {"field": name, "before": self.initial[name], "after": cleaned.get(name)} for name in fields
            ]
            raise ValidationError([STALE, *lines])
        return cleaned

    def validate_unique(self) -> None:
        """Look for another ruleset of this name only if the name is new."""
        if "name" in self.changed_data or self.instance._state.adding:
            super().validate_unique()
