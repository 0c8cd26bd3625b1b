"""The three tiers of rules, and how they join into what is in force for a limiter.

What each tier says goes in, an :class:`EffectiveRuleset` comes out. Pure, but for the settings it looks at and the
clock that tells which rules have expired; who loads tiers, and when, it does not know.
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
    """The three places rules come from, from the highest to the lowest."""

    FILE = "file"
    ADMIN = "admin"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class TierRules:
    """What one tier says of one limiter. A mode or partition of None is not stated; the description is for people.

    ``version`` is that of the admin's history, None for the other tiers.
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
    """Check what one tier says of one limiter. Raises InvalidRule."""
    checked = tuple(as_rule(rule) for rule in rules)
    check_unique_names(checked)
    modes = Mode(mode) if mode else None, FailureMode(failure_mode) if failure_mode else None
    return TierRules(checked, *modes, description, partition_by=check_partition(partition_by, checked))


@dataclass(frozen=True, slots=True)
class EffectiveRuleset:
    """The ruleset in force, each rule with the tier it came from."""

    ruleset: Ruleset
    tiers: tuple[Tier, ...]

    @property
    def rules(self) -> tuple[tuple[Rule, Tier], ...]:
        """The rules in order of evaluation, each with its tier."""
        return tuple(zip(self.ruleset.rules, self.tiers, strict=True))


Tiers = Mapping[Tier, TierRules]


def join(limiter: str, tiers: Tiers, now: float) -> EffectiveRuleset:
    """Join tiers: file before admin before code; a name in a higher tier hides it below, a disabled one as well.

    Expired rules are as if absent. ``now`` is a POSIX timestamp.
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
    """Return the partition that the highest tier states, None when none does."""
    return next((tiers[tier].partition_by for tier in Tier if tier in tiers and tiers[tier].partition_by), None)


def _partition_in_force(limiter: str, tiers: Tiers, rules: Iterable[Rule]) -> str | None:
    """Return the partition stated, None as well when a rule of another tier does not count by it.

    A limit that holds is worth more than one that is spread; the linter says so, too.
    """
    try:
        return check_partition(stated_partition(tiers), rules)
    except InvalidRule as error:
        logger.error("The partition of limiter %s is out of force: %s", limiter, error.reason)
        return None


def default_failure_mode() -> FailureMode:
    """Return the setting's failure mode; ``open`` for one that is none, which the system checks complain about."""
    try:
        return FailureMode(settings.FAILURE_MODE)
    except ValueError:
        return FailureMode.OPEN


def _expiry(rule: Rule) -> float:
    return rule.expires_at.timestamp() if rule.expires_at else math.inf


@dataclass(slots=True)
class Snapshot:
    """All tiers as they were loaded, and the rulesets joined from them so far; ``until`` a rule expires next."""

    tiers: Mapping[str, Tiers] = field(default_factory=dict)
    until: float = math.inf
    joined: dict[str, EffectiveRuleset] = field(default_factory=dict)

    def __post_init__(self) -> None:
        now = clock.now()
        expiries = [_expiry(r) for tiers in self.tiers.values() for tier in tiers.values() for r in tier.rules]
        self.until = min((expiry for expiry in expiries if expiry > now), default=math.inf)

    def get(self, limiter: str) -> EffectiveRuleset:
        """Return a limiter's ruleset, joined at its first use."""
        found = self.joined.get(limiter)
        if found is None:
            found = self.joined[limiter] = join(limiter, self.tiers.get(limiter, {}), clock.now())
        return found

    def keep(self, before: Snapshot) -> None:
        """Take over rulesets joined before whose tiers are the same: what a check has learnt of them goes on."""
        if clock.now() >= before.until:
            # What was joined then may hold a rule that has expired since.
            return
        for limiter, joined in before.joined.copy().items():
            ours, theirs = self.tiers.get(limiter, {}), before.tiers.get(limiter, {})
            if ours.keys() == theirs.keys() and all(ours[tier] is theirs[tier] for tier in ours):
                self.joined[limiter] = joined
