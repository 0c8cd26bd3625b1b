"""Prometheus alert rules: one group for each limiter, with the alerts that its rules can set off.

Limiters and thresholds go in, what a rule file holds comes out. A share alone would wake somebody over two calls at
night, so each alert also asks for a number of events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...engine import FailureMode
from .promql import Expressions
from .watched import Watched

# Events in an alert's window below which it stays silent.
FEW = 30

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Above which an alert fires: shares from 0 to 1, and seconds."""

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
            "Rule {{ $labels.rule }} of " + name + " refuses {{ $value | humanizePercentage }} of what it counts",
            "The admin's Explain page shows who is refused and why. To stop it at once, switch the ruleset to dry run.",
        )
    if watched.counts:
        yield _alert(
            "RateLimitShadowWouldBlock",
            _and(ask.shadow_impact("30m", name), above.shadow, events("30m", "rule", exceeded="true", result="allow")),
            ("10m", "info", name),
            "Rule {{ $labels.rule }} of " + name + " would refuse {{ $value | humanizePercentage }} of what it counts",
            "It is a log rule, or in a dry run: nobody is refused yet. Do not enforce it as it stands.",
        )
    if watched.skips:
        yield _alert(
            "RateLimitBypassed",
            _and(ask.bypass_rate("15m", name), above.bypassed, events("15m", "rate_limiter", action="skip")),
            ("15m", "warning", name),
            "Skip rules let {{ $value | humanizePercentage }} of all calls pass " + name + " uncounted",
            "A skip rule matches more than it should, or a bypass header's secret is known outside.",
        )
    yield from _of_the_limiter(name, watched.failure_mode, ask, above)


def _of_the_limiter(name: str, failure_mode: FailureMode, ask: Expressions, above: Thresholds) -> Iterator[Json]:
    closed = failure_mode is FailureMode.CLOSED
    answered = {FailureMode.OPEN: "let through", FailureMode.CLOSED: "refused with 503", FailureMode.LOCAL: "counted"}
    yield _alert(
        "RateLimiterFails",
        f"{ask.error_share('5m', name)} > {above.failed}",
        ("5m", "critical" if closed else "warning", name),
        "{{ $value | humanizePercentage }} of the checks of " + name + " fail",
        f"Redis is down, slow or read-only, or a callable raises; such calls are {answered[failure_mode]}"
        + (" in each process." if failure_mode is FailureMode.LOCAL else "."),
    )
    yield _alert(
        "RateLimiterSlow",
        f"{ask.latency(0.99, '10m', name)} > {above.slow}",
        ("10m", "warning", name),
        "A check of " + name + " takes {{ $value | humanizeDuration }} (p99)",
        "Look at Redis and the way to it: a check is one call.",
    )
    yield _alert(
        "RateLimiterDiverges",
        _and(ask.divergence("1h", name), above.divergence, ask.increase("shadow_total", "rate_limiter", "1h", name)),
        ("15m", "warning", name),
        name + " and the legacy limiter disagree in {{ $value | humanizePercentage }} of the comparisons",
        "The log samples them, with both verdicts. Do not enforce before this is understood.",
    )


def _and(share: str, threshold: float, events: str) -> str:
    return f"({share} > {threshold}) and ({events} > {FEW})"


def _alert(alert: str, expression: str, state: tuple[str, str, str], summary: str, description: str) -> Json:
    wait, severity, limiter = state
    return {
        "alert": alert,
        "expr": expression,
        "for": wait,
        # The limiter as a label even where the expression sums by rule, for routing and for grouping.
        "labels": {"severity": severity, "rate_limiter": limiter},
        "annotations": {"summary": summary, "description": description},
    }
