"""One use of the decorator: a limiter, the requests that it checks, and their extra properties and cost.

A request and the view's arguments go in. The limiter's result comes out. Responses are not known here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

from django.http import HttpRequest

from ..engine import Result
from ..engine.calls import cost_of
from ..exceptions import CallableFailed
from ..identifiers import building, http_request
from ..identifiers.state import results_of
from ..limiter import Limiter
from ..runtime import threads
from ..runtime.steps import Steps
from .settling import ANSWERED_BY_DJANGO

_METHOD = re.compile("[A-Z][A-Z_-]*")

Extra = Callable[..., Mapping[str, Any]] | Callable[..., Awaitable[Mapping[str, Any]]]
Cost = int | float | Callable[..., int | float] | Callable[..., Awaitable[int | float]]


class Checkpoint:
    """The checks of one view's requests, made of the decorator's arguments."""

    def __init__(self, limiter: Limiter, identifier: Extra | None, cost: Cost, methods: Iterable[str] | None) -> None:
        if isinstance(methods, str):
            raise TypeError(f"methods must be a list such as [{methods!r}], not a string")
        self.limiter = limiter
        self.identifier = identifier
        self.cost = cost if callable(cost) else cost_of(cost)
        self.methods = None if methods is None else _methods(methods)
        if self.methods and "GET" in self.methods:
            self.methods |= {"HEAD"}

    def __str__(self) -> str:
        return f"rate_limited({self.limiter.name!r})"

    @property
    def for_class(self) -> str:
        """How to put this decorator on a class, for error messages."""
        return f'@method_decorator({self}, name="dispatch")'

    def request(self, first: object) -> HttpRequest:
        """Return the request that a view got. Raises TypeError when its first argument is something else."""
        try:
            http = http_request(first)
        except TypeError:
            raise TypeError(
                f"{self} got a {type(first).__name__} instead of the request: on a method write"
                f" @method_decorator({self}), for all methods of a class {self.for_class}"
            ) from None
        # Views may look at request.rate_limits whether or not anything was checked.
        results_of(http)
        return http

    def concerns(self, request: HttpRequest) -> bool:
        """Whether the request's method is one of those that are checked."""
        return self.methods is None or (request.method or "").upper() in self.methods

    def checking(
        self, http: HttpRequest, request: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Steps[Result]:
        """Return the steps that ask the limiter, while the app is switched on.

        ``request`` is the view's argument, ``http`` Django's own request inside it. Async callers await an async
        identifier or cost, and run a sync one in a thread.
        """
        try:
            extra, cost = None, self.cost
            if self.identifier is not None:
                extra = yield from _call(self.identifier, request, args, kwargs)
            if callable(cost):
                cost = yield from _call(cost, request, args, kwargs)
            # Raises TypeError or ValueError for values that no limiter takes. Functions of the project made them,
            # perhaps from the client's input, so they must not fail the request.
            built = yield from building(http, kwargs, extra)
            cost = cost_of(cost)
        except Exception as error:  # noqa: BLE001 -- a project's function may raise anything
            return (yield from self.limiter.failing_request(http, self._failure(error)))
        return (yield from self.limiter.checking_request(built, cost))

    def _failure(self, error: Exception) -> CallableFailed:
        """Return the failure of a check whose identifier or cost could not be computed.

        Raises the error itself if Django answers it: an identifier may look up the view's object and find none.
        """
        if isinstance(error, ANSWERED_BY_DJANGO):
            raise error
        failure = CallableFailed.because(f"the identifier or cost of {self}", error)
        failure.__cause__ = error
        return failure


def _call(function: Callable[..., Any], request: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Any]:
    bound = partial(function, request, *args, **kwargs)
    return (yield bound, partial(threads.call, function, request, *args, **kwargs), ())


def _methods(methods: Iterable[object]) -> frozenset[str]:
    """Return methods in upper case. Raises ValueError for a method that no request has."""
    found = {method.upper() if isinstance(method, str) else method for method in methods}
    names = frozenset(name for name in found if isinstance(name, str) and name != "ALL" and _METHOD.fullmatch(name))
    if not names or names != found:
        raise ValueError(f"{sorted(map(str, found))} are not HTTP methods; omit methods to check all")
    return names
