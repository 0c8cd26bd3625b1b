"""Rulesets to replay: what a text says, joined with the other tiers as it would be once it is applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .. import rulesets
from ..engine import Ruleset
from ..rulesets.tiers import Tier, TierRules, join
from ..runtime.clock import clock


def drafts(said: Mapping[str, TierRules], tier: Tier = Tier.ADMIN) -> dict[str, Ruleset]:
    """Return what would be in force, by limiter, if a tier said this."""
    now = clock.now()
    return {limiter: join(limiter, {**rulesets.stated(limiter), tier: rules}, now).ruleset
            for limiter, rules in said.items()}  # fmt: skip


def live(limiters: Iterable[str] | None = None) -> dict[str, Ruleset]:
    """Return what is in force for these limiters, or all that have rules; those without any are left out."""
    names = sorted(rulesets.limiters()) if limiters is None else limiters
    found = {limiter: rulesets.get(limiter) for limiter in names}
    return {limiter: ruleset for limiter, ruleset in found.items() if ruleset.rules}
