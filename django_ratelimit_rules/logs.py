"""Log lines of the app's decisions, under the logger ``django_ratelimit_rules``.

Names of limiters and rules come from configuration; values of a request never enter a line.
"""

from __future__ import annotations

import logging

from . import signals, sometimes
from .engine import Evaluation, FailureMode, Result

logger = logging.getLogger("django_ratelimit_rules")


def log_check(limiter: str, result: Result, **_: object) -> None:
    """Receiver of ``signals.checked``: one line for each log rule exceeded, and for some blocks."""
    if not result.exceeded:
        return
    for evaluation in result.evaluations:
        blocked = evaluation.result == "block"
        if evaluation.exceeded and (not blocked or _sampled(limiter, evaluation)):
            logger.log(
                logging.WARNING if blocked else logging.INFO,
                "Rate limit exceeded: limiter=%s rule=%s action=%s result=%s count=%s used=%s limit=%s period=%ss",
                limiter,
                evaluation.rule,
                evaluation.action,
                evaluation.result,
                evaluation.count,
                evaluation.used,
                evaluation.limit,
                evaluation.period,
            )


def _sampled(limiter: str, evaluation: Evaluation) -> bool:
    """Choose the 1st, 2nd, 4th, 8th … refused call of a counter: a flood must not become a flood of lines."""
    refused = int(evaluation.count - evaluation.used)
    if evaluation.banned or refused <= 1:
        # A ban stands still, and some algorithms keep no tally of refused calls: count them here.
        refused = sometimes.nth(f"blocked.{limiter}.{evaluation.rule}")
    return refused & (refused - 1) == 0


def log_failure(limiter: str, error: Exception, failure_mode: FailureMode, **_: object) -> None:
    """Receiver of ``signals.failed``: one line per limiter and minute."""
    if sometimes.due(f"failed.{limiter}"):
        logger.error("Limiter %s cannot decide, failure mode %s answers: %s", limiter, failure_mode, error)


def connect() -> None:
    """Listen to the app's signals; called once by the app config."""
    signals.checked.connect(log_check, dispatch_uid="django_ratelimit_rules.logs")
    signals.failed.connect(log_failure, dispatch_uid="django_ratelimit_rules.logs")
