"""Metrics of every check, in the registry that django-prometheus serves. Labels only hold names from configuration.

A check is counted in plain numbers, in a quarter of the time that prometheus_client's counters take. A scrape makes
metrics of these numbers. With PROMETHEUS_MULTIPROC_DIR, prometheus_client's own counters count each check as well,
because the scraped process reads their files.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate
from operator import add
from typing import Any, Generic, TypeVar

from django_prometheus.conf import NAMESPACE
from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Sample
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from prometheus_client.values import MutexValue, ValueClass

from .. import rulesets, signals
from ..engine import (
    Action,
    Mode,
    Result,
)
from ..engine.results import ALLOW, BLOCK
from ..runtime import reset
from ..signals import CheckEvent, ComparisonEvent, FailureEvent, NearLimitEvent
from .check_counts import BUCKETS, Totals, Waiting, in_words

# With any other class of values, processes share values through files.
MULTIPROCESS = ValueClass is not MutexValue

CALLS = (
    "django_rate_limiter_calls_total",
    "Checks of a limiter, by the result that the caller received.",
    ("rate_limiter", "result"),
)
RULE_EVALUATIONS = (
    "django_rate_limiter_rule_evaluations_total",
    "Evaluations of a rule, skips included. The action is the configured one, the result its effect.",
    ("rate_limiter", "rule", "action", "result", "exceeded"),
)
CHECK_SECONDS = ("django_rate_limiter_check_seconds", "Duration of a check.", ("rate_limiter",))
# The upper bounds of the histogram's buckets, as its label ``le`` spells them.
BOUNDS = tuple(map(floatToGoString, (*BUCKETS, float("inf"))))


def prefix() -> str:
    """Return the prefix of all metric names: django-prometheus's namespace."""
    return f"{NAMESPACE}_" if NAMESPACE else ""


Family = TypeVar("Family", bound=CounterMetricFamily | HistogramMetricFamily)
# Adds one limiter's totals to a family, with creation times if the last argument is True.
Fill = Callable[[Family, str, Totals, bool], None]


class PlainNumbers(Collector, Generic[Family]):
    """A metric that is made from the totals of all limiters at each scrape."""

    def __init__(
        self, family: Callable[..., Family], about: tuple[str, str, tuple[str, ...]], fill: Fill[Family]
    ) -> None:
        self._family, self._about, self._fill = family, about, fill

    def _empty(self) -> Family:
        name, documentation, labels = self._about
        return self._family(prefix() + name, documentation, labels=labels)

    def describe(self) -> Iterable[Metric]:
        """Return the metric without samples, so that registering it counts nothing."""
        return [self._empty()]

    def collect(self) -> Iterable[Metric]:
        """Return the metric with the samples of all limiters."""
        family = self._empty()
        dated = _shows_creation()
        with pending.lock:
            flush()
            for limiter, totals in pending.totals.items():
                self._fill(family, limiter, totals, dated)
        return [family]


def _shows_creation() -> bool:
    """Return whether ``_created`` series are on. Probes a counter, because prometheus_client has no function for it."""
    probe = Counter("django_rate_limiter_probe", "Shows whether counters have a creation time.", registry=None)
    return any(sample.name.endswith("_created") for metric in probe.collect() for sample in metric.samples)


def _fill_calls(family: CounterMetricFamily, limiter: str, totals: Totals, dated: bool) -> None:
    created = totals.created if dated else None
    family.add_metric((limiter, "allow"), totals.calls - totals.blocked, created)
    family.add_metric((limiter, "block"), totals.blocked, created)


def _fill_evaluations(family: CounterMetricFamily, limiter: str, totals: Totals, dated: bool) -> None:
    for labels, number in totals.evaluations.items():
        family.add_metric((limiter, *in_words(labels)), number, totals.first_evaluated[labels] if dated else None)


def _fill_seconds(family: HistogramMetricFamily, limiter: str, totals: Totals, dated: bool) -> None:
    buckets = list(zip(BOUNDS, accumulate(totals.buckets), strict=True))
    family.add_metric((limiter,), buckets, totals.seconds)
    if dated:
        # ``add_metric`` of a histogram takes no creation time.
        family.samples.append(Sample(f"{family.name}_created", {CHECK_SECONDS[2][0]: limiter}, totals.created))


class FileCounters:
    """prometheus_client's own metrics, which write one file per process."""

    def __init__(self) -> None:
        self._calls = Counter(*CALLS, namespace=NAMESPACE)
        self._rule_evaluations = Counter(*RULE_EVALUATIONS, namespace=NAMESPACE)
        self._check_seconds = Histogram(*CHECK_SECONDS, namespace=NAMESPACE, buckets=BUCKETS)
        # Each child is looked up once, because ``labels()`` costs more than counting.
        self._children: dict[tuple[str, ...], Any] = {}

    def add(self, limiter: str, waiting: Waiting) -> None:
        """Count one call, the only one in ``waiting``."""
        blocked = waiting.all_blocked()
        self._child(self._calls, limiter, "allow").inc(waiting.calls - blocked)
        self._child(self._calls, limiter, "block").inc(blocked)
        for labels, number in waiting.by_labels().items():
            self._child(self._rule_evaluations, limiter, *in_words(labels)).inc(number)
        self._child(self._check_seconds, limiter).observe(waiting.seconds)

    def _child(self, metric: Counter | Histogram, *labels: str) -> Any:
        # The metrics differ in the number of their labels.
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = metric.labels(*labels)
        return child


if MULTIPROCESS:
    _files = FileCounters()
else:
    REGISTRY.register(PlainNumbers(CounterMetricFamily, CALLS, _fill_calls))
    REGISTRY.register(PlainNumbers(CounterMetricFamily, RULE_EVALUATIONS, _fill_evaluations))
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
if not MULTIPROCESS:
    REGISTRY.register(PlainNumbers(HistogramMetricFamily, CHECK_SECONDS, _fill_seconds))
near_limit = Counter(
    "django_rate_limiter_near_limit_total",
    "Calls that brought a counter near its limit: to its rule's warn_at.",
    ["rate_limiter", "rule"],
    namespace=NAMESPACE,
)
shadow = Counter(
    "django_rate_limiter_shadow_total",
    "Comparisons with a legacy limiter. The label agreement is match or diverge. The label boundary is true near a"
    " clock-aligned edge of a window.",
    ["rate_limiter", "agreement", "boundary"],
    namespace=NAMESPACE,
)


class Pending(reset.Part):
    """The checks of this process that are not in the totals yet, by limiter, changed under ``lock``.

    ``totals`` are the numbers of each limiter. ``shown`` are the limits and periods in the gauges, by limiter and rule.
    Metrics only ever grow, so a test's reset does not change them.
    """

    def __init__(self) -> None:
        # Reentrant, because ``flush`` is called with and without it.
        self.lock = threading.RLock()
        self.checks: dict[str, Waiting] = {}
        self.totals: dict[str, Totals] = {}
        self.shown: dict[tuple[str, str], tuple[int, int]] = {}

    def flush(self) -> None:
        """Add the checks to the totals. Each scrape begins with this."""
        with self.lock:
            for limiter in list(self.checks):
                waiting = self.checks.pop(limiter)
                totals = self.totals.get(limiter)
                if totals is None:
                    totals = self.totals[limiter] = Totals()
                totals.add(waiting)
                if MULTIPROCESS:
                    _files.add(limiter, waiting)

    def before_fork(self) -> None:
        """Add the checks to the totals, so that the child does not count them again."""
        self.flush()

    def after_fork(self) -> None:
        """Replace the lock. Drop the checks that came in since the flush, because the parent counts them."""
        self.lock = threading.RLock()
        self.checks = {}
        if starts_afresh():
            self.totals = {}


pending = reset.register("metrics", Pending())
flush = pending.flush


def count_check(event: CheckEvent) -> None:
    """Count a check in plain numbers, which a scrape turns into metrics."""
    limiter, result, _, plan, seconds, refused_again = event
    with pending.lock:
        waiting = _waiting_of(limiter, seconds)
        chain = plan.hits.chain if plan is not None and (refused_again or not result.exceeded) else None
        if chain is not None and not result.error:
            # All calls that a chain allows have the same evaluations. So do all calls that its first rule refuses.
            alike = waiting.refusals if refused_again else waiting.chains
            alike[chain] = alike.get(chain, 0) + 1
        else:
            _count_evaluations(waiting, result)
        if MULTIPROCESS:
            # The scraped process reads this process's files and cannot trigger a flush here.
            flush()


def _waiting_of(limiter: str, seconds: float) -> Waiting:
    """Return the unflushed numbers of a limiter, with one more call in them."""
    waiting = pending.checks.get(limiter)
    if waiting is None:
        waiting = pending.checks[limiter] = Waiting()
    waiting.calls += 1
    waiting.seconds += seconds
    waiting.buckets[bisect_left(BUCKETS, seconds)] += 1
    return waiting


def _count_evaluations(waiting: Waiting, result: Result) -> None:
    if result.action is BLOCK:
        waiting.blocked += 1
    counts = waiting.evaluations
    for evaluation in result.evaluations:
        labels = (evaluation.rule, evaluation.action, evaluation.result, evaluation.exceeded)
        counts[labels] = counts.get(labels, 0) + 1
    if result.skipped and result.rule is not None:
        labels = (result.rule, Action.SKIP, ALLOW, False)
        counts[labels] = counts.get(labels, 0) + 1


def count_error(event: FailureEvent) -> None:
    """Count a failed check."""
    errors.labels(event.limiter).inc()


def count_near(event: NearLimitEvent) -> None:
    """Count a call that brought a counter near its limit."""
    near_limit.labels(event.limiter, event.rule.name).inc()


def count_comparison(event: ComparisonEvent) -> None:
    """Count a comparison with a legacy limiter."""
    shadow.labels(event.limiter, event.agreement, "true" if event.boundary else "false").inc()


def show_rules(**_: object) -> None:
    """Receiver of ``signals.rules_loaded``: set the gauges to the limits in force, and remove gauges of old rules."""
    shown = {}
    for effective in rulesets.in_force():
        ruleset = effective.ruleset
        for rule in ruleset.rules if ruleset.mode is not Mode.OFF else ():
            if rule.counts and isinstance(rule.limit, int) and isinstance(rule.period, int):
                shown[ruleset.limiter, rule.name] = (rule.limit, rule.period)
    # Set only the changed ones. Most are unchanged, and finding a gauge costs more than comparing its number.
    for labels, (limit, period) in shown.items() - pending.shown.items():
        limits.labels(*labels).set(limit)
        periods.labels(*labels).set(period)
    for labels in pending.shown.keys() - shown.keys():
        for gauge in (limits, periods):
            if starts_afresh():
                # Multiprocess files keep a series forever. Not-a-number marks a series without a value.
                gauge.labels(*labels).set(float("nan"))
            else:
                gauge.remove(*labels)
    pending.shown = shown


def counted() -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return the numbers of this process by limiter and rule: all calls, exceeded calls, blocked calls.

    The rule ALL means all calls of a limiter. Its exceeded calls are the blocked ones.
    """
    sums: dict[tuple[str, str], tuple[int, int, int]] = {}
    with pending.lock:
        flush()
        for limiter, totals in pending.totals.items():
            for rule, *numbers in totals.sums():
                calls, exceeded, blocked = map(add, sums.get((limiter, rule), (0, 0, 0)), numbers)
                sums[limiter, rule] = (calls, exceeded, blocked)
    return sums


def starts_afresh() -> bool:
    """Return whether a forked child counts from zero, because each process has files of its own."""
    return MULTIPROCESS


def connect() -> None:
    """Connect the gauges to ``signals.rules_loaded``. Called once by the app config."""
    signals.rules_loaded.connect(show_rules, dispatch_uid="django_ratelimit_rules.monitoring.metrics")
