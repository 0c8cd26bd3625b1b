"""What stands of every rule on a ruleset's page, opened or not: its place, name, switches, ways to change it, sentence.

What a form knows and what the user may do go in, safe HTML comes out. Written out here because as a template two
hundred of them take longer than all the rest of the page.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from django.utils.html import conditional_escape, escape
from django.utils.safestring import SafeString, mark_safe

from ..links import Links

# What a rule of an action can be turned into, and how that is called.
TURNS = {"log": ("Promote", "limit"), "limit": ("Demote", "log")}


class Allowed(NamedTuple):
    """What the user may do with the rules of this page.

    ``copy`` is the place at which a copy appears. ``turn`` are the links to the pages that promote and demote rules, or
    None if the user may not do that.
    """

    change: bool = False
    delete: bool = False
    copy: str = ""
    turn: Links | None = None


def head(line: dict[str, Any], allowed: Allowed) -> SafeString:
    """Return the head of a rule's line and its sentence; of a new rule, what is needed to make it."""
    name, prefix, new = escape(line["name"]), line["prefix"], line["pk"] is None
    writable = allowed.change or new
    anchor = f' id="rule-{name}"' if name else ""
    parts = [
        _place(prefix, name, line["position"]) if writable else "",
        f'<h3{anchor}><span class="inline_label">{name or "New rule"}</span></h3>',
        _switch(prefix, "enabled", "Enabled", name, line["enabled"]) if writable else "",
        _switch(prefix, "DELETE", "Delete", name, line.get("DELETE"))
        if writable and allowed.delete and not new
        else "",
        "" if new else _ways(line, name, allowed),
    ]
    owner = f' <span class="ratelimit-owner">{escape(line["owner"])}</span>' if line["owner"] else ""
    return mark_safe(
        f'<div class="ratelimit-head">{"".join(parts)}</div>'
        f'<div class="ratelimit-summary">{conditional_escape(line["summary"])}{owner}</div>'
        f'<input type="hidden" name="{prefix}-id" id="id_{prefix}-id" value="{"" if new else line["pk"]}">'
    )


def unopened(line: dict[str, Any], index: int, allowed: Allowed) -> SafeString:
    """Return what stands in place of a rule's fields before they are opened."""
    name = escape(line["name"])
    return mark_safe(
        f'<details class="ratelimit-fields"{" open" if line["invalid"] else ""}>'
        f'<summary>{"Edit" if allowed.change else "Show"}<span class="visually-hidden"> {name}</span></summary>'
        f'<p class="ratelimit-unopened"><a href="?open={quote(line["name"])}#rules-{index}">Open the fields of {name}'
        "</a> (unsaved changes on this page will be lost)</p></details>"
    )


def _place(prefix: str, name: str, position: object) -> str:
    field = f"{prefix}-position"
    return (
        f'<span class="ratelimit-place"><label for="id_{field}">Position<span class="visually-hidden"> of'
        f' {name or "the new rule"}</span></label> <input type="text" inputmode="numeric" size="4" name="{field}"'
        f' id="id_{field}" value="{"" if position is None else escape(position)}"></span> '
    )


def _switch(prefix: str, field: str, label: str, name: str, checked: object) -> str:
    field = f"{prefix}-{field}"
    return (
        f' <span class="ratelimit-switch"><input type="checkbox" name="{field}" id="id_{field}"'
        f'{" checked" if checked else ""}> <label for="id_{field}">{label}<span class="visually-hidden">:'
        f" {name or 'the new rule'}</span></label></span>"
    )


def _ways(line: dict[str, Any], name: str, allowed: Allowed) -> str:
    ways = ""
    hidden = f'<span class="visually-hidden"> {name}</span>'
    if allowed.copy:
        ways += f' <a class="ratelimit-copy" href="?copy={quote(line["name"])}#{allowed.copy}">Copy{hidden}</a>'
    if allowed.turn and line["action"] in TURNS:
        label, action = TURNS[line["action"]]
        url = allowed.turn.to("turn", line["ruleset"], line["pk"], label.lower())
        ways += f' <a class="ratelimit-turn" href="{url}">{label}{hidden} to {action}</a>'
    return ways
