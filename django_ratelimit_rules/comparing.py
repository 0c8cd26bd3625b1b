"""Two limiters, one request: what the legacy one said beside what ours would have done.

A dry run's result and the legacy limiter's word go in; ``signals.compared`` goes out, to metrics, log and the admin.
Who decides, and how a request is refused, is not known here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from django.http.response import HttpResponseBase

from . import signals
from .engine import Action, Mode, Outcome, Result

# Seconds around a clock-aligned edge of a window, where limiters that start their windows elsewhere disagree.
EDGE = 1.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a legacy limiter said of a request.

    ``refusal`` is its own way to refuse: a response, or an exception to be raised; None for ours (429). ``passes``: the
    request goes on all the same, as where a view itself looks at what the legacy limiter noted.
    """

    blocked: bool
    refusal: HttpResponseBase | Exception | None = None
    passes: bool = False

    @property
    def refuses(self) -> bool:
        """Whether the legacy limiter answers the request."""
        return self.blocked and not self.passes


def verdict_of(said: object) -> Verdict:
    """Return what a legacy callable said: a Verdict, a bool (True blocks), None for a pass, a response or an exception
    for a refusal. Raises TypeError for anything else."""
    if isinstance(said, Verdict):
        return said
    if said is None or isinstance(said, bool):
        return Verdict(bool(said))
    if isinstance(said, (HttpResponseBase, Exception)):
        return Verdict(True, said)
    raise TypeError(
        "a legacy limiter must return a bool (True blocks), None, a response, an exception or a Verdict, not"
        f" {type(said).__name__}"
    )


def compare(result: Result, legacy_blocked: bool) -> None:
    """Announce how a dry run's result agrees with the legacy limiter. A failed check is no comparison, nor is a result
    of another mode: an operator may have changed it meanwhile."""
    if result.mode is not Mode.DRY_RUN or result.error:
        return
    signals.compared.announce(
        Result,
        result.limiter,
        result,
        legacy_blocked,
        "match" if would_block(result) is legacy_blocked else "diverge",
        _at_edge(result, time.time()),
    )


def would_block(result: Result) -> bool:
    """Whether a dry run's result would have been a refusal."""
    return any(evaluation.exceeded and evaluation.action is Action.LIMIT for evaluation in result.evaluations)


def decided_by_legacy(result: Result, legacy_blocked: bool) -> Result:
    """Return the result of a dry run, or of a ruleset that is off, as the legacy limiter decided."""
    action = Outcome.BLOCK if legacy_blocked else Outcome.ALLOW
    return replace(result, action=action)


def _at_edge(result: Result, now: float) -> bool:
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
