"""The linter over what is really there: file, admin and code rules of every limiter, and rows that read as no rule.

A limiter's name and its rows go in, or nothing for all limiters; :class:`Finding` s come out, the worst included. Asks
the database only for :func:`everywhere`; what a finding means is said in :mod:`engine.lint`.
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
    """Return the findings of all limiters that code asks or some tier has rules for; those without any as well."""
    rows = {ruleset.name: list(ruleset.rules.all()) for ruleset in RulesetRow.objects.prefetch_related("rules")}
    asked = limiter_names.named()
    return {
        name: _of_limiter(name, rows.get(name, ()), name in asked)
        for name in sorted(asked | rulesets.limiters() | set(rows))
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
    """Yield the rules of all tiers in order of evaluation, but for those that a higher tier replaces."""
    names: set[str] = set()
    for tier in Tier:
        rules = tiers.get(tier, TierRules()).rules
        yield from (rule for rule in rules if rule.name not in names)
        # An expired rule replaces none.
        names.update(rule.name for rule in rules if not rule.has_expired(around.now))


def _fault_of(name: str) -> str | None:
    try:
        registry.find(name)
    except UnknownProperty as error:
        return str(error)
    return None


def _choices_of(name: str) -> Sequence[str]:
    return () if _fault_of(name) else registry.find(name).choices


def _unreadable(row: RuleRow, error: Exception) -> Finding:
    return Finding(
        row.name,
        "unreadable",
        str(error),
        "It is out of force: it was written past the admin, or by another version.",
        "Correct it on the ruleset's page, or delete it.",
        Severity.ERROR,
    )
