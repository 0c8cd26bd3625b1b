"""What the app keeps on one request, for all limiters that the request meets.

A request goes in. Out come its results, which views see as ``request.rate_limits``, and its :class:`RequestState`.
"""

from __future__ import annotations

from typing import Any, Protocol

from django.http import HttpRequest

from ..engine import Result
from ..exceptions import CallableFailed
from ..runtime.steps import Steps

_STATE = "_rate_limit_state"


class Settler(Protocol):
    """A limiter, as far as settling a result needs one."""

    def settling(self, result: Result, answer: dict[str, object]) -> Steps[None]:
        """Return the steps that charge the rules by outcome of a result."""


class RequestState:
    """The app's private notes on one request.

    ``provided`` holds the canonical string of each property that a project's provider computed, or its failure.
    ``bodies`` holds the parsed body by its reader. ``unsettled`` are results that rules by outcome may still charge,
    and ``settling`` is the outermost bracket, which settles them. ``login`` is ``"ok"`` or ``"failed"`` once a sign-in
    was tried. ``user`` is the user that an event loop awaited, after the function that returned it.
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
    """Return the notes on a request, new ones at the first call."""
    state: RequestState | None = request.__dict__.get(_STATE)
    if state is None:
        state = request.__dict__[_STATE] = RequestState()
    return state


def has_state(request: HttpRequest) -> bool:
    """Whether this app has met a request."""
    return not request.__dict__.keys().isdisjoint((_STATE, "rate_limits"))


def results_of(request: HttpRequest) -> dict[str, Result]:
    """Return the results of this request so far, by limiter; the same dictionary is ``request.rate_limits``."""
    results: dict[str, Result] = request.__dict__.setdefault("rate_limits", {})
    return results
