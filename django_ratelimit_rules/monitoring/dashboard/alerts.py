"""Prometheus alert rules: one group for each limiter, with the alerts that its rules can cause.

Limiters and thresholds go in, the content of a rule file comes out. Most alerts need a number of events besides a
share, because two calls at night must not page an operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...engine import FailureMode
from .promql import Expressions
from .watched import Watched

# An alert needs more events than this in its window.
FEW = 30

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds above which alerts fire: shares from 0 to 1. ``slow`` is in seconds."""

    blocked: float = 0.1
    shadow: float = 0.01
    bypassed: float = 0.5
    failed: float = 0.01
    slow: float = 0.025
    divergence: float = 0.005


def alert_rules(limiters: Sequence[Watched], expressions: Expressions, thresholds: Thresholds) -> Json:
    """Return the content of a rule file."""
    return {
        "groups": [
            {"name": f"rate_limiter_{watched.limiter}", "rules": list(_rules(watched, expressions, thresholds))}
            for watched in limiters
        ]
    }


def _rules(watched: Watched, ask: Expressions, above: Thresholds) -> Iterator[Json]:
    name = watched.limiter

    def events(window: str, by: str, **labels: str) -> str:
        return ask.increase("rule_evaluations_total", by, window, name, **labels)

    if watched.limits:
        yield _alert(
            "RateLimitBlocksMany",
            _and(ask.blocked_share("10m", name), above.blocked, events("10m", "rule", result="block")),
            ("5m", "warning", name),
            "Rule {{ $labels.rule }} of " + name + " blocks {{ $value | humanizePercentage }} of its calls",
            "The admin's Explain page shows why clients are blocked. Switch the ruleset to dry run to stop it at once.",
        )
    if watched.counts:
        yield _alert(
            "RateLimitShadowWouldBlock",
            _and(ask.shadow_impact("30m", name), above.shadow, events("30m", "rule", exceeded="true", result="allow")),
            ("10m", "info", name),
            "Rule {{ $labels.rule }} of " + name + " would block {{ $value | humanizePercentage }} of its calls",
            "It is a log rule or in a dry run, so no call is blocked yet. Change the rule before you enforce it.",
        )
    if watched.skips:
        yield _alert(
            "RateLimitBypassed",
            _and(ask.bypass_rate("15m", name), above.bypassed, events("15m", "rate_limiter", action="skip")),
            ("15m", "warning", name),
            "Skip rules of " + name + " allow {{ $value | humanizePercentage }} of all calls uncounted",
            "A skip rule matches more calls than intended, or the secret of a bypass header has leaked.",
        )
    yield from _of_the_limiter(name, watched.failure_mode, ask, above)


def _of_the_limiter(name: str, failure_mode: FailureMode, ask: Expressions, above: Thresholds) -> Iterator[Json]:
    closed = failure_mode is FailureMode.CLOSED
    answered = {
        FailureMode.OPEN: "Such calls are allowed.",
        FailureMode.CLOSED: "Such calls are refused with status 503.",
        FailureMode.LOCAL: "Such calls are counted in each process.",
    }
    yield _alert(
        "RateLimiterFails",
        f"{ask.error_share('5m', name)} > {above.failed}",
        ("5m", "critical" if closed else "warning", name),
        "{{ $value | humanizePercentage }} of the checks of " + name + " fail",
        f"Redis is down, slow or read-only, or a callable raises an exception. {answered[failure_mode]}",
    )
    yield _alert(
        "RateLimiterSlow",
        f"{ask.latency(0.99, '10m', name)} > {above.slow}",
        ("10m", "warning", name),
        "A check of " + name + " takes {{ $value | humanizeDuration }} (p99)",
        "Check Redis and the network to it, because each check is one call to Redis.",
    )
    yield _alert(
        "RateLimiterDiverges",
        _and(ask.divergence("1h", name), above.divergence, ask.increase("shadow_total", "rate_limiter", "1h", name)),
        ("15m", "warning", name),
        name + " and the legacy limiter disagree in {{ $value | humanizePercentage }} of the comparisons",
        "The log has a sample of them with both verdicts. Do not enforce before you know the cause.",
    )


def _and(share: str, threshold: float, events: str) -> str:
    return f"({share} > {threshold}) and ({events} > {FEW})"


def _alert(alert: str, expression: str, state: tuple[str, str, str], summary: str, description: str) -> Json:
    wait, severity, limiter = state
    return {
        "alert": alert,
        "expr": expression,
        "for": wait,
        # Routing and grouping need the limiter as a label, even if the expression sums by rule.
        "labels": {"severity": severity, "rate_limiter": limiter},
        "annotations": {"summary": summary, "description": description},
    }
