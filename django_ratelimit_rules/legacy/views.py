"""A view that moves over from a legacy limiter: which of the two is asked, and which decides, is the ruleset's mode.

The view, the legacy limiter, and the view as ours alone would limit it go in; a view of the same colour comes out.
``off``, and as long as nobody has defined a rule or a mode: the legacy limiter alone. ``dry_run``: both, it decides,
and they are compared. ``enforce``: ours alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http.response import HttpResponseBase

from ..engine import Mode, Outcome, Result
from ..http.checkpoint import Question
from ..http.responses import ablocked_response, add_headers, blocked_response
from ..http.settling import Answering
from ..limiter import compare
from .verdicts import Verdict, verdict_of

# Called as the view is; says True to block, or refuses in its own way: see comparing.verdict_of. An adapter that has to
# know the view, as the decorator did that it stands for, has a ``for_view(view)`` that returns such a function.
Legacy = Callable[..., object]
AnyView = Callable[..., Any]


def bound(legacy: Legacy, view: AnyView) -> Legacy:
    """Return the legacy limiter of this view."""
    bind = getattr(legacy, "for_view", None)
    return bind(view) if bind else legacy


def beside(question: Question, legacy: Legacy, view: AnyView, limited: AnyView) -> AnyView:
    """Return a synchronous view."""

    def moving(request: Any, /, *args: Any, **kwargs: Any) -> Any:
        http = question.request(request)
        mode = question.limiter.mode
        if mode is Mode.ENFORCE:
            return limited(request, *args, **kwargs)
        with Answering(http) as answering:
            verdict = verdict_of(legacy(request, *args, **kwargs))
            ours = question.check(http, request, args, kwargs) if question.concerns(http) else _passed(question, mode)
            compare(ours, verdict.blocked)
            if verdict.refuses:
                response = _own_refusal(verdict) or blocked_response(http, _refused(question))
            else:
                response = view(request, *args, **kwargs)
            answering.response = response
        # Only now: what the response charged lowers what its headers report.
        add_headers(http, response)
        return response

    return moving


def abeside(question: Question, legacy: Legacy, view: AnyView, limited: AnyView) -> AnyView:
    """Return an asynchronous view."""
    # A synchronous one may block on its cache.
    ask: Callable[..., Any] = legacy if iscoroutinefunction(legacy) else sync_to_async(legacy)

    async def moving(request: Any, /, *args: Any, **kwargs: Any) -> Any:
        http = question.request(request)
        mode = await question.limiter.amode()
        if mode is Mode.ENFORCE:
            return await limited(request, *args, **kwargs)
        async with Answering(http) as answering:
            verdict = verdict_of(await ask(request, *args, **kwargs))
            concerned = question.concerns(http)
            ours = await question.acheck(http, request, args, kwargs) if concerned else _passed(question, mode)
            compare(ours, verdict.blocked)
            if verdict.refuses:
                response = _own_refusal(verdict) or await ablocked_response(http, _refused(question))
            else:
                response = await view(request, *args, **kwargs)
            answering.response = response
        # Only now: what the response charged lowers what its headers report.
        add_headers(http, response)
        return response

    return moving


def _own_refusal(verdict: Verdict) -> HttpResponseBase | None:
    """Return the legacy limiter's response, None where it has none of its own; raise where that is its way."""
    if isinstance(verdict.refusal, Exception):
        raise verdict.refusal
    return verdict.refusal


def _passed(question: Question, mode: Mode) -> Result:
    """Return ours of a request whose method it is not asked about: it would pass, and that is compared as well."""
    return Result(question.limiter.name, mode=mode)


def _refused(question: Question) -> Result:
    """Return a refusal that names no rule: none of ours refused."""
    return Result(question.limiter.name, action=Outcome.BLOCK, mode=Mode.OFF)
