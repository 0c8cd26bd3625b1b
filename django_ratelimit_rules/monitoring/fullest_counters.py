"""The counters of a limiter that are fullest now, as Redis has them.

A limiter's name goes in, counters come out, the fullest first. Read by the admin and by ``ratelimit_suggest``.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import rulesets
from ..counters.aliases import current
from ..engine import Hit
from ..engine.keys import code_in, values_in
from ..engine.plans import Step
from ..engine.results import Number

MOST_KEYS = 2000


class Heavy(NamedTuple):
    """A counter that is full, or nearly. ``who`` are the values it counts for, as they stand in its key."""

    rule: str
    who: str
    used: Number
    count: Number  # type: ignore[assignment]  # the field's word, not tuple.count
    limit: int
    banned: bool
    reset_after: float


class Heaviest(NamedTuple):
    """The fullest counters first. ``full`` are at their limit or over it, of ``looked`` looked at; ``complete`` when
    those are all there are."""

    counters: list[Heavy]
    full: int
    looked: int
    complete: bool


def heaviest(limiter: str, most: int = 20) -> Heaviest:
    """Return the fullest counters of a limiter's rules, found by looking at 2,000 of them at most.

    Rules with a computed limit are left out. Raises CountersUnavailable.
    """
    hits, complete = _hits(limiter, MOST_KEYS)
    partition_by = rulesets.get(limiter).partition_by
    found = []
    for hit, tally in current().look(hits):
        who = values_in(hit.key, hit.rule.characteristics, partition_by)
        reset = tally.reset_ms / 1000
        found.append(Heavy(hit.rule.name, who, tally.used, tally.count, hit.limit, tally.banned, reset))
    found.sort(key=_weight, reverse=True)
    full = sum(heavy.banned or heavy.used >= heavy.limit for heavy in found)
    return Heaviest(found[:most], full, len(found), complete)


def pressures(limiter: str, rule: str, most: int = 20_000) -> tuple[list[Number], bool]:
    """Return what each counter of a rule has counted so far, refused calls included, and whether those are all.

    At most so many counters of the limiter are looked at. Raises CountersUnavailable.
    """
    hits, complete = _hits(limiter, most)
    return [tally.count for _, tally in current().look([hit for hit in hits if hit.rule.name == rule])], complete


def _hits(limiter: str, most: int) -> tuple[list[Hit], bool]:
    """Return how to look at the counters of a limiter, and whether those are all."""
    steps = {code_in(step.prefix): step for step in rulesets.get(limiter).steps if step.rule.counts}
    keys, complete = current().keys(limiter, most)
    return [hit for hit in (_hit(key, steps) for key in keys) if hit], complete


def _hit(key: str, steps: dict[str, Step]) -> Hit | None:
    """Return how to look at a counter, None when no rule in force counts in it, or its limit is computed."""
    step = steps.get(code_in(key))
    if step is None or step.terms is None:
        return None
    terms = step.terms._replace(enforced=False, looked=False)
    return terms.hit(key, "" if step.rule.count_distinct else None)


def _weight(heavy: Heavy) -> tuple[bool, float, float]:
    return heavy.banned, max(heavy.count, heavy.used) / max(heavy.limit, 1), heavy.used
