"""The fullest counters of a limiter, from Redis.

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
    """A full or nearly full counter. ``who`` are the values of its characteristics, as its key holds them."""

    rule: str
    who: str
    used: Number
    count: Number  # type: ignore[assignment]  # the field's word, not tuple.count
    limit: int
    banned: bool
    reset_after: float


class Heaviest(NamedTuple):
    """The fullest counters first.

    ``looked`` is the number of examined counters, and ``full`` of them are at or over their limit. ``complete`` is True
    if the limiter has no other counters.
    """

    counters: list[Heavy]
    full: int
    looked: int
    complete: bool


def heaviest(limiter: str, most: int = 20) -> Heaviest:
    """Return the fullest counters of a limiter's rules. Examines at most 2,000 counters.

    Skips rules with a computed limit. Raises CountersUnavailable.
    """
    hits, complete = _hits(limiter, MOST_KEYS)
    partition_by = rulesets.get(limiter).partition_by
    counters = []
    for hit, tally in current().look(hits):
        who = values_in(hit.key, hit.rule.characteristics, partition_by)
        reset = tally.reset_ms / 1000
        counters.append(Heavy(hit.rule.name, who, tally.used, tally.count, hit.limit, tally.banned, reset))
    counters.sort(key=_weight, reverse=True)
    full = sum(heavy.banned or heavy.used >= heavy.limit for heavy in counters)
    return Heaviest(counters[:most], full, len(counters), complete)


def pressures(limiter: str, rule: str, most: int = 20_000) -> tuple[list[Number], bool]:
    """Return the count of each counter of a rule, refused calls included, and whether these are all its counters.

    Examines at most ``most`` counters of the limiter. Raises CountersUnavailable.
    """
    hits, complete = _hits(limiter, most)
    return [tally.count for _, tally in current().look([hit for hit in hits if hit.rule.name == rule])], complete


def _hits(limiter: str, most: int) -> tuple[list[Hit], bool]:
    """Return hits that only read the counters of a limiter, and whether these are all its counters."""
    steps = {code_in(step.prefix): step for step in rulesets.get(limiter).steps if step.rule.counts}
    keys, complete = current().keys(limiter, most)
    return [hit for hit in (_hit(key, steps) for key in keys) if hit], complete


def _hit(key: str, steps: dict[str, Step]) -> Hit | None:
    """Return a hit that only reads a counter. Returns None if no rule in force uses it, or its limit is computed."""
    step = steps.get(code_in(key))
    if step is None or step.terms is None:
        return None
    terms = step.terms._replace(enforced=False, looked=False)
    return terms.hit(key, "" if step.rule.count_distinct else None)


def _weight(heavy: Heavy) -> tuple[bool, float, float]:
    return heavy.banned, max(heavy.count, heavy.used) / max(heavy.limit, 1), heavy.used
