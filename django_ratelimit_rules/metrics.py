"""Metrics of every check, in the registry that django-prometheus serves. Labels come from configuration alone.

Listens to the app's signals.
"""

from __future__ import annotations

from collections.abc import Callable

from django_prometheus.conf import NAMESPACE
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.values import ValueClass

from . import rulesets, signals
from .engine import Action, Mode, Outcome, Result

# In place of a rule: all calls of a limiter. No rule can have this name.
ALL = "*"
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

calls = Counter(
    "django_rate_limiter_calls_total",
    "Checks of a limiter, by what the caller was told.",
    ["rate_limiter", "result"],
    namespace=NAMESPACE,
)
rule_evaluations = Counter(
    "django_rate_limiter_rule_evaluations_total",
    "Evaluations of a rule, skips included. The action is the configured one, the result what it did.",
    ["rate_limiter", "rule", "action", "result", "exceeded"],
    namespace=NAMESPACE,
)
errors = Counter(
    "django_rate_limiter_errors_total",
    "Checks that failed and were answered by the failure mode.",
    ["rate_limiter"],
    namespace=NAMESPACE,
)
limits = Gauge(
    "django_rate_limiter_limit",
    "The limit in force.",
    ["rate_limiter", "rule"],
    namespace=NAMESPACE,
    multiprocess_mode="mostrecent",
)
periods = Gauge(
    "django_rate_limiter_period_seconds",
    "The period in force.",
    ["rate_limiter", "rule"],
    namespace=NAMESPACE,
    multiprocess_mode="mostrecent",
)
check_seconds = Histogram(
    "django_rate_limiter_check_seconds",
    "Duration of a check.",
    ["rate_limiter"],
    namespace=NAMESPACE,
    buckets=BUCKETS,
)
shadow = Counter(
    "django_rate_limiter_shadow_total",
    "Comparisons with a legacy limiter: match or diverge; boundary near a clock-aligned edge of a window.",
    ["rate_limiter", "agreement", "boundary"],
    namespace=NAMESPACE,
)

Count = Callable[[], None]


class Children:
    """The counters of one limiter, each looked up once: ``labels()`` costs more than counting."""

    __slots__ = ("_limiter", "allow", "block", "evaluations", "observe")

    def __init__(self, limiter: str) -> None:
        self._limiter = limiter
        self.evaluations: dict[tuple[str, str, str, bool], Count] = {}
        self.allow: Count = calls.labels(limiter, "allow").inc
        self.block: Count = calls.labels(limiter, "block").inc
        self.observe: Callable[[float], None] = check_seconds.labels(limiter).observe

    def of_evaluation(self, rule: str, action: str, result: str, exceeded: bool) -> Count:
        """Look up the counter of evaluations with these labels."""
        labels = (self._limiter, rule, str(action), str(result), "true" if exceeded else "false")
        count: Count = rule_evaluations.labels(*labels).inc
        self.evaluations[rule, action, result, exceeded] = count
        return count


_of: dict[str, Children] = {}
_shown: dict[tuple[str, str], tuple[int, int]] = {}


def count_check(limiter: str, result: Result, seconds: float, **_: object) -> None:
    """Receiver of ``signals.checked``."""
    children = _of.get(limiter)
    if children is None:
        children = _of[limiter] = Children(limiter)
    if result.action is Outcome.ALLOW:
        children.allow()
    else:
        children.block()
    known = children.evaluations
    for evaluation in result.evaluations:
        key = (evaluation.rule, evaluation.action, evaluation.result, evaluation.exceeded)
        (known.get(key) or children.of_evaluation(*key))()
    if result.skipped and result.rule is not None:
        skipped = (result.rule, Action.SKIP, Outcome.ALLOW, False)
        (known.get(skipped) or children.of_evaluation(*skipped))()
    children.observe(seconds)


def count_error(limiter: str, **_: object) -> None:
    """Receiver of ``signals.failed``."""
    errors.labels(limiter).inc()


def count_comparison(limiter: str, agreement: str, boundary: bool, **_: object) -> None:
    """Receiver of ``signals.compared``."""
    shadow.labels(limiter, agreement, "true" if boundary else "false").inc()


def show_rules(**_: object) -> None:
    """Receiver of ``signals.rules_loaded``: the gauges show the limits in force, and drop those that are gone."""
    shown = {}
    for effective in rulesets.in_force():
        ruleset = effective.ruleset
        for rule in ruleset.rules if ruleset.mode is not Mode.OFF else ():
            if rule.counts and isinstance(rule.limit, int) and isinstance(rule.period, int):
                shown[ruleset.limiter, rule.name] = (rule.limit, rule.period)
    # Most are as they were, and looking up a gauge costs more than looking whether it is right.
    for labels, (limit, period) in shown.items() - _shown.items():
        limits.labels(*labels).set(limit)
        periods.labels(*labels).set(period)
    for labels in _shown.keys() - shown.keys():
        for gauge in (limits, periods):
            if starts_afresh():
                # Multiprocess files keep a series for ever; not-a-number is how it says that there is none.
                gauge.labels(*labels).set(float("nan"))
            else:
                gauge.remove(*labels)
    _shown.clear()
    _shown.update(shown)


def counted() -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return what this process counted so far, by limiter and rule: calls, how many exceeded, how many were blocked.

    The rule ALL stands for all calls of a limiter; of those, exceeded are the blocked ones.
    """
    sums: dict[tuple[str, str], tuple[int, int, int]] = {}
    for limiter, children in list(_of.items()):
        blocked = _number(children.block)
        sums[limiter, ALL] = (_number(children.allow) + blocked, blocked, blocked)
        for (rule, _, result, exceeded), count in list(children.evaluations.items()):
            number = _number(count)
            calls, over, refused = sums.get((limiter, rule), (0, 0, 0))
            refused += number if result == Outcome.BLOCK else 0
            sums[limiter, rule] = (calls + number, over + number if exceeded else over, refused)
    return sums


def _number(count: Count) -> int:
    # The counter's own value, because collect() makes objects of all series: a hundred times the work.
    value: float = count.__self__._value.get()  # type: ignore[attr-defined]
    return int(value)


def prefix() -> str:
    """Return what the names of all metrics begin with, by django-prometheus's namespace."""
    return f"{NAMESPACE}_" if NAMESPACE else ""


def starts_afresh() -> bool:
    """Whether a forked child counts from zero, because each process has files of its own."""
    return getattr(ValueClass, "__name__", "") == "MmapedValue"


def connect() -> None:
    """Listen to the app's signals; called once by the app config."""
    signals.checked.connect(count_check, dispatch_uid="django_ratelimit_rules.metrics")
    signals.failed.connect(count_error, dispatch_uid="django_ratelimit_rules.metrics")
    signals.compared.connect(count_comparison, dispatch_uid="django_ratelimit_rules.metrics")
    signals.rules_loaded.connect(show_rules, dispatch_uid="django_ratelimit_rules.metrics")
