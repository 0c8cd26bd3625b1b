"""A result beside another limiter's answer: would it have blocked, by which limit, how near an edge of a window.

A result goes in, plain values come out. The other limiter and the listeners are unknown here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .results import Outcome, Result
from .rules import Action

# Seconds around a clock-aligned edge of a window, where limiters that start their windows elsewhere disagree.
EDGE = 1.0


def would_block(result: Result) -> bool:
    """Whether a dry run's result would have been a refusal."""
    return any(evaluation.exceeded and evaluation.action is Action.LIMIT for evaluation in result.evaluations)


def decided_by_legacy(result: Result, legacy_blocked: bool) -> Result:
    """Return the result of a dry run, or of a ruleset that is off, as the legacy limiter decided."""
    action = Outcome.BLOCK if legacy_blocked else Outcome.ALLOW
    return replace(result, action=action)


def at_edge(result: Result, now: float) -> bool:
    """Whether ``now``, a POSIX time, is within a second of a clock-aligned edge of one of the result's windows."""
    periods = {evaluation.period for evaluation in result.evaluations if evaluation.action is Action.LIMIT}
    return any(min(now % period, -now % period) <= EDGE for period in periods)


def nearest_limit(result: Result) -> dict[str, Any]:
    """Return for the log which limit would have refused, else the one nearest to it, and how full that was."""
    limits = [evaluation for evaluation in result.evaluations if evaluation.action is Action.LIMIT]
    if not limits:
        return {"rule": result.rule, "used": None, "limit": None}
    nearest = next((each for each in limits if each.exceeded), None) or min(
        limits, key=lambda each: each.remaining / max(each.limit, 1)
    )
    return {"rule": nearest.rule, "used": nearest.used, "limit": nearest.limit}
