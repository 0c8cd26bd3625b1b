"""The checkpoint before all views: the limiters that ``RATELIMIT_RULES_MIDDLEWARE_LIMITERS`` names.

A request goes in after its URL is resolved, so that rules may use its route, view and arguments. A blocked request is
answered here. A view that raises RateLimited is answered here too. Every response gets the headers of all limiters that
the request met, including those of decorators, and settles their rules by outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from .conf import PREFIX, settings
from .exceptions import InvalidRule
from .http.answering import answered, refuse
from .http.responses import blocked_response
from .identifiers import RequestIdentifier
from .identifiers.state import results_of
from .limiter import Limiter, RateLimited
from .runtime.steps import Steps, arun, run

logger = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponseBase] | Callable[[HttpRequest], Awaitable[HttpResponseBase]]


class RateLimitMiddleware:
    """Check each request against the configured limiters, in their order. The first that blocks answers."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        self.process_view: Callable[..., Any] = _acheck_view if self.is_async else _check_view
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """Answer a request, or return the coroutine that does."""
        # Views may look at request.rate_limits whether or not anything was checked.
        results_of(request)
        steps = answered(request, self._answer(request))
        return arun(steps) if self.is_async else run(steps)

    def _answer(self, request: HttpRequest) -> Steps[HttpResponseBase]:
        response: HttpResponseBase = yield self.get_response, self.get_response, (request,)  # type: ignore[misc]
        if _not_found(request, response):
            response = (yield from _check(request)) or response
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        """Block a request whose view called :meth:`~Limiter.enforce` and did not catch RateLimited."""
        if not isinstance(error, RateLimited):
            return None
        results_of(request).setdefault(error.result.limiter, error.result)
        return blocked_response(request, error.result)


def _check_view(request: HttpRequest, view: object, args: object, kwargs: dict[str, Any]) -> HttpResponseBase | None:
    return run(_check(request, kwargs))


async def _acheck_view(
    request: HttpRequest, view: object, args: object, kwargs: dict[str, Any]
) -> HttpResponseBase | None:
    """Async version of :func:`_check_view`."""
    return await arun(_check(request, kwargs))


def _check(request: HttpRequest, kwargs: dict[str, Any] | None = None) -> Steps[HttpResponseBase | None]:
    """Return the response to a blocked request, or None if all limiters allow it."""
    for limiter in _limiters():
        result = yield from limiter.checking_request(RequestIdentifier(request, kwargs))
        if result.blocked:
            response: HttpResponseBase = yield from refuse(request, result)
            return response
    return None


def _limiters() -> list[Limiter]:
    named = (_limiter(str(name)) for name in settings.limiters_of_middleware) if settings.ENABLED else ()
    return [limiter for limiter in named if limiter is not None]


@cache
def _limiter(name: str) -> Limiter | None:
    """Return the limiter of a name. Returns None for an invalid name, because a mistake in the settings must not
    take a site down."""
    try:
        return Limiter(name)
    except InvalidRule as error:
        logger.error("%sMIDDLEWARE_LIMITERS: %s. Nothing is checked for it.", PREFIX, error.reason)
        return None


def _not_found(request: HttpRequest, response: HttpResponseBase) -> bool:
    """Whether no URL pattern matched, so that no view was checked. Clients that probe for paths are counted here."""
    return request.resolver_match is None and response.status_code == 404
