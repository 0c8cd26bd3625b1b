"""Counts the decisions of each rule, from the app's signal ``signals.checked``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django_ratelimit_rules.engine import Outcome, Result
from django_ratelimit_rules.signals import checked


@dataclass(slots=True)
class Decisions:
    """The decisions of one rule. ``clients`` counts the requests of each client that reached it."""

    counted: int = 0
    exceeded: int = 0
    blocked: int = 0
    skipped: int = 0
    clients: Counter[str] = field(default_factory=Counter)


class Recorder:
    """Listens to the checks of this process. Set ``client`` before each request, because a result does not name it."""

    def __init__(self) -> None:
        self.client = ""
        self._decisions: dict[tuple[str, str], Decisions] = {}

    def of(self, limiter: str, rule: str) -> Decisions:
        """Return the decisions of a rule so far."""
        return self._decisions.setdefault((limiter, rule), Decisions())

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record all checks of a block."""
        checked.connect(self._record)
        try:
            yield
        finally:
            checked.disconnect(self._record)

    def _record(self, limiter: str, result: Result, **_: object) -> None:
        for evaluation in result.evaluations:
            decisions = self.of(limiter, evaluation.rule)
            decisions.counted += 1
            decisions.exceeded += evaluation.exceeded
            decisions.blocked += evaluation.result is Outcome.BLOCK
            decisions.clients[self.client] += 1
        if result.skipped and result.rule:
            skip = self.of(limiter, result.rule)
            skip.skipped += 1
            skip.clients[self.client] += 1
