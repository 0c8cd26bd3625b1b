"""The comparison of a result with another limiter's answer.

Computes whether a result would block, by which limit, and whether the call was near the edge of a window. Knows neither
the other limiter nor the listeners.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .results import Outcome, Result
from .rules import Action

# Seconds around a clock-aligned edge of a window, where limiters that start their windows elsewhere disagree.
EDGE = 1.0


def would_block(result: Result) -> bool:
    """Whether a dry run's result would have blocked the call."""
    return any(evaluation.exceeded and evaluation.action is Action.LIMIT for evaluation in result.evaluations)


def decided_by_legacy(result: Result, legacy_blocked: bool) -> Result:
    """Return the result of a ruleset in dry run or off, with the legacy limiter's decision as its action."""
    action = Outcome.BLOCK if legacy_blocked else Outcome.ALLOW
    return replace(result, action=action)


def at_edge(result: Result, now: float) -> bool:
    """Whether ``now``, a POSIX time, is within a second of a clock-aligned edge of one of the result's windows."""
    periods = {evaluation.period for evaluation in result.evaluations if evaluation.action is Action.LIMIT}
    return any(min(now % period, -now % period) <= EDGE for period in periods)


def nearest_limit(result: Result) -> dict[str, Any]:
    """Return for the log the limit that would have blocked, or the limit nearest to blocking, and its use."""
    limits = [evaluation for evaluation in result.evaluations if evaluation.action is Action.LIMIT]
    if not limits:
        return {"rule": result.rule, "used": None, "limit": None}
    nearest = next((evaluation for evaluation in limits if evaluation.exceeded), None) or min(
        limits, key=lambda evaluation: evaluation.remaining / max(evaluation.limit, 1)
    )
    return {"rule": nearest.rule, "used": nearest.used, "limit": nearest.limit}
