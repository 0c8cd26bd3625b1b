"""Log lines of the app's decisions, under the logger ``django_ratelimit_rules``.

Results go in, lines come out. Each is one physical line, even if a value holds line breaks. A line names limiter, rule
and counter. The counter's key holds values that a client wrote as digests. No other value of a request is logged.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from ..engine import Evaluation, Rule
from ..engine.comparison import nearest_limit, would_block
from ..engine.plans import NONE, Terms
from ..engine.results import BLOCK
from ..runtime import log_sampling
from ..signals import CheckEvent, ComparisonEvent, FailureEvent

logger = logging.getLogger("django_ratelimit_rules")

MAX_ERROR = 500


def log_check(event: CheckEvent) -> None:
    """Log each exceeded log rule, and a sample of three other events.

    These are blocks, bypasses, and calls without the property whose distinct values a rule counts.
    """
    limiter, result, ruleset, plan, _, refused_again = event
    if plan is not None and plan.passed_over and not refused_again:
        _log_passed_over(limiter, plan.passed_over)
    if result.skipped and _chosen(log_sampling.nth(f"skipped.{limiter}.{result.rule}")):
        logger.info("Rate limit bypassed: limiter=%s rule=%s action=skip", limiter, result.rule)
    if not result.exceeded:
        return
    hits = plan.hits if plan is not None else NONE
    keys = hits.keys
    for number, evaluation in enumerate(result.evaluations):
        if not evaluation.exceeded:
            continue
        terms, key = (hits.terms[number], keys[number]) if number < len(keys) else (None, "-")
        if evaluation.result is not BLOCK:
            _log_exceeded(limiter, evaluation, key, ruleset.version, None, logging.INFO)
        elif _chosen(_refused(limiter, evaluation, terms, key, result.cost)):
            _log_exceeded(limiter, evaluation, key, ruleset.version, result.decision, logging.WARNING)


def _log_passed_over(limiter: str, rules: Iterable[Rule]) -> None:
    for rule in rules:
        if _chosen(log_sampling.nth(f"passed_over.{limiter}.{rule.name}")):
            logger.warning(
                "Rate limit passed over: limiter=%s rule=%s count_distinct=%s: the call has no such property",
                *(limiter, rule.name, rule.count_distinct),
            )


def _log_exceeded(
    limiter: str, evaluation: Evaluation, key: str, version: int | None, decision: str | None, level: int
) -> None:
    logger.log(
        level,
        "Rate limit exceeded: limiter=%s rule=%s action=%s result=%s count=%s used=%s limit=%s period=%ss counter=%s"
        + ("" if version is None else f" version={version}")
        + ("" if decision is None else f" decision={decision}"),
        limiter,
        evaluation.rule,
        evaluation.action,
        evaluation.result,
        evaluation.count,
        evaluation.used,
        evaluation.limit,
        evaluation.period,
        key,
    )


def _chosen(number: int) -> bool:
    """Return True for the 1st, 2nd, 4th, 8th …, so that a flood of calls does not become a flood of lines."""
    return number & (number - 1) == 0


def _refused(limiter: str, evaluation: Evaluation, terms: Terms | None, key: str, cost: float) -> int:
    """Return the ordinal of this refused call of its counter: over all processes if the counter tallies refusals."""
    # A ban stops the tally. A call that only reads the counter, or costs 0, adds nothing to it.
    tallied = terms and terms.rule.counting.tallies_refusals and not terms.looked
    if tallied and not evaluation.banned and cost != 0:
        return math.ceil((evaluation.count - evaluation.used) / cost)
    return log_sampling.nth(f"blocked.{limiter}.{evaluation.rule}.{key}")


def log_comparison(event: ComparisonEvent) -> None:
    """Log both verdicts at the 1st, 2nd, 4th, 8th … divergence, and likewise for agreements."""
    limiter, result, legacy_blocked, agreement, boundary = event
    if not _chosen(log_sampling.nth(f"compared.{limiter}.{agreement}.{legacy_blocked}")):
        return
    logger.log(
        logging.WARNING if agreement == "diverge" else logging.INFO,
        "Rate limiters compared: limiter=%s agreement=%s boundary=%s legacy=%s ours=%s rule=%s used=%s limit=%s",
        *(limiter, agreement, "true" if boundary else "false"),
        *("block" if blocked else "allow" for blocked in (legacy_blocked, would_block(result))),
        *("-" if value is None else value for value in nearest_limit(result).values()),
    )


def log_failure(event: FailureEvent) -> None:
    """Log one line per limiter and minute."""
    limiter, error, failure_mode = event
    if log_sampling.due(f"failed.{limiter}"):
        logger.error("Limiter %s cannot decide, failure mode %s answers: %s", limiter, failure_mode, _one_line(error))


def _one_line(error: Exception) -> str:
    """Return at most 500 characters of an error's message, with control characters escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(error)[:MAX_ERROR])
