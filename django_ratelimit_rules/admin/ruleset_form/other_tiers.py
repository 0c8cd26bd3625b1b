"""Rules of the file and of code on a ruleset's page, in the order of evaluation, with links to override them.

A limiter's name goes in, lines for the template come out. These rules cannot be changed here. A rule in the admin
replaces a rule of the same name in code, but no rule of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from ... import engine, rulesets
from ...models import Ruleset
from ...rulesets import text as ruleset_text
from ...rulesets.tiers import Tier, TierRules
from ...runtime.clock import clock
from ...runtime.language import localized
from .. import permissions

OVERRIDE = "override"


def override(request: HttpRequest, ruleset: Ruleset | None) -> list[dict[str, Any]]:
    """Return the new rule that an override starts with, for the rule of code that the address names.

    Returns an empty list if the address names no rule of code.
    """
    rule = _find(_limiter(request, ruleset), request.GET.get(OVERRIDE)) if request.method == "GET" else None
    return [_initial(rule)] if rule else []


def panels(request: HttpRequest, ruleset: Ruleset | None) -> dict[str, Any]:
    """Return the rules of the file and of code, for the panels above and below the admin's rules."""
    limiter = _limiter(request, ruleset)
    stated = rulesets.stated(limiter) if limiter else {}
    own = set(ruleset.rules.values_list("name", flat=True)) if ruleset else set()
    file, code = (stated.get(tier, TierRules()) for tier in (Tier.FILE, Tier.CODE))
    above = {rule.name for rule in file.rules if not rule.has_expired(clock.moment())}
    return {
        "file_tier": file,
        "file_rules": list(_lines(file, set())),
        "hidden_by_file": sorted(above & own),
        "code_rules": list(_lines(code, above | own)),
        "may_override": permissions.may(request, permissions.LIMITS, permissions.SKIPS),
    }


def _lines(tier: TierRules, hidden: set[str]) -> Iterator[dict[str, Any]]:
    for rule in tier.rules:
        overridden = rule.name in hidden
        sentence = localized(engine.sentence(rule))
        yield {"rule": rule, "sentence": sentence, "state": _state(rule, overridden), "overridden": overridden}


def _state(rule: engine.Rule, overridden: bool) -> str:
    if overridden:
        return _("Overridden")
    if not rule.enabled:
        return _("Disabled")
    return _("Expired") if rule.has_expired(clock.moment()) else ""


def _limiter(request: HttpRequest, ruleset: Ruleset | None) -> str:
    return ruleset.name if ruleset is not None and ruleset.pk else request.GET.get("name", "")


def _find(limiter: str, name: str | None) -> engine.Rule | None:
    rules = rulesets.stated(limiter).get(Tier.CODE, TierRules()).rules if limiter and name else ()
    return next((rule for rule in rules if rule.name == name), None)


def _initial(rule: engine.Rule) -> dict[str, Any]:
    columns = ruleset_text.columns(rule)
    # Leave out computed values, because the admin cannot store a function. The operator enters a number instead.
    return {name: None if callable(value) else value for name, value in columns.items()}
