"""Metrics of every check, in the registry that django-prometheus serves. Labels come from configuration alone.

Listens to the app's signals. A check is counted in plain numbers, in a quarter of the time that prometheus_client's
counters take; what has come together is added to those when somebody looks.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import add
from typing import Any

import prometheus_client
from django_prometheus.conf import NAMESPACE
from prometheus_client import Gauge, Metric
from prometheus_client.values import ValueClass

from .. import rulesets, signals
from ..engine import (
    Action,
    Mode,
    Result,
)
from ..engine.plans import Chain
from ..engine.results import ALLOW, BLOCK
from ..runtime import reset
from ..signals import CheckEvent, ComparisonEvent, FailureEvent, NearLimitEvent

# In place of a rule: all calls of a limiter. No rule can have this name.
ALL = "*"
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

# The labels of an evaluation: rule, action, result, exceeded.
Labels = tuple[str, str, str, bool]
MULTIPROCESS = getattr(ValueClass, "__name__", "") == "MmapedValue"


class Counter(prometheus_client.Counter):
    """A counter that is up to date whenever it is read."""

    def collect(self) -> Iterable[Metric]:
        """Return its samples."""
        flush()
        return super().collect()


class Histogram(prometheus_client.Histogram):
    """A histogram that is up to date whenever it is read."""

    def collect(self) -> Iterable[Metric]:
        """Return its samples."""
        flush()
        return super().collect()


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
near_limit = Counter(
    "django_rate_limiter_near_limit_total",
    "Calls that took a counter near its limit: to its rule's warn_at.",
    ["rate_limiter", "rule"],
    namespace=NAMESPACE,
)
shadow = Counter(
    "django_rate_limiter_shadow_total",
    "Comparisons with a legacy limiter: match or diverge; boundary near a clock-aligned edge of a window.",
    ["rate_limiter", "agreement", "boundary"],
    namespace=NAMESPACE,
)


class Waiting:
    """What one limiter's checks counted since the counters were last brought up to date.

    ``chains`` count the calls that all rules of a chain let pass, which are most; ``refusals`` those that its first
    rule refused again, most of a flood; ``evaluations`` the other rules that were met, by the labels of their counter.
    """

    __slots__ = ("blocked", "buckets", "calls", "chains", "evaluations", "refusals", "seconds")

    def __init__(self) -> None:
        self.calls = 0
        self.blocked = 0
        self.chains: dict[Chain, int] = {}
        self.refusals: dict[Chain, int] = {}
        self.evaluations: dict[Labels, int] = {}
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)

    def by_labels(self) -> dict[Labels, int]:
        """Return the evaluations of all calls."""
        found = dict(self.evaluations)
        for chain, number in self.chains.items():
            for rule in (*(step.rule for step in chain.steps), chain.skip):
                if rule is not None:
                    labels = (rule.name, rule.action, ALLOW, False)
                    found[labels] = found.get(labels, 0) + number
        for chain, number in self.refusals.items():
            rule = chain.steps[0].rule
            labels = (rule.name, rule.action, BLOCK, True)
            found[labels] = found.get(labels, 0) + number
        return found


class Children:
    """The counters of one limiter, each looked up once: ``labels()`` costs more than counting."""

    __slots__ = ("_evaluations", "_limiter", "_seconds", "allow", "block")

    def __init__(self, limiter: str) -> None:
        self._limiter = limiter
        self._evaluations: dict[Labels, Any] = {}
        self._seconds: Any = check_seconds.labels(limiter)
        self.allow = calls.labels(limiter, "allow")
        self.block = calls.labels(limiter, "block")

    def add(self, waiting: Waiting) -> None:
        """Count what waited."""
        blocked = waiting.blocked + sum(waiting.refusals.values())
        self.allow.inc(waiting.calls - blocked)
        self.block.inc(blocked)
        for labels, number in waiting.by_labels().items():
            child = self._evaluations.get(labels)
            if child is None:
                rule, action, result, exceeded = labels
                words = (rule, str(action), str(result), "true" if exceeded else "false")
                child = self._evaluations[labels] = rule_evaluations.labels(self._limiter, *words)
            child.inc(number)
        # A histogram takes one value at a time; its own sum and buckets take them together.
        self._seconds._sum.inc(waiting.seconds)
        for bucket, number in zip(self._seconds._buckets, waiting.buckets, strict=True):
            if number:
                bucket.inc(number)

    def sums(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield for each rule what it counted: calls, how many exceeded, how many were blocked. ALL is all calls."""
        blocked = _number(self.block)
        yield ALL, _number(self.allow) + blocked, blocked, blocked
        for (rule, _, result, exceeded), child in list(self._evaluations.items()):
            number = _number(child)
            yield rule, number, number if exceeded else 0, number if result == BLOCK else 0


class Pending(reset.Part):
    """The checks of this process that are not in the metrics yet, by limiter, changed under ``lock``.

    ``children`` are the metrics of each limiter; ``shown`` are the limits and periods that the gauges show, by limiter
    and rule. Metrics only ever grow, so a test's reset leaves them alone.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.checks: dict[str, Waiting] = {}
        self.children: dict[str, Children] = {}
        self.shown: dict[tuple[str, str], tuple[int, int]] = {}

    def flush(self) -> None:
        """Bring the metrics up to date with the checks; each scrape begins with it."""
        with self.lock:
            for limiter in list(self.checks):
                children = self.children.get(limiter)
                if children is None:
                    children = self.children[limiter] = Children(limiter)
                children.add(self.checks.pop(limiter))

    def before_fork(self) -> None:
        """Bring the metrics up to date, so that the child does not count these checks again."""
        self.flush()

    def after_fork(self) -> None:
        """Replace the lock, and leave to the parent the checks that came in since."""
        self.lock = threading.Lock()
        self.checks = {}


pending = reset.register("metrics", Pending())
flush = pending.flush


def count_check(event: CheckEvent) -> None:
    """Count a check in plain numbers, which a scrape turns into metrics."""
    limiter, result, _, plan, seconds, refused_again = event
    with pending.lock:
        waiting = _waiting_of(limiter, seconds)
        chain = plan.hits.chain if plan is not None and (refused_again or not result.exceeded) else None
        if chain is not None and not result.error:
            # All results of a chain that nothing exceeded are alike, and so are all that its first rule refuses.
            alike = waiting.refusals if refused_again else waiting.chains
            alike[chain] = alike.get(chain, 0) + 1
        else:
            _count_evaluations(waiting, result)
    if MULTIPROCESS:
        # Whoever scrapes reads this process's files, and cannot ask it to bring them up to date.
        flush()


def _waiting_of(limiter: str, seconds: float) -> Waiting:
    """Return what waits to be counted of a limiter, with one more call in it."""
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
    """Count a counter that came near its limit."""
    near_limit.labels(event.limiter, event.rule.name).inc()


def count_comparison(event: ComparisonEvent) -> None:
    """Count a comparison with a legacy limiter."""
    shadow.labels(event.limiter, event.agreement, "true" if event.boundary else "false").inc()


def show_rules(**_: object) -> None:
    """Receiver of ``signals.rules_loaded``: the gauges show the limits in force, and drop those that are gone."""
    shown = {}
    for effective in rulesets.in_force():
        ruleset = effective.ruleset
        for rule in ruleset.rules if ruleset.mode is not Mode.OFF else ():
            if rule.counts and isinstance(rule.limit, int) and isinstance(rule.period, int):
                shown[ruleset.limiter, rule.name] = (rule.limit, rule.period)
    # Most are as they were, and looking up a gauge costs more than looking whether it is right.
    for labels, (limit, period) in shown.items() - pending.shown.items():
        limits.labels(*labels).set(limit)
        periods.labels(*labels).set(period)
    for labels in pending.shown.keys() - shown.keys():
        for gauge in (limits, periods):
            if starts_afresh():
                # Multiprocess files keep a series for ever; not-a-number is how it says that there is none.
                gauge.labels(*labels).set(float("nan"))
            else:
                gauge.remove(*labels)
    pending.shown = shown


def counted() -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return what this process counted so far, by limiter and rule: calls, how many exceeded, how many were blocked.

    The rule ALL stands for all calls of a limiter; of those, exceeded are the blocked ones.
    """
    flush()
    sums: dict[tuple[str, str], tuple[int, int, int]] = {}
    for limiter, children in list(pending.children.items()):
        for rule, *numbers in children.sums():
            calls, exceeded, blocked = map(add, sums.get((limiter, rule), (0, 0, 0)), numbers)
            sums[limiter, rule] = (calls, exceeded, blocked)
    return sums


def _number(child: Any) -> int:
    # The counter's own value, because collect() makes objects of all series: a hundred times the work.
    return int(child._value.get())


def prefix() -> str:
    """Return what the names of all metrics begin with, by django-prometheus's namespace."""
    return f"{NAMESPACE}_" if NAMESPACE else ""


def starts_afresh() -> bool:
    """Whether a forked child counts from zero, because each process has files of its own."""
    return MULTIPROCESS


def connect() -> None:
    """Listen to the app's signals; called once by the app config."""
    signals.rules_loaded.connect(show_rules, dispatch_uid="django_ratelimit_rules.monitoring.metrics")
