"""What there is to watch about each limiter: the input of dashboards and alert rules.

Names of limiters go in, :class:`Watched` values come out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ... import rulesets
from ...engine import Action, FailureMode
from ...rulesets import limiter_names


@dataclass(frozen=True, slots=True)
class Watched:
    """One limiter, and what there is to watch about it. Modes are left out: an operator turns them any time."""

    limiter: str
    failure_mode: FailureMode = FailureMode.OPEN
    limits: bool = False
    counts: bool = False
    skips: bool = False


def watched(names: Iterable[str] = ()) -> list[Watched]:
    """Return these limiters, or all that have rules or are named by code, in alphabetical order.

    Raises LookupError for a name that is no limiter's.
    """
    return [_watched(name) for name in limiter_names.chosen(names)]


def _watched(limiter: str) -> Watched:
    ruleset = rulesets.get(limiter)
    actions = {rule.action for rule in ruleset.rules}
    return Watched(
        limiter,
        ruleset.failure_mode,
        limits=Action.LIMIT in actions,
        counts=bool(actions - {Action.SKIP}),
        skips=Action.SKIP in actions,
    )
