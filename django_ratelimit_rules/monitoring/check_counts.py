"""The checks of one limiter, counted in plain numbers.

Calls, durations and evaluations go in. Sums by limiter and rule come out. Knows nothing of Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import add
from time import time

from ..engine.plans import Chain
from ..engine.results import ALLOW, BLOCK

# Used instead of a rule's name for all calls of a limiter. No rule can have this name.
ALL = "*"
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

# The labels of an evaluation: rule, action, result, exceeded.
Labels = tuple[str, str, str, bool]


class Waiting:
    """The numbers of one limiter's checks since the last flush.

    ``chains`` counts calls that all rules of a chain allowed. Most calls are of this kind. ``refusals`` counts calls
    that the denial cache blocked. ``evaluations`` counts all other evaluations by their labels.
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
        """Return the numbers of all evaluations by their labels."""
        evaluations = dict(self.evaluations)
        for chain, number in self.chains.items():
            for rule in (*(step.rule for step in chain.steps), chain.skip):
                if rule is not None:
                    labels = (rule.name, rule.action, ALLOW, False)
                    evaluations[labels] = evaluations.get(labels, 0) + number
        for chain, number in self.refusals.items():
            rule = chain.steps[0].rule
            labels = (rule.name, rule.action, BLOCK, True)
            evaluations[labels] = evaluations.get(labels, 0) + number
        return evaluations

    def all_blocked(self) -> int:
        """Return the number of blocked calls."""
        return self.blocked + sum(self.refusals.values())


class Totals:
    """The numbers of one limiter's checks since this process started."""

    __slots__ = ("blocked", "buckets", "calls", "created", "evaluations", "first_evaluated", "seconds")

    def __init__(self) -> None:
        self.created = time()
        self.calls = 0
        self.blocked = 0
        self.evaluations: dict[Labels, int] = {}
        self.first_evaluated: dict[Labels, float] = {}
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)

    def add(self, waiting: Waiting) -> None:
        """Add the numbers since the last flush."""
        self.calls += waiting.calls
        self.blocked += waiting.all_blocked()
        for labels, number in waiting.by_labels().items():
            if labels not in self.evaluations:
                self.first_evaluated[labels] = time()
            self.evaluations[labels] = self.evaluations.get(labels, 0) + number
        self.seconds += waiting.seconds
        self.buckets = list(map(add, self.buckets, waiting.buckets))

    def sums(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield rule, calls, exceeded calls and blocked calls. The rule ALL means all calls."""
        yield ALL, self.calls, self.blocked, self.blocked
        for (rule, _, result, exceeded), number in self.evaluations.items():
            yield rule, number, number if exceeded else 0, number if result == BLOCK else 0


def in_words(labels: Labels) -> tuple[str, str, str, str]:
    """Return the labels of an evaluation as strings for Prometheus."""
    rule, action, result, exceeded = labels
    return rule, str(action), str(result), "true" if exceeded else "false"
