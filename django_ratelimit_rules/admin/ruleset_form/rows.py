"""The line of every rule on a ruleset's page: its position, name, switches, links and sentence.

The values of a form and the user's permissions go in, safe HTML comes out. Python builds the HTML, because with a
template 200 lines take longer than the rest of the page.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from django.utils.html import conditional_escape, escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from ..links import Links

# The turn that a rule of an action can take.
TURNS = {"log": "promote", "limit": "demote"}


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
    """Return the head of a rule's line and its sentence. A new rule has only the inputs that it needs."""
    name, prefix, new = line["name"], line["prefix"], line["pk"] is None
    writable = allowed.change or new
    anchor = f' id="rule-{escape(name)}"' if name else ""
    title = escape(name or _("New rule"))
    parts = [
        _place(prefix, name, line["position"]) if writable else "",
        f'<h3{anchor}><span class="inline_label">{title}</span></h3>',
        _enabled(prefix, name, line["enabled"]) if writable else "",
        _delete(prefix, name, line.get("DELETE")) if writable and allowed.delete and not new else "",
        "" if new else _links(line, name, allowed),
    ]
    owner = f' <span class="ratelimit-owner">{escape(line["owner"])}</span>' if line["owner"] else ""
    return mark_safe(
        f'<div class="ratelimit-head">{"".join(parts)}</div>'
        f'<div class="ratelimit-summary">{conditional_escape(line["summary"])}{owner}</div>'
        f'<input type="hidden" name="{prefix}-id" id="id_{prefix}-id" value="{"" if new else line["pk"]}">'
    )


def unopened(line: dict[str, Any], index: int, allowed: Allowed) -> SafeString:
    """Return the link that is shown instead of a rule's fields before they are opened."""
    name = line["name"]
    link = _("Open the fields of %(rule)s") % {"rule": name}
    warning = _("(unsaved changes on this page will be lost)")
    label = _("Edit") if allowed.change else _("Show")
    return mark_safe(
        f'<details class="ratelimit-fields"{" open" if line["invalid"] else ""}><summary>'
        f'{escape(label)}<span class="visually-hidden"> {escape(name)}</span>'
        f'</summary><p class="ratelimit-unopened"><a href="?open={quote(name)}#rules-{index}">{escape(link)}</a>'
        f" {escape(warning)}</p></details>"
    )


def _place(prefix: str, name: str, position: object) -> str:
    field = f"{prefix}-position"
    label = _("Position")
    described = _("Position of %(rule)s") % {"rule": name} if name else _("Position of the new rule")
    return (
        f'<span class="ratelimit-place"><label for="id_{field}">{escape(label)}</label> <input type="text"'
        f' inputmode="numeric" size="4" name="{field}" id="id_{field}" aria-label="{escape(described)}"'
        f' value="{"" if position is None else escape(position)}"></span> '
    )


def _enabled(prefix: str, name: str, checked: object) -> str:
    described = _("Enabled: %(rule)s") % {"rule": name} if name else _("Enabled: the new rule")
    return _switch(f"{prefix}-enabled", _("Enabled"), described, checked)


def _delete(prefix: str, name: str, checked: object) -> str:
    return _switch(f"{prefix}-DELETE", _("Delete"), _("Delete: %(rule)s") % {"rule": name}, checked)


def _switch(field: str, label: str, described: str, checked: object) -> str:
    return (
        f' <span class="ratelimit-switch"><input type="checkbox" name="{field}" id="id_{field}"'
        f' aria-label="{escape(described)}"{" checked" if checked else ""}>'
        f' <label for="id_{field}">{escape(label)}</label></span>'
    )


def _links(line: dict[str, Any], name: str, allowed: Allowed) -> str:
    links = ""
    if allowed.copy:
        described = _("Copy %(rule)s") % {"rule": name}
        links += _link("copy", f"?copy={quote(name)}#{allowed.copy}", _("Copy"), described)
    turn = TURNS.get(line["action"])
    if allowed.turn and turn:
        if turn == "promote":
            label, described = _("Promote to limit"), _("Promote %(rule)s to limit") % {"rule": name}
        else:
            label, described = _("Demote to log"), _("Demote %(rule)s to log") % {"rule": name}
        links += _link("turn", allowed.turn.to("turn", line["ruleset"], line["pk"], turn), label, described)
    return links


def _link(kind: str, url: str, label: str, described: str) -> str:
    return f' <a class="ratelimit-{kind}" href="{url}" aria-label="{escape(described)}">{escape(label)}</a>'
