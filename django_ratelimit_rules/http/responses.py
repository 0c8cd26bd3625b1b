"""Responses: the response to a blocked request, and the headers of every response.

A request and its results go in. A response comes out, or gets its headers. Nothing is counted or decided here. Texts
are in the active language. Headers never are.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Any, Protocol

from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template import TemplateDoesNotExist, loader
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from ..conf import settings
from ..engine import Outcome, Result
from ..engine.durations import spell_wait
from ..runtime import log_sampling
from ..runtime.language import localized
from .headers import (
    Results,
    policies_of,
    seconds,
    write_headers,
)
from .settling import ANSWERED_BY_DJANGO

logger = logging.getLogger(__name__)

PROBLEMS = "https://iana.org/assignments/http-problem-types#"
DECISION = "RateLimit-Decision"
PROBLEM_JSON, JSON, HTML, TEXT = "application/problem+json", "application/json", "text/html", "text/plain"


class BlockedView(Protocol):
    """The view that ``RATELIMIT_RULES_BLOCKED_VIEW`` names. It may be async."""

    def __call__(self, request: HttpRequest, result: Result) -> Any:
        """Return the response to a blocked request."""


def blocked_response(request: HttpRequest, result: Result) -> HttpResponseBase:
    """Return the response to a blocked request: the project's own view, else problem+json, HTML or text by ``Accept``.

    A line of text answers if the project's view or template fails. It may need the Redis that is down.
    """
    try:
        view = _blocked_view()
        if view is None:
            return _finish(_plain_answer(request, result), result)
        answer = async_to_sync(view)(request, result) if iscoroutinefunction(view) else view(request, result)
        return _finish(answer, result)
    except Exception as error:  # noqa: BLE001 -- a project's view or template may raise anything
        return _instead(error, result)


async def ablocked_response(request: HttpRequest, result: Result) -> HttpResponseBase:
    """Async version of :func:`blocked_response`. A project's synchronous view or template runs in a thread."""
    try:
        view = _blocked_view()
        if view is not None and iscoroutinefunction(view):
            return _finish(await view(request, result), result)
    except Exception as error:  # noqa: BLE001 -- a project's view or template may raise anything
        return _instead(error, result)
    if view is None and preferred_type(request) != HTML:
        return blocked_response(request, result)
    return await sync_to_async(blocked_response)(request, result)


def _instead(error: Exception, result: Result) -> HttpResponseBase:
    """Return a line of text instead of a response that failed. Raises the error if Django answers it."""
    if isinstance(error, ANSWERED_BY_DJANGO):
        raise error
    if log_sampling.due("responses.blocked"):
        logger.error("The project's response to a blocked request failed. A line of text answers", exc_info=error)
    return _finish(_text_answer(result), result)


def add_headers(request: HttpRequest, response: HttpResponseBase) -> None:
    """Write the headers of all limiters that this request has met so far. A second call overwrites the first."""
    results: Results = getattr(request, "rate_limits", {})
    if results and isinstance(response, HttpResponseBase):
        write_headers(results, response)
        for result in results.values() if settings.HEADERS != "off" else ():
            if result.decision:
                response.headers[DECISION] = result.decision
                break


def status_of(result: Result) -> int:
    """Return 503 for a limiter that failed closed, 429 for a limit reached."""
    return 503 if result.error and not result.evaluations else 429


def preferred_type(request: HttpRequest) -> str:
    """Return the media type that a client names in ``Accept``. Returns text for ``*/*`` and for no type."""
    preferred = request.get_preferred_type([PROBLEM_JSON, JSON, HTML, TEXT])
    accepted = request.accepted_type(preferred) if preferred else None
    # Early releases of 5.2 and 6.0 offer types with quality 0, which the client does not accept.
    if preferred is None or accepted is None or not accepted.quality or accepted.main_type == "*":
        return TEXT
    return PROBLEM_JSON if preferred == JSON else preferred


def _blocked_view() -> BlockedView | None:
    path = settings.BLOCKED_VIEW
    view: BlockedView | None = import_string(path) if path else None
    return view


def _finish(response: HttpResponseBase, result: Result) -> HttpResponseBase:
    """Add the headers of every blocked response, unless the project's own view has set them."""
    response.headers.setdefault("Cache-Control", "no-store")
    if result.retry_after is not None:
        response.headers.setdefault("Retry-After", f"{_wait(result.retry_after)}")
    return response


def _wait(retry_after: float) -> int:
    return max(1, seconds(retry_after))


def _plain_answer(request: HttpRequest, result: Result) -> HttpResponse:
    status, kind = status_of(result), preferred_type(request)
    if kind == PROBLEM_JSON:
        return HttpResponse(json.dumps(_problem(request, result)), status=status, content_type=PROBLEM_JSON)
    if kind == HTML:
        with suppress(TemplateDoesNotExist):
            template = loader.select_template([f"{status}.html", "django_ratelimit_rules/429.html"])
            return HttpResponse(template.render({**_words(result), "result": result}, request), status=status)
    return _text_answer(result)


def _text_answer(result: Result) -> HttpResponse:
    words = _words(result)
    text = " ".join(filter(None, (words["explanation"], words["advice"], words["reference"])))
    return HttpResponse(text + "\n", status=status_of(result), content_type="text/plain; charset=utf-8")


def _problem(request: HttpRequest, result: Result) -> dict[str, object]:
    """Return a problem as draft-ietf-httpapi-ratelimit-headers registers it, with the names of violated policies."""
    status = status_of(result)
    results: Results = getattr(request, "rate_limits", {})
    policies = policies_of({**results, result.limiter: result})
    violated = [
        name
        for name, evaluation, limiter in policies
        if limiter == result.limiter and evaluation.result is Outcome.BLOCK
    ]
    return {
        "type": PROBLEMS + ("temporary-reduced-capacity" if status == 503 else "quota-exceeded"),
        "title": _words(result)["title"],
        "status": status,
        "violated-policies": violated or ([result.rule] if result.rule else []),
        **({"decision": result.decision} if result.decision else {}),
    }


def _words(result: Result) -> dict[str, str]:
    """Return the texts for people: title, explanation, advice, and the reference for the site's operators."""
    if status_of(result) == 503:
        title, explanation = _("Service unavailable"), _("This service cannot take requests at the moment.")
    else:
        title, explanation = _("Too many requests"), _("You have sent too many requests.")
    advice = reference = ""
    if result.retry_after is not None:
        wait = localized(spell_wait(_wait(result.retry_after)))
        advice = _("Please try again in %(wait)s.") % {"wait": wait}
    if result.decision:
        reference = _("Reference: %(id)s") % {"id": result.decision}
    return {"title": title, "explanation": explanation, "advice": advice, "reference": reference}
