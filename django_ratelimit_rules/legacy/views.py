"""A view that moves over from a legacy limiter: which of the two is asked, and which decides, is the ruleset's mode.

The view, the legacy limiter, and how our limiter alone would answer go in; how the view answers now comes out.
``off``, and as long as nobody has defined a rule or a mode: the legacy limiter alone. ``dry_run``: both, it decides,
and they are compared. ``enforce``: ours alone.
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

# Called as the view is; says True to block, or refuses in its own way: see comparing.verdict_of. An adapter that has to
# know the view, as the decorator did that it stands for, has a ``for_view(view)`` that returns such a function.
Legacy = Callable[..., object]
AnyView = Callable[..., Any]


def bound(legacy: Legacy, view: AnyView) -> Legacy:
    """Return the legacy limiter of this view."""
    bind = getattr(legacy, "for_view", None)
    return bind(view) if bind else legacy


def beside(checkpoint: Checkpoint, legacy: Legacy, view: AnyView, limited: Answer) -> Answer:
    """Return how to answer: by ``limited`` once the ruleset enforces, by the legacy limiter until then."""

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
        # A synchronous one may block on its cache: async callers have it run in a thread.
        verdict = verdict_of((yield ask, partial(threads.call, legacy, request, *args, **kwargs), ()))
        if passed is None:
            ours = yield from checkpoint.checking(http, request, args, kwargs)
        else:
            # Ours is not asked about this request: it would pass, and that is compared as well.
            ours = Result(checkpoint.limiter.name, mode=passed)
        compare(ours, verdict.blocked)
        if not verdict.refuses:
            return (yield from call_view(view, request, args, kwargs))
        return _own_refusal(verdict) or (yield from refuse(http, _refused(checkpoint)))

    return answer


def _own_refusal(verdict: Verdict) -> HttpResponseBase | None:
    """Return the legacy limiter's response, None where it has none of its own; raise where that is its way."""
    if isinstance(verdict.refusal, Exception):
        raise verdict.refusal
    return verdict.refusal


def _refused(checkpoint: Checkpoint) -> Result:
    """Return a refusal that names no rule: none of ours refused."""
    return Result(checkpoint.limiter.name, action=Outcome.BLOCK, mode=Mode.OFF)
