"""The checkpoint in front of one view.

A view goes in, a view of the same colour (sync or async) with the same attributes comes out. It asks the limiter, lets
the view or the refusal answer, writes the headers and has the answer settled; how to decide and what to say it leaves
to others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from asgiref.sync import iscoroutinefunction

from .conf import settings
from .http.checkpoint import Cost, Facts, Question
from .http.responses import ablocked_response, add_headers, blocked_response
from .http.settling import Answering
from .legacy.views import (
    Legacy,
    abeside,
    beside,
    bound,
)
from .limiter import Limiter

View = TypeVar("View", bound=Callable[..., Any])


def rate_limited(
    limiter: Limiter | str,
    *,
    identifier: Facts | None = None,
    cost: Cost = 1,
    methods: Iterable[str] | None = None,
    legacy: Legacy | None = None,
) -> Callable[[View], View]:
    """Let a limiter decide about each request of a view: a function, sync or async, or by ``method_decorator`` a class.

    ``identifier(request, *args, **kwargs)`` returns facts that win over those of the request; ``cost`` is a number or a
    function of the same arguments; with an async view both may be async. Where one raises, the failure mode answers,
    unless Django makes an answer of it, as of Http404. ``methods`` are those that are checked, all by default; GET
    includes HEAD. ``legacy(request, *args, **kwargs)`` is the limiter that was there before, sync or async: it returns
    True to block, or its own refusal, and decides until the ruleset enforces (see :mod:`legacy`). Raises ValueError for
    methods that no request has; TypeError on a class, and at the first call when put straight on a method.
    """
    question = Question(limiter if isinstance(limiter, Limiter) else Limiter(limiter), identifier, cost, methods)

    def decorate(view: View) -> View:
        if isinstance(view, type) or not callable(view):
            raise TypeError(f"{question} takes a view function; for a class write {question.for_class}")
        wrap, move = (_asynchronous, abeside) if _is_async(view) else (_synchronous, beside)
        limited = wrap(question, view)
        if legacy is not None:
            limited = move(question, bound(legacy, view), view, limited)
        return cast(View, functools.wraps(view)(limited))

    return decorate


def _synchronous(question: Question, view: Callable[..., Any]) -> Callable[..., Any]:
    def limited(request: Any, /, *args: Any, **kwargs: Any) -> Any:
        http = question.request(request)
        if not settings.ENABLED or not question.concerns(http):
            return view(request, *args, **kwargs)
        with Answering(http) as answering:
            result = question.check(http, request, args, kwargs)
            response = blocked_response(http, result) if result.blocked else view(request, *args, **kwargs)
            answering.response = response
        # Only now: what the response charged lowers what its headers report.
        add_headers(http, response)
        return response

    return limited


def _asynchronous(question: Question, view: Callable[..., Any]) -> Callable[..., Any]:
    async def limited(request: Any, /, *args: Any, **kwargs: Any) -> Any:
        http = question.request(request)
        if not settings.ENABLED or not question.concerns(http):
            return await view(request, *args, **kwargs)
        async with Answering(http) as answering:
            result = await question.acheck(http, request, args, kwargs)
            response = await ablocked_response(http, result) if result.blocked else await view(request, *args, **kwargs)
            answering.response = response
        # Only now: what the response charged lowers what its headers report.
        add_headers(http, response)
        return response

    return limited


def _is_async(view: Callable[..., Any]) -> bool:
    """Whether calling a view gives a coroutine. ``View.dispatch`` of a class with async handlers gives one too, though
    it is a plain function; ``method_decorator`` hands it over as a partial of the bound method."""
    while isinstance(view, functools.partial):
        view = view.func
    return iscoroutinefunction(view) or bool(getattr(getattr(view, "__self__", None), "view_is_async", False))
