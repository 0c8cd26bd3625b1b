"""Who may change what: permissions of their own for limits, skip rules, modes and counters.

A user and two states of the admin tier go in; the sentences come out that say which permission is missing for what.
Every way of writing asks here: the form, switches, imports, restores, deletions. Django's own ``change_ruleset`` and
the like give no right to write; whoever may write may look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from ..rulesets.text import Plain, Rulesets, same

APP = "django_ratelimit_rules"
VIEW = "view_ruleset"
LIMITS, SKIPS, SWITCH, RESET = "change_limits", "write_skip_rules", "switch_rulesets", "reset_counters"
WRITES = (LIMITS, SKIPS, SWITCH)
WORDS = {
    LIMITS: "change limits",
    SKIPS: "write rules that let requests through (skip)",
    SWITCH: "switch rulesets to dry run or off, and back",
    RESET: "reset counters",
}


def may(request: HttpRequest, *permissions: str) -> bool:
    """Whether the user has one of these permissions."""
    return any(request.user.has_perm(f"{APP}.{permission}") for permission in permissions)


def require(request: HttpRequest, *permissions: str) -> None:
    """Raise PermissionDenied unless the user has one of these permissions."""
    if not may(request, *permissions):
        raise PermissionDenied(refusal(*permissions))


def refusal(*permissions: str) -> str:
    """Return the sentence for a user without any of these permissions. Returns an empty string without permissions."""
    return f"You may not {' or '.join(WORDS[permission] for permission in permissions)}." if permissions else ""


def missing(request: HttpRequest, before: Rulesets, after: Rulesets) -> list[str]:
    """Return what the user may not do of what leads from one state to the other."""
    found: dict[str, list[str]] = {}
    for name in sorted({*before, *after}):
        for permission, what in _needed(before.get(name), after.get(name)):
            if not may(request, permission):
                found.setdefault(permission, []).append(f"{name}: {what}")
    return [f"You may not {WORDS[permission]} ({'; '.join(what)})." for permission, what in found.items()]


def allow(request: HttpRequest) -> Callable[[Rulesets, Rulesets], None]:
    """Return a function that raises PermissionDenied unless the user may lead one state to the other."""

    def check(before: Rulesets, after: Rulesets) -> None:
        lacking = missing(request, before, after)
        if lacking:
            raise PermissionDenied(" ".join(lacking))

    return check


def _needed(before: Plain | None, after: Plain | None) -> Iterator[tuple[str, str]]:
    """Yield each permission that is needed, with what for."""
    if before is None or after is None:
        yield LIMITS, "the ruleset itself"
    old, new = before or {}, after or {}
    if old.get("mode") != new.get("mode"):
        yield SWITCH, "mode"
    for field in ("description", "failure_mode", "partition_by"):
        if old.get(field) != new.get(field):
            yield LIMITS, field
    yield from _needed_for_rules(_rules(old), _rules(new))


def _needed_for_rules(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in {**old, **new}:
        versions = [rules[name] for rules in (old, new) if name in rules]
        if len(versions) == 2 and same(*versions):
            continue
        # What becomes a skip, and what was one, is both: the traffic meets other limits afterwards.
        skips = [rule.get("action") == "skip" for rule in versions]
        if any(skips):
            yield SKIPS, f"rule {name}"
        if not all(skips):
            yield LIMITS, f"rule {name}"
    yield from _needed_for_order(old, new)


def _needed_for_order(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    before, after = [name for name in old if name in new], [name for name in new if name in old]
    if before == after:
        return
    skips = [name for name in after if "skip" in (old[name].get("action"), new[name].get("action"))]
    if any({*before[: before.index(name)]} != {*after[: after.index(name)]} for name in skips):
        yield SKIPS, "order"
    if [name for name in before if name not in skips] != [name for name in after if name not in skips]:
        yield LIMITS, "order"


def _rules(ruleset: Plain) -> dict[str, Any]:
    return {str(rule.get("name")): rule for rule in ruleset.get("rules", ())}


class Guarded:
    """Mixed into the admin of rulesets and its inline: reading needs any permission here, writing the right one."""

    writes: tuple[str, ...] = WRITES
    adds: tuple[str, ...] = (LIMITS,)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whoever may look at rulesets sees their rules; whoever may write, may look."""
        allowed: bool = super().has_view_permission(request, obj)  # type: ignore[misc]
        return allowed or may(request, VIEW, *WORDS)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user may write anything at all; what exactly is asked when it is known."""
        return may(request, *self.writes)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user may add."""
        return may(request, *self.adds)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user may delete."""
        return may(request, *self.adds)
