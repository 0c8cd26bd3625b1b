"""What the app reports: events, the app's own observers of them, and signals for projects.

``checked``
    Sent after each check. ``sender`` is the class Limiter.

    - ``limiter`` is the limiter's name, ``result`` the Result, and ``ruleset`` the engine.Ruleset that decided.
    - ``plan`` is the engine.Plan of the call. Its first hits are the hits of the result's evaluations. It is None if a
      callable failed.
    - ``seconds`` (float) is the duration of the check.
    - ``refused_again`` is True if the denial cache answered without Redis.
``failed``
    Sent after a check that failed and was answered by the failure mode. ``limiter`` is the limiter's name, ``error``
    the exception, and ``failure_mode`` the mode that answered.
``compared``
    Sent after a comparison with a legacy limiter.

    - ``limiter`` is the limiter's name, and ``result`` the Result of the dry run.
    - ``legacy_blocked`` is True if the legacy limiter blocked. ``agreement`` is ``"match"`` or ``"diverge"``.
    - ``boundary`` is True within a second of a clock-aligned edge of a window.
``near_limit``
    Sent when a call takes a counter to its rule's ``warn_at`` (80 % of the limit by default) or past it. Only that call
    sends it. Refused calls and peeks never send it.

    - ``limiter`` is the limiter's name, and ``rule`` the engine.Rule.
    - ``used`` and ``limit`` are the counter's numbers. ``key`` is the counter's key, which names the client.
``rules_changed``
    Sent when rows of Ruleset or Rule were written through Django, before the change is committed. ``sender`` is the
    model, and ``using`` the database alias. The admin and ``ratelimit_apply`` announce a change of many rows once, with
    the sender Ruleset.
``rules_loaded``
    Sent when other rules are in force in this process, because rules were loaded, overridden or expired.
    ``rulesets.in_force()`` returns the rules.

An exception in a receiver or observer never changes a decision. The other receivers still get the event. Receivers of
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
FAILED = "An observer of limiter %s failed. The decision is unchanged"


class CheckEvent(NamedTuple):
    """A check and its result. ``seconds`` is its duration."""

    limiter: str
    result: Result
    ruleset: Ruleset
    plan: Plan | None
    seconds: float
    refused_again: bool = False


class FailureEvent(NamedTuple):
    """A check that failed, with the failure mode that answered it."""

    limiter: str
    error: Exception
    failure_mode: FailureMode


class ComparisonEvent(NamedTuple):
    """The result of a dry run and the answer of a legacy limiter to the same call."""

    limiter: str
    result: Result
    legacy_blocked: bool
    agreement: str
    boundary: bool


class NearLimitEvent(NamedTuple):
    """A counter that a call took near its limit. ``key`` is the counter's key."""

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
    """A signal that sends the fields of an event. The app's own observers are called first, with the event.

    Observers are plain functions, because Django's dispatch costs more than the observers. The app config sets them.
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
                # send_robust guards synchronous receivers. An asynchronous receiver may fail before it is called.
                if log_sampling.due(f"signal.{event.limiter}"):
                    logger.exception(FAILED, event.limiter)


checked: EventSignal[CheckEvent] = EventSignal()
failed: EventSignal[FailureEvent] = EventSignal()
compared: EventSignal[ComparisonEvent] = EventSignal()
near_limit: EventSignal[NearLimitEvent] = EventSignal()
rules_changed = Signal()
rules_loaded = Signal()
