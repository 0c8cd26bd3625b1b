"""Rulesets to replay: draft rules, joined with the other tiers as if they were applied already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .. import rulesets
from ..engine import Ruleset
from ..rulesets.tiers import Tier, TierRules, join
from ..runtime.clock import clock


def drafts(rules_by_limiter: Mapping[str, TierRules], tier: Tier = Tier.ADMIN) -> dict[str, Ruleset]:
    """Return the ruleset of each limiter as it would be in force if these rules replaced those of a tier."""
    now = clock.now()
    return {limiter: join(limiter, {**rulesets.stated(limiter), tier: rules}, now).ruleset
            for limiter, rules in rules_by_limiter.items()}  # fmt: skip


def live(limiters: Iterable[str] | None = None) -> dict[str, Ruleset]:
    """Return the rulesets in force of these limiters, or of all limiters if None. Skips rulesets without rules."""
    names = sorted(rulesets.limiters()) if limiters is None else limiters
    in_force = {limiter: rulesets.get(limiter) for limiter in names}
    return {limiter: ruleset for limiter, ruleset in in_force.items() if ruleset.rules}
