"""Joins the three tiers of rules into the ruleset that is in force for a limiter.

The rules of each tier go in, and an :class:`EffectiveRuleset` comes out. The functions are pure except for the settings
and the clock, which determines the expired rules. The loading of tiers is not known here.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..conf import settings
from ..engine import (
    FailureMode,
    KeyWriter,
    Mode,
    Rule,
    Ruleset,
    as_rule,
    check_partition,
    check_unique_names,
)
from ..exceptions import InvalidRule
from ..runtime.clock import clock

logger = logging.getLogger(__name__)


class Tier(StrEnum):
    """The three sources of rules, highest priority first."""

    FILE = "file"
    ADMIN = "admin"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class TierRules:
    """The rules of one tier for one limiter. A mode or partition of None is not stated.

    The description is for people only. ``version`` is the version number in the admin's history, and None for other
    tiers.
    """

    rules: tuple[Rule, ...] = ()
    mode: Mode | None = None
    failure_mode: FailureMode | None = None
    description: str = ""
    version: int | None = None
    partition_by: str | None = None


def tier_rules(
    rules: Iterable[Rule | Mapping[str, Any]],
    mode: Mode | str | None = None,
    failure_mode: FailureMode | str | None = None,
    description: str = "",
    partition_by: str | None = None,
) -> TierRules:
    """Return checked rules of one tier for one limiter. Raises InvalidRule."""
    checked = tuple(as_rule(rule) for rule in rules)
    check_unique_names(checked)
    modes = Mode(mode) if mode else None, FailureMode(failure_mode) if failure_mode else None
    return TierRules(checked, *modes, description, partition_by=check_partition(partition_by, checked))


@dataclass(frozen=True, slots=True)
class EffectiveRuleset:
    """The ruleset in force, each rule with its tier."""

    ruleset: Ruleset
    tiers: tuple[Tier, ...]

    @property
    def rules(self) -> tuple[tuple[Rule, Tier], ...]:
        """The rules in order of evaluation, each with its tier."""
        return tuple(zip(self.ruleset.rules, self.tiers, strict=True))


Tiers = Mapping[Tier, TierRules]


def join(limiter: str, tiers: Tiers, now: float) -> EffectiveRuleset:
    """Join tiers in the order file, admin, code.

    A rule hides rules of the same name in lower tiers, even if it is disabled. Expired rules are ignored. ``now`` is a
    POSIX timestamp.
    """
    rules: list[Rule] = []
    sources: list[Tier] = []
    names: set[str] = set()
    stated = [tiers[tier] for tier in Tier if tier in tiers]
    for tier in Tier:
        alive = [rule for rule in tiers.get(tier, TierRules()).rules if _expiry(rule) > now]
        chosen = [rule for rule in alive if rule.name not in names and rule.enabled]
        rules += chosen
        sources += [tier] * len(chosen)
        names.update(rule.name for rule in alive)
    ruleset = Ruleset(
        limiter,
        tuple(rules),
        mode=next((tier.mode for tier in stated if tier.mode), Mode.ENFORCE),
        failure_mode=next((tier.failure_mode for tier in stated if tier.failure_mode), None) or default_failure_mode(),
        keys=KeyWriter(settings.secret, settings.ipv6_bits),
        partition_by=_partition_in_force(limiter, tiers, rules),
        version=tiers.get(Tier.ADMIN, TierRules()).version,
    )
    return EffectiveRuleset(ruleset, tuple(sources))


def stated_partition(tiers: Tiers) -> str | None:
    """Return the partition of the highest tier that states it. Returns None if no tier does."""
    return next((tiers[tier].partition_by for tier in Tier if tier in tiers and tiers[tier].partition_by), None)


def _partition_in_force(limiter: str, tiers: Tiers, rules: Iterable[Rule]) -> str | None:
    """Return the stated partition. Returns None if it is not stated, or if a rule does not count by it.

    An exact limit is more important than the spread of its counters over servers. The linter reports this case too.
    """
    try:
        return check_partition(stated_partition(tiers), rules)
    except InvalidRule as error:
        logger.error("The partition of limiter %s is not in force: %s", limiter, error.reason)
        return None


def default_failure_mode() -> FailureMode:
    """Return the setting's failure mode. Returns ``open`` for an invalid value, which the system checks report."""
    try:
        return FailureMode(settings.FAILURE_MODE)
    except ValueError:
        return FailureMode.OPEN


def _expiry(rule: Rule) -> float:
    return rule.expires_at.timestamp() if rule.expires_at else math.inf


@dataclass(slots=True)
class Snapshot:
    """All loaded tiers, and the rulesets joined from them so far. ``until`` is the time of the next expiry."""

    tiers: Mapping[str, Tiers] = field(default_factory=dict)
    until: float = math.inf
    joined: dict[str, EffectiveRuleset] = field(default_factory=dict)

    def __post_init__(self) -> None:
        now = clock.now()
        expiries = [_expiry(r) for tiers in self.tiers.values() for tier in tiers.values() for r in tier.rules]
        self.until = min((expiry for expiry in expiries if expiry > now), default=math.inf)

    def get(self, limiter: str) -> EffectiveRuleset:
        """Return a limiter's ruleset, which is joined at its first use."""
        ruleset = self.joined.get(limiter)
        if ruleset is None:
            ruleset = self.joined[limiter] = join(limiter, self.tiers.get(limiter, {}), clock.now())
        return ruleset

    def keep(self, before: Snapshot) -> None:
        """Take over joined rulesets with unchanged tiers, because checks have cached results in them."""
        if clock.now() >= before.until:
            # An earlier join may hold a rule that has expired since.
            return
        for limiter, joined in before.joined.copy().items():
            new, old = self.tiers.get(limiter, {}), before.tiers.get(limiter, {})
            if new.keys() == old.keys() and all(new[tier] is old[tier] for tier in new):
                self.joined[limiter] = joined
