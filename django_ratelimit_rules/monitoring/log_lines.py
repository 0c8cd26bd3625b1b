"""Log lines of the app's decisions, under the logger ``django_ratelimit_rules``.

Results go in, lines come out: one physical line each, whatever the values hold. A line names limiters, rules and the
counter, in whose key a value that a client wrote stands as a digest; no other value of a request enters one.
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
    """Write a line for each log rule that was exceeded, and for some blocks, bypasses and calls without the property
    that a rule counts distinct values of."""
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
    """Choose the 1st, 2nd, 4th, 8th …: a flood must not become a flood of lines."""
    return number & (number - 1) == 0


def _refused(limiter: str, evaluation: Evaluation, terms: Terms | None, key: str, cost: float) -> int:
    """Return which refused call of its counter this is, over all processes where the counter knows it."""
    # A ban stops the tally, and a call that was only looked at or costs nothing adds nothing to it.
    tallied = terms and terms.rule.counting.tallies_refusals and not terms.looked
    if tallied and not evaluation.banned and cost != 0:
        return math.ceil((evaluation.count - evaluation.used) / cost)
    return log_sampling.nth(f"blocked.{limiter}.{evaluation.rule}.{key}")


def log_comparison(event: ComparisonEvent) -> None:
    """Write both verdicts at the 1st, 2nd, 4th, 8th … divergence, and agreement."""
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
    """Write one line per limiter and minute."""
    limiter, error, failure_mode = event
    if log_sampling.due(f"failed.{limiter}"):
        logger.error("Limiter %s cannot decide, failure mode %s answers: %s", limiter, failure_mode, _one_line(error))


def _one_line(error: Exception) -> str:
    """Return an error's message with line breaks and other control characters escaped, and an end to it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(error)[:MAX_ERROR])
