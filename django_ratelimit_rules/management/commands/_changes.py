"""Writes the changes of rulesets as lines in the active language."""

from __future__ import annotations

from collections.abc import Iterable

from ...rulesets import diff
from ...runtime.language import localized


def as_lines(changes: Iterable[diff.Change]) -> str:
    """Return changes as indented lines. Returns an empty string for no changes."""
    return diff.as_text([change._replace(text=localized(change.text)) for change in changes])
