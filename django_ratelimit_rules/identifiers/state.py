"""The app's data about one request, for all limiters that check it.

A request goes in. Its results come out, which views see as ``request.rate_limits``, and its :class:`RequestState`.
"""

from __future__ import annotations

from typing import Any, Protocol

from django.http import HttpRequest

from ..engine import Result
from ..exceptions import CallableFailed
from ..runtime.steps import Steps

_STATE = "_rate_limit_state"


class Settler(Protocol):
    """The part of a limiter that settles a result."""

    def settling(self, result: Result, answer: dict[str, object]) -> Steps[None]:
        """Return the steps that charge a result's rules by outcome."""


class RequestState:
    """The app's private data about one request.

    ``provided`` holds the canonical string of each property that a project's provider computed, or the failure.
    ``bodies`` holds the parsed body by its reader. ``unsettled`` are the results that rules by outcome may still
    charge. ``settling`` is the outermost Settling, which settles them. ``login`` is ``"ok"`` or ``"failed"`` after a
    sign-in attempt. ``user`` is the function that an event loop awaited, and the user that it returned.
    """

    __slots__ = ("bodies", "login", "provided", "settling", "unsettled", "user")

    def __init__(self) -> None:
        self.provided: dict[str, str | CallableFailed | None] = {}
        self.bodies: dict[object, object] = {}
        self.unsettled: list[tuple[Settler, Result]] = []
        self.settling: Any = None
        self.login: str | None = None
        self.user: tuple[object, object] | None = None


def state_of(request: HttpRequest) -> RequestState:
    """Return the data about a request. The first call creates it."""
    state: RequestState | None = request.__dict__.get(_STATE)
    if state is None:
        state = request.__dict__[_STATE] = RequestState()
    return state


def has_state(request: HttpRequest) -> bool:
    """Return whether this app has seen a request."""
    return not request.__dict__.keys().isdisjoint((_STATE, "rate_limits"))


def results_of(request: HttpRequest) -> dict[str, Result]:
    """Return the results of a request so far, by limiter. ``request.rate_limits`` is the same dictionary."""
    results: dict[str, Result] = request.__dict__.setdefault("rate_limits", {})
    return results
