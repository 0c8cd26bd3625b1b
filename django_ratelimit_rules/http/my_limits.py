"""My limits: the usage of the signed-in user, for all limits that count by user. Read-only.

A request goes in. The counters of its user come out, by one call to Redis (in a cluster, by one call a slot).
Properties of the limited request itself (its path, headers, body) are not known here. A rule that counts by such a
property is left out. A rule with a condition on one shows once the user has met it, because others may be meant.
Rules that count different values are left out. Log rules, skip rules and rulesets that do not enforce limit no user.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from django.http import HttpRequest

from .. import identifiers, rulesets
from ..conf import settings
from ..counters.aliases import current
from ..engine import (
    Action,
    Hit,
    Mode,
    Rule,
    Tally,
)
from ..engine.matching import Matcher, ValueOf
from ..engine.properties import base_of, facts_of
from ..engine.results import Number
from ..exceptions import CallableFailed
from ..identifiers.registry import provider_of


@dataclass(frozen=True, slots=True)
class MyLimit:
    """One limit of a user. ``period`` is in seconds, ``reset_after`` in whole seconds, rounded up."""

    limiter: str
    rule: str
    limit: int
    period: int
    used: Number
    remaining: Number
    reset_after: int
    blocked: bool


def of_user(request: HttpRequest, limiters: Collection[str] = ()) -> list[MyLimit]:
    """Return the limits of a request's user, for these limiters or for all, nearest to full first.

    Returns no limits for anonymous users. Raises CountersUnavailable.
    """
    identifier = identifiers.build(request)
    if not settings.ENABLED or identifier.text("is_authenticated") != "1":
        return []
    known = rulesets.limiters()
    names = sorted(known.intersection(limiters) if limiters else known)
    found = (counter for name in names for counter in _counters(name, identifier.text, request))
    counters = {counter.hit.key: counter for counter in found}
    if not counters:
        return []
    limits = [
        _limit(counters[hit.key], tally)
        for hit, tally in current().look([counter.hit for counter in counters.values()])
        if counters[hit.key].certain or tally.used or tally.banned
    ]
    return sorted(limits, key=lambda limit: (not limit.blocked, limit.remaining / max(limit.limit, 1)))


class Counter(NamedTuple):
    """A counter of the user. ``certain``: all conditions of its rule can be evaluated here, and hold."""

    limiter: str
    hit: Hit
    certain: bool


def _limit(counter: Counter, tally: Tally) -> MyLimit:
    limiter, hit, _ = counter
    remaining = 0 if tally.banned else max(0, hit.limit - tally.used)
    reset = math.ceil(tally.reset_ms / 1000)
    blocked = tally.banned or not remaining
    return MyLimit(limiter, hit.rule.name, hit.limit, hit.period, tally.used, remaining, reset, blocked)


def _counters(limiter: str, value_of: ValueOf, request: HttpRequest) -> Iterator[Counter]:
    """Yield the counters of a limiter that count this user's calls."""
    ruleset = rulesets.get(limiter)
    for step in ruleset.steps if ruleset.mode is Mode.ENFORCE else ():
        try:
            if step.rule.action is Action.SKIP:
                if _all_known(step.rule.matcher) and step.rule.matcher.holds(value_of):
                    return
            elif _counts_user(step.rule) and _may_hold(step.rule.matcher, value_of):
                hit = step.hit(ruleset.keys, value_of, request)
                if hit is not None:
                    # Not enforced, because the look must continue after a full limit.
                    looking = hit._replace(enforced=False, looked=False)
                    yield Counter(limiter, looking, _all_known(step.rule.matcher))
        except CallableFailed:
            # The checkpoint logs a property or a limit that cannot be computed.
            continue


def _counts_user(rule: Rule) -> bool:
    """Whether a rule blocks, and its counter depends on the user and on known properties only."""
    names = [base_of(name) for name in rule.characteristics]
    return rule.action is Action.LIMIT and not rule.count_distinct and "user" in names and all(map(_is_known, names))


def _is_known(name: str) -> bool:
    return facts_of(name).of_client or provider_of(base_of(name)) is not None


def _all_known(matcher: Matcher) -> bool:
    return all(map(_is_known, matcher.properties))


def _may_hold(matcher: Matcher, value_of: ValueOf) -> bool:
    """Whether all conditions that can be evaluated here hold, in one of the alternatives."""
    return any(
        all(condition(value_of(name)) for name, condition in conditions if _is_known(name))
        for conditions in matcher.alternatives
    )
