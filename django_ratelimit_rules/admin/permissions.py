"""Permissions of this app: separate ones for limits, skip rules, modes and counters.

A user and two states of the admin tier go in. Sentences about the missing permissions come out. Every way to write
asks this module: the form, switches, imports, restores, deletions. Django's own ``change_ruleset``, ``add_ruleset``
and ``delete_ruleset`` do not allow writing. A user who may write may also look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Ruleset
from ..rulesets.text import Plain, Rulesets, same

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

APP = "django_ratelimit_rules"
VIEW = "view_ruleset"
LIMITS, SKIPS, SWITCH, RESET = "change_limits", "write_skip_rules", "switch_rulesets", "reset_counters"
WRITES = (LIMITS, SKIPS, SWITCH)
# The sentence for a page that needs a permission, and the one for changes that need it.
REFUSALS: dict[str, tuple[StrOrPromise, StrOrPromise]] = {
    LIMITS: (
        gettext_lazy("You may not change limits."),
        gettext_lazy("You may not change limits (%(changes)s)."),
    ),
    SKIPS: (
        gettext_lazy("You may not write rules that let requests through (skip)."),
        gettext_lazy("You may not write rules that let requests through (skip) (%(changes)s)."),
    ),
    SWITCH: (
        gettext_lazy("You may not switch rulesets to dry run or off, and back."),
        gettext_lazy("You may not switch rulesets to dry run or off, and back (%(changes)s)."),
    ),
    RESET: (
        gettext_lazy("You may not reset counters."),
        gettext_lazy("You may not reset counters (%(changes)s)."),
    ),
}


def may(request: HttpRequest, *permissions: str) -> bool:
    """Whether the user has one of these permissions."""
    return any(request.user.has_perm(f"{APP}.{permission}") for permission in permissions)


def require(request: HttpRequest, *permissions: str) -> None:
    """Raise PermissionDenied unless the user has one of these permissions."""
    if not may(request, *permissions):
        raise PermissionDenied(refusal(*permissions))


def refusal(*permissions: str) -> str:
    """Return the sentences for a user without any of these permissions."""
    return " ".join(str(REFUSALS[permission][0]) for permission in permissions)


def missing(request: HttpRequest, before: Rulesets, after: Rulesets) -> list[str]:
    """Return a sentence for each permission that the user lacks for a change from one state to the other."""
    lacking: dict[str, list[str]] = {}
    for name in sorted({*before, *after}):
        for permission, change in _needed(name, before.get(name), after.get(name)):
            if not may(request, permission):
                lacking.setdefault(permission, []).append(change)
    return [REFUSALS[permission][1] % {"changes": "; ".join(changes)} for permission, changes in lacking.items()]


def allow(request: HttpRequest) -> Callable[[Rulesets, Rulesets], None]:
    """Return a function that raises PermissionDenied unless the user may change one state into the other."""

    def check(before: Rulesets, after: Rulesets) -> None:
        lacking = missing(request, before, after)
        if lacking:
            raise PermissionDenied(" ".join(lacking))

    return check


def _needed(name: str, before: Plain | None, after: Plain | None) -> Iterator[tuple[str, str]]:
    """Yield each permission that is needed, with the change that needs it."""
    if before is None or after is None:
        yield LIMITS, _("%(ruleset)s: the ruleset itself") % {"ruleset": name}
    old, new = before or {}, after or {}
    if old.get("mode") != new.get("mode"):
        yield SWITCH, _field(name, "mode")
    for field in ("description", "failure_mode", "partition_by"):
        if old.get(field) != new.get(field):
            yield LIMITS, _field(name, field)
    yield from _needed_for_rules(name, _rules(old), _rules(new))


def _field(ruleset: str, field: str) -> str:
    label = Ruleset._meta.get_field(field).verbose_name  # type: ignore[union-attr]
    return _("%(ruleset)s: %(field)s") % {"ruleset": ruleset, "field": label}


def _needed_for_rules(ruleset: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in {**old, **new}:
        versions = [rules[name] for rules in (old, new) if name in rules]
        if len(versions) == 2 and same(*versions):
            continue
        # A rule that becomes a skip or was a skip needs both permissions, because its traffic meets other limits
        # after the change.
        skips = [rule.get("action") == "skip" for rule in versions]
        change = _("%(ruleset)s: rule %(rule)s") % {"ruleset": ruleset, "rule": name}
        if any(skips):
            yield SKIPS, change
        if not all(skips):
            yield LIMITS, change
    yield from _needed_for_order(ruleset, old, new)


def _needed_for_order(ruleset: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str]]:
    before, after = [name for name in old if name in new], [name for name in new if name in old]
    if before == after:
        return
    change = _("%(ruleset)s: order of the rules") % {"ruleset": ruleset}
    skips = [name for name in after if "skip" in (old[name].get("action"), new[name].get("action"))]
    if any({*before[: before.index(name)]} != {*after[: after.index(name)]} for name in skips):
        yield SKIPS, change
    if [name for name in before if name not in skips] != [name for name in after if name not in skips]:
        yield LIMITS, change


def _rules(ruleset: Plain) -> dict[str, Any]:
    return {str(rule.get("name")): rule for rule in ruleset.get("rules", ())}


class Guarded:
    """Permissions of the admin of rulesets and of its inline.

    Any permission of this app allows reading. Writing needs the permission for the change.
    """

    writes: tuple[str, ...] = WRITES
    adds: tuple[str, ...] = (LIMITS,)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user may look at rulesets and their rules, which every permission to write includes."""
        allowed: bool = super().has_view_permission(request, obj)  # type: ignore[misc]
        return allowed or may(request, VIEW, *REFUSALS)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user may write anything at all. The permission for a change is checked when it is known."""
        return may(request, *self.writes)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user may add."""
        return may(request, *self.adds)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user may delete."""
        return may(request, *self.adds)
