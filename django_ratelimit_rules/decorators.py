"""The checkpoint in front of one view.

A view goes in, a view of the same colour (sync or async) with the same attributes comes out. It asks the limiter, lets
the view or the refusal answer, writes the headers and has the answer settled; how to decide and what to say it leaves
to others.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest

from .conf import settings
from .exceptions import CallableFailed
from .identifiers import http_request
from .limiter import Limiter, results_of
from .outcomes import ANSWERS, Answering
from .responses import ablocked_response, add_headers, blocked_response

View = TypeVar("View", bound=Callable[..., Any])
Facts = Callable[..., Mapping[str, Any]] | Callable[..., Awaitable[Mapping[str, Any]]]
Cost = int | float | Callable[..., int | float] | Callable[..., Awaitable[int | float]]


def rate_limited(
    limiter: Limiter | str,
    *,
    identifier: Facts | None = None,
    cost: Cost = 1,
    methods: Iterable[str] | None = None,
) -> Callable[[View], View]:
    """Let a limiter decide about each request of a view: a function, sync or async, or by ``method_decorator`` a class.

    ``identifier(request, *args, **kwargs)`` returns facts that win over those of the request; ``cost`` is a number or a
    function of the same arguments; with an async view both may be async. Where one raises, the failure mode answers,
    unless Django makes an answer of it, as of Http404. ``methods`` are those that are checked, all by default; GET
    includes HEAD. Raises TypeError on a class, and at the first call when put straight on a method.
    """
    checkpoint = Checkpoint(limiter if isinstance(limiter, Limiter) else Limiter(limiter), identifier, cost, methods)

    def decorate(view: View) -> View:
        if isinstance(view, type) or not callable(view):
            raise TypeError(f"{checkpoint} takes a view function; for a class write {checkpoint.for_class}")
        wrap = _asynchronous if _is_async(view) else _synchronous
        return cast(View, functools.wraps(view)(wrap(checkpoint, view)))

    return decorate


class Checkpoint:
    """What one use of the decorator says: the limiter, and what to ask it about which requests."""

    def __init__(self, limiter: Limiter, identifier: Facts | None, cost: Cost, methods: Iterable[str] | None) -> None:
        if isinstance(methods, str):
            raise TypeError(f"methods must be a list such as [{methods!r}], not a text")
        self.limiter = limiter
        self.identifier = identifier
        self.cost = cost
        self.methods = None if methods is None else frozenset(method.upper() for method in methods)
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
                f"{self} got a {type(first).__name__} in place of the request: on a method write"
                f" @method_decorator({self}), for all methods of a class {self.for_class}"
            ) from None
        # Views may look at request.rate_limits whether or not anything was checked.
        results_of(http)
        return http

    def applies(self, request: HttpRequest) -> bool:
        """Whether this request is checked at all."""
        return settings.ENABLED and (self.methods is None or (request.method or "").upper() in self.methods)

    def question(self, request: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return what to ask the limiter; ``identifier`` and ``cost`` may still have to be awaited."""
        facts = None if self.identifier is None else self.identifier(request, *args, **kwargs)
        cost = self.cost(request, *args, **kwargs) if callable(self.cost) else self.cost
        return {"identifier": facts, "cost": cost, "kwargs": kwargs}

    def failure(self, error: Exception) -> CallableFailed:
        """Return what to fail with when the question could not be computed. Raises the error itself where it is an
        answer: an identifier may look up what the view is about, and find that there is none."""
        if isinstance(error, ANSWERS):
            raise error
        failure = CallableFailed.because(f"the identifier or cost of {self}", error)
        failure.__cause__ = error
        return failure


def _synchronous(checkpoint: Checkpoint, view: Callable[..., Any]) -> Callable[..., Any]:
    def limited(request: Any, /, *args: Any, **kwargs: Any) -> Any:
        http = checkpoint.request(request)
        if not checkpoint.applies(http):
            return view(request, *args, **kwargs)
        with Answering(http) as answering:
            try:
                question = checkpoint.question(request, args, kwargs)
            except Exception as error:  # noqa: BLE001 -- a project's function may raise anything
                result = checkpoint.limiter.fail_request(http, checkpoint.failure(error))
            else:
                result = checkpoint.limiter.check_request(http, **question)
            response = blocked_response(http, result) if result.blocked else view(request, *args, **kwargs)
            add_headers(http, response)
            answering.response = response
        return response

    return limited


def _asynchronous(checkpoint: Checkpoint, view: Callable[..., Any]) -> Callable[..., Any]:
    async def limited(request: Any, /, *args: Any, **kwargs: Any) -> Any:
        http = checkpoint.request(request)
        if not checkpoint.applies(http):
            return await view(request, *args, **kwargs)
        async with Answering(http) as answering:
            try:
                question = checkpoint.question(request, args, kwargs)
                for name in ("identifier", "cost"):
                    if isinstance(question[name], Awaitable):
                        question[name] = await question[name]
            except Exception as error:  # noqa: BLE001 -- a project's function may raise anything
                result = await checkpoint.limiter.afail_request(http, checkpoint.failure(error))
            else:
                result = await checkpoint.limiter.acheck_request(http, **question)
            response = await ablocked_response(http, result) if result.blocked else await view(request, *args, **kwargs)
            add_headers(http, response)
            answering.response = response
        return response

    return limited


def _is_async(view: Callable[..., Any]) -> bool:
    """Whether calling a view gives a coroutine. ``View.dispatch`` of a class with async handlers gives one too, though
    it is a plain function; ``method_decorator`` hands it over as a partial of the bound method."""
    while isinstance(view, functools.partial):
        view = view.func
    return iscoroutinefunction(view) or bool(getattr(getattr(view, "__self__", None), "view_is_async", False))
