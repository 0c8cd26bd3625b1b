"""The checkpoint before one view.

A view goes in, a view of the same colour (sync or async) with the same attributes comes out. It asks the limiter and
lets the view or the refusal answer; how to decide, what to say and how to settle it leaves to others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest

from .conf import settings
from .http.answering import Answer, answered, call_view, refuse
from .http.checkpoint import Checkpoint, Cost, Extra
from .legacy.views import Legacy, beside, bound
from .limiter import Limiter
from .runtime.steps import Steps, arun, run

View = TypeVar("View", bound=Callable[..., Any])


def rate_limited(
    limiter: Limiter | str,
    *,
    identifier: Extra | None = None,
    cost: Cost = 1,
    methods: Iterable[str] | None = None,
    legacy: Legacy | None = None,
) -> Callable[[View], View]:
    """Let a limiter decide about each request of a view: a function, sync or async, or by ``method_decorator`` a class.

    ``identifier(request, *args, **kwargs)`` returns properties that win over the request's; ``cost`` is a number or a
    function of the same arguments. With an async view both may be async, and sync ones run in a thread. Where one
    raises, the failure mode answers, unless Django makes an answer of it, as of Http404. ``methods`` are those that are
    checked, all by default; GET includes HEAD. ``legacy(request, *args, **kwargs)`` is the limiter that was there
    before, sync or async: it returns True to block, or its own refusal, and decides until the ruleset enforces (see
    :mod:`legacy`). Raises ValueError for methods that no request has; TypeError on a class, and at the first call when
    put straight on a method.
    """
    checkpoint = Checkpoint(limiter if isinstance(limiter, Limiter) else Limiter(limiter), identifier, cost, methods)

    def decorate(view: View) -> View:
        if isinstance(view, type) or not callable(view):
            raise TypeError(f"{checkpoint} takes a view function; for a class write {checkpoint.for_class}")
        limited = _limited(checkpoint, view)
        if legacy is None:
            answer = _when_enabled(limited, view)
        else:
            answer = beside(checkpoint, bound(legacy, view), view, limited)
        wrap = _asynchronous if _is_async(view) else _synchronous
        return cast(View, functools.wraps(view)(wrap(checkpoint, answer)))

    return decorate


def _limited(checkpoint: Checkpoint, view: Callable[..., Any]) -> Answer:
    def decide(http: HttpRequest, request: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Any]:
        result = yield from checkpoint.checking(http, request, args, kwargs)
        return (yield from refuse(http, result) if result.blocked else call_view(view, request, args, kwargs))

    def answer(http: HttpRequest, request: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Any]:
        if checkpoint.concerns(http):
            return answered(http, decide(http, request, args, kwargs))
        return call_view(view, request, args, kwargs)

    return answer


def _when_enabled(limited: Answer, view: Callable[..., Any]) -> Answer:
    def answer(http: HttpRequest, request: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Any]:
        return limited(http, request, args, kwargs) if settings.ENABLED else call_view(view, request, args, kwargs)

    return answer


def _synchronous(checkpoint: Checkpoint, answer: Answer) -> Callable[..., Any]:
    def limited(request: Any, /, *args: Any, **kwargs: Any) -> Any:
        return run(answer(checkpoint.request(request), request, args, kwargs))

    return limited


def _asynchronous(checkpoint: Checkpoint, answer: Answer) -> Callable[..., Any]:
    async def limited(request: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await arun(answer(checkpoint.request(request), request, args, kwargs))

    return limited


def _is_async(view: Callable[..., Any]) -> bool:
    """Whether calling a view gives a coroutine. ``View.dispatch`` of a class with async handlers gives one too, though
    it is a plain function; ``method_decorator`` hands it over as a partial of the bound method."""
    while isinstance(view, functools.partial):
        view = view.func
    return iscoroutinefunction(view) or bool(getattr(getattr(view, "__self__", None), "view_is_async", False))
