"""The checkpoint before one view.

The decorator replaces a view by a view of the same kind (sync or async) with the same attributes. The new view asks
the limiter. The response is then the response of the view, or a blocked response.
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

    - ``identifier(request, *args, **kwargs)`` returns properties that override the properties of the request.
    - ``cost`` is a number or a function of the same arguments.
    - ``methods`` are the HTTP methods to check. All methods are checked by default. GET includes HEAD.
    - ``legacy(request, *args, **kwargs)`` is a legacy limiter, sync or async. It returns True to block, or a response
      of its own. It decides until the ruleset enforces (see :mod:`legacy`).

    With an async view, ``identifier`` and ``cost`` may be async. Sync functions then run in a thread. If a function
    raises, the failure mode answers. Exceptions that Django turns into a response, such as Http404, are raised.

    Raises ValueError for an unknown method, and TypeError for a class. A decorated method of a class raises TypeError
    at its first call.
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
    """Return whether a call of the view returns a coroutine.

    ``View.dispatch`` of a class with async handlers is a plain function that returns a coroutine. ``method_decorator``
    passes it as a partial of the bound method.
    """
    while isinstance(view, functools.partial):
        view = view.func
    return iscoroutinefunction(view) or bool(getattr(getattr(view, "__self__", None), "view_is_async", False))
