"""A view that moves over from a legacy limiter. The ruleset's mode chooses the limiter that is asked and decides.

The view, the legacy limiter, and the answer of this app alone go in. The view's answer comes out. With ``off``, and
while no tier has a rule or a mode, only the legacy limiter is asked. With ``dry_run`` both are asked and compared, and
the legacy limiter decides. With ``enforce`` only this app is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from ..conf import settings
from ..engine import Mode, Outcome, Result
from ..http.answering import Answer, answered, call_view, refuse
from ..http.checkpoint import Checkpoint
from ..limiter import compare
from ..runtime import threads
from ..runtime.steps import Steps
from .verdicts import Verdict, verdict_of

# Called like the view. It returns True to block, or blocks in its own way: see ``verdicts.verdict_of``. An adapter that
# needs the view, as its decorator did, has a method ``for_view(view)`` that returns such a function.
Legacy = Callable[..., object]
AnyView = Callable[..., Any]


def bound(legacy: Legacy, view: AnyView) -> Legacy:
    """Return the legacy limiter of this view."""
    bind = getattr(legacy, "for_view", None)
    return bind(view) if bind else legacy


def beside(checkpoint: Checkpoint, legacy: Legacy, view: AnyView, limited: Answer) -> Answer:
    """Return the answer: ``limited`` once the ruleset enforces, the legacy limiter until then."""

    def answer(http: HttpRequest, request: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Any]:
        enabled = settings.ENABLED
        mode = (yield from checkpoint.limiter.mode_when_enabled()) if enabled else Mode.OFF
        if mode is Mode.ENFORCE:
            return (yield from limited(http, request, args, kwargs))
        asked = enabled and checkpoint.concerns(http)
        return (yield from answered(http, decide(http, mode if not asked else None, request, args, kwargs)))

    def decide(
        http: HttpRequest, passed: Mode | None, request: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Steps[Any]:
        ask = partial(legacy, request, *args, **kwargs)
        # A synchronous limiter may block on its cache, so async callers run it in a thread.
        verdict = verdict_of((yield ask, partial(threads.call, legacy, request, *args, **kwargs), ()))
        if passed is None:
            ours = yield from checkpoint.checking(http, request, args, kwargs)
        else:
            # This app does not check this request, so it passes. That is compared as well.
            ours = Result(checkpoint.limiter.name, mode=passed)
        compare(ours, verdict.blocked)
        if not verdict.refuses:
            return (yield from call_view(view, request, args, kwargs))
        return _own_refusal(verdict) or (yield from refuse(http, _refused(checkpoint)))

    return answer


def _own_refusal(verdict: Verdict) -> HttpResponseBase | None:
    """Return the legacy limiter's own response. Returns None if it has none, and raises its exception if it has one."""
    if isinstance(verdict.refusal, Exception):
        raise verdict.refusal
    return verdict.refusal


def _refused(checkpoint: Checkpoint) -> Result:
    """Return a blocked result without a rule, because no rule of this app blocked."""
    return Result(checkpoint.limiter.name, action=Outcome.BLOCK, mode=Mode.OFF)
