"""PromQL expressions over the metrics. Dashboard and alerts use the same ones with different windows.

A window is Prometheus's (``5m``) or Grafana's (``$__rate_interval``). Without a limiter, expressions sum by limiter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..metrics import prefix

LIMITER = "rate_limiter"


@dataclass(frozen=True, slots=True)
class Expressions:
    """Expressions over the series with these labels: ``{"job": "shop"}`` if one Prometheus scrapes several sites."""

    labels: Mapping[str, str] = field(default_factory=dict)

    def series(self, metric: str, limiter: str | None = None, **labels: str) -> str:
        """Return the series of a metric of this app. The name comes without its ``django_rate_limiter_``."""
        wanted = {**self.labels, **({} if limiter is None else {LIMITER: limiter}), **labels}
        inside = ",".join(f"{name}={_quoted(value)}" for name, value in wanted.items())
        return f"{prefix()}django_rate_limiter_{metric}" + (f"{{{inside}}}" if inside else "")

    def rate(self, metric: str, by: str, window: str, limiter: str | None = None, **labels: str) -> str:
        """Return a counter's events per second, summed by a label."""
        return f"sum by ({by}) (rate({self.series(metric, limiter, **labels)}[{window}]))"

    def increase(self, metric: str, by: str, window: str, limiter: str | None = None, **labels: str) -> str:
        """Return a counter's events in a window, summed by a label."""
        return f"sum by ({by}) (increase({self.series(metric, limiter, **labels)}[{window}]))"

    def share(self, metric: str, by: str, window: str, limiter: str | None = None, **labels: str) -> str:
        """Return the share of a counter's events that have these labels, by another label."""
        part = self.rate(metric, by, window, limiter, **labels)
        return f"{part} / {self.rate(metric, by, window, limiter)}"

    def calls(self, window: str, limiter: str | None = None) -> str:
        """Checks per second. For a single limiter, by result."""
        return self.rate("calls_total", LIMITER if limiter is None else "result", window, limiter)

    def refused_share(self, window: str, limiter: str | None = None) -> str:
        """The share of all checks that were refused."""
        return self.share("calls_total", LIMITER, window, limiter, result="block")

    def blocks(self, window: str, limiter: str) -> str:
        """Refusals per second, by rule."""
        return self.rate("rule_evaluations_total", "rule", window, limiter, result="block")

    def blocked_share(self, window: str, limiter: str) -> str:
        """The share of a rule's calls that it refused, by rule."""
        return self.share("rule_evaluations_total", "rule", window, limiter, result="block")

    def shadow_impact(self, window: str, limiter: str) -> str:
        """The share of a rule's calls that are over the limit but allowed by a log rule or a dry run, by rule."""
        return self.share("rule_evaluations_total", "rule", window, limiter, exceeded="true", result="allow")

    def bypasses(self, window: str, limiter: str) -> str:
        """Calls per second that a skip rule allowed, by rule."""
        return self.rate("rule_evaluations_total", "rule", window, limiter, action="skip")

    def bypass_rate(self, window: str, limiter: str | None = None) -> str:
        """The share of all checks that a skip rule allowed."""
        skipped = self.rate("rule_evaluations_total", LIMITER, window, limiter, action="skip")
        return f"{skipped} / {self.rate('calls_total', LIMITER, window, limiter)}"

    def errors(self, window: str, limiter: str | None = None) -> str:
        """Failed checks per second."""
        return self.rate("errors_total", LIMITER, window, limiter)

    def error_share(self, window: str, limiter: str | None = None) -> str:
        """The share of all checks that failed."""
        return f"{self.errors(window, limiter)} / {self.rate('calls_total', LIMITER, window, limiter)}"

    def latency(self, quantile: float, window: str, limiter: str | None = None) -> str:
        """The duration of a check in seconds, at this quantile."""
        buckets = self.rate("check_seconds_bucket", f"{LIMITER}, le", window, limiter)
        return f"histogram_quantile({quantile}, {buckets})"

    def divergence(self, window: str, limiter: str | None = None) -> str:
        """The share of comparisons with a legacy limiter in which the two disagreed."""
        return self.share("shadow_total", LIMITER, window, limiter, agreement="diverge")

    def divergence_at_boundary(self, window: str, limiter: str) -> str:
        """:meth:`divergence` by the label boundary: within a second of a clock-aligned edge of the window, or not."""
        apart = self.rate("shadow_total", "boundary", window, limiter, agreement="diverge")
        return f"{apart} / on () group_left {self.rate('shadow_total', '', window, limiter)}"

    def near(self, window: str, limiter: str) -> str:
        """Calls per second that brought a counter near its limit, by rule."""
        return self.rate("near_limit_total", "rule", window, limiter)

    def limits(self, limiter: str) -> str:
        """The limits in force, by rule."""
        return f"max by (rule) ({self.series('limit', limiter)})"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
