"""Lints the rules of all tiers, and reports rows that are not valid rules.

A limiter's name and its rows go in, or no argument for all limiters. Findings of every severity come out.
:mod:`engine.lint` explains them. Only :func:`everywhere` queries the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from .. import rulesets
from ..engine import Rule
from ..engine.lint import (
    Finding,
    Severity,
    Surroundings,
    lint,
)
from ..engine.messages import _, message_of
from ..exceptions import UNREADABLE, UnknownProperty
from ..identifiers import registry
from ..models import Rule as RuleRow
from ..models import Ruleset as RulesetRow
from ..runtime.clock import clock
from . import limiter_names
from .tiers import (
    Tier,
    TierRules,
    Tiers,
    stated_partition,
)


def of_limiter(name: str, rows: Iterable[RuleRow]) -> list[Finding]:
    """Return the findings of one limiter, whose rules in the database are ``rows``."""
    return _of_limiter(name, rows, name in limiter_names.named())


def everywhere() -> dict[str, list[Finding]]:
    """Return the findings of all limiters that code uses or a tier has rules for, an empty list if there are none."""
    rows = {ruleset.name: list(ruleset.rules.all()) for ruleset in RulesetRow.objects.prefetch_related("rules")}
    named = limiter_names.named()
    return {
        name: _of_limiter(name, rows.get(name, ()), name in named)
        for name in sorted(named | rulesets.limiters() | set(rows))
    }


def _of_limiter(name: str, rows: Iterable[RuleRow], checkpoint: bool) -> list[Finding]:
    readable: list[Rule] = []
    unreadable: list[Finding] = []
    for row in rows:
        try:
            readable.append(row.to_engine())
        except UNREADABLE as error:
            unreadable.append(_unreadable(row, error))
    stated = rulesets.stated(name)
    tiers = {**stated, Tier.ADMIN: replace(stated.get(Tier.ADMIN, TierRules()), rules=tuple(readable))}
    around = Surroundings(clock.moment(), _fault_of, _choices_of, checkpoint, stated_partition(tiers))
    return unreadable + lint(list(_stated(tiers, around)), around)


def _stated(tiers: Tiers, around: Surroundings) -> Iterator[Rule]:
    """Yield the rules of all tiers in order of evaluation, without rules that a higher tier replaces."""
    names: set[str] = set()
    for tier in Tier:
        rules = tiers.get(tier, TierRules()).rules
        yield from (rule for rule in rules if rule.name not in names)
        # An expired rule replaces no other rule.
        names.update(rule.name for rule in rules if not rule.has_expired(around.now))


def _fault_of(name: str) -> str | None:
    try:
        registry.find(name)
    except UnknownProperty as error:
        return message_of(error)
    return None


def _choices_of(name: str) -> Sequence[str]:
    return () if _fault_of(name) else registry.find(name).choices


def _unreadable(row: RuleRow, error: Exception) -> Finding:
    return Finding(
        row.name,
        "unreadable",
        _("cannot be read: %(reason)s", reason=message_of(error)),
        _("It is not in force. It was written without the admin, or by another version of this app."),
        _("Correct it on the ruleset's page, or delete it."),
        Severity.ERROR,
    )
