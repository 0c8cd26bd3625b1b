"""What the app reports: events, the app's own observers of them, and signals for projects.

``checked``
    After each check. ``sender`` is the class Limiter; ``limiter`` the limiter's name; ``result`` the Result;
    ``ruleset`` the engine.Ruleset that decided; ``plan`` the engine.Plan of the call, whose first hits are those of the
    result's evaluations, or None when a callable failed; ``seconds`` (float) the duration of the check;
    ``refused_again`` whether the denial cache answered without Redis.
``failed``
    After a check that failed and was answered by the failure mode. ``limiter`` is the limiter's name; ``error`` the
    exception; ``failure_mode`` the mode that answered.
``compared``
    After a comparison with a legacy limiter. ``limiter`` is the limiter's name; ``result`` the Result of the dry run;
    ``legacy_blocked`` whether the legacy limiter blocked; ``agreement`` ``"match"`` or ``"diverge"``; ``boundary``
    whether it was within a second of a clock-aligned edge of a window.
``near_limit``
    When a call took a counter to its rule's ``warn_at`` (80 % of the limit) or past it: by that call alone. ``limiter``
    is the limiter's name; ``rule`` the engine.Rule; ``used`` and ``limit`` the counter's numbers; ``key`` the counter's
    key, which names the client. Neither a refused call nor a look at a counter sends it.
``rules_changed``
    When rows of Ruleset or Rule were written through Django. ``sender`` is the model; ``using`` the database alias.
    The change is not committed yet. The admin and ``ratelimit_apply`` announce a change of many rows once, with the
    sender Ruleset.
``rules_loaded``
    When other rules are in force in this process: loaded, overridden or expired. ``rulesets.in_force()`` returns them.

An exception in a receiver or observer never changes a decision, and keeps the event from no other. Receivers of
``checked``, ``failed``, ``compared`` and ``near_limit`` run on the request's thread or event loop. They must be quick
and synchronous.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from django.dispatch import Signal

from .engine import FailureMode, Plan, Result, Rule, Ruleset
from .engine.results import Number
from .runtime import log_sampling

logger = logging.getLogger(__name__)
FAILED = "An observer of limiter %s failed; its decision is unchanged"


class CheckEvent(NamedTuple):
    """A check and its result. ``seconds`` is its duration."""

    limiter: str
    result: Result
    ruleset: Ruleset
    plan: Plan | None
    seconds: float
    refused_again: bool = False


class FailureEvent(NamedTuple):
    """A check that failed, and the failure mode that answered it."""

    limiter: str
    error: Exception
    failure_mode: FailureMode


class ComparisonEvent(NamedTuple):
    """A dry run's result beside the answer of a legacy limiter."""

    limiter: str
    result: Result
    legacy_blocked: bool
    agreement: str
    boundary: bool


class NearLimitEvent(NamedTuple):
    """A counter that a call has just taken near its limit. ``key`` is the counter's key."""

    limiter: str
    rule: Rule
    used: Number
    limit: int
    key: str


class Event(Protocol):
    """An event: a named tuple of the signal's arguments."""

    @property
    def limiter(self) -> str: ...

    def _asdict(self) -> dict[str, Any]: ...


E = TypeVar("E", bound=Event)


class EventSignal(Signal, Generic[E]):
    """A signal of the fields of an event. The app's own observers are called first, with the event.

    Observers are plain functions, because Django's dispatch costs more than they do. The app config sets them.
    """

    def __init__(self) -> None:
        super().__init__(use_caching=True)
        self.observers: tuple[Callable[[E], None], ...] = ()

    def announce(self, sender: Any, event: E) -> None:
        """Call all observers, then all receivers. Never raises."""
        for observer in self.observers:
            try:
                observer(event)
            except Exception:
                if log_sampling.due(f"observer.{event.limiter}"):
                    logger.exception(FAILED, event.limiter)
        if self.receivers:
            try:
                self.send_robust(sender, **event._asdict())
            except Exception:
                # send_robust guards synchronous receivers. An asynchronous one may fail before it is called.
                if log_sampling.due(f"signal.{event.limiter}"):
                    logger.exception(FAILED, event.limiter)


checked: EventSignal[CheckEvent] = EventSignal()
failed: EventSignal[FailureEvent] = EventSignal()
compared: EventSignal[ComparisonEvent] = EventSignal()
near_limit: EventSignal[NearLimitEvent] = EventSignal()
rules_changed = Signal()
rules_loaded = Signal()
