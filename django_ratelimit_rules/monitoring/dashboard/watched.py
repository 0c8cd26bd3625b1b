"""The limiters that dashboards and alert rules watch.

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
    """One limiter, and the kinds of its rules: limits, any counting rules, skips.

    The mode is left out, because an operator may switch it at any time.
    """

    limiter: str
    failure_mode: FailureMode = FailureMode.OPEN
    limits: bool = False
    counts: bool = False
    skips: bool = False


def watched(names: Iterable[str] = ()) -> list[Watched]:
    """Return these limiters in alphabetical order. By default, all limiters that have rules or that code names.

    Raises LookupError for an unknown limiter.
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
