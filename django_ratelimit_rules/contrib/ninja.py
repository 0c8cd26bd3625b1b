"""A throttle for Django Ninja.

A limiter's name goes in. An object for ``throttle=`` of an API, a router or an operation comes out. Ninja blocks in its
own way, unless :func:`throttled` is its handler. Ninja does not show responses to a throttle, so the middleware writes
the headers of allowed requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from ninja.errors import Throttled
from ninja.throttling import BaseThrottle

from ..engine import Result
from ..engine.calls import cost_of, values
from ..exceptions import CallableFailed
from ..http.responses import add_headers, status_of
from ..http.settling import ANSWERED_BY_DJANGO
from ..identifiers.builtin import is_authenticated, is_staff
from ..identifiers.state import results_of
from ..limiter import Limiter
from .credentials import facts_of

Extra = Callable[[HttpRequest], Mapping[str, Any]]

# One throttle object serves all requests, and Ninja asks it about the wait in a second call.
_result: ContextVar[Result | None] = ContextVar("ratelimit_rules_ninja_result", default=None)


class RuleThrottle(BaseThrottle):
    """Let a limiter decide. ``identifier(request)`` returns properties that override those of the request.

    Ninja calls a throttle of an async operation on the event loop, which waits for the one Redis call. Wrap the
    operation in ``rate_limited`` by Ninja's ``decorate_view`` to await the call instead. Ninja asks all throttles of an
    operation, also after one of them has blocked.
    """

    def __init__(self, limiter: Limiter | str, *, cost: int | float = 1, identifier: Extra | None = None) -> None:
        self.limiter = limiter if isinstance(limiter, Limiter) else Limiter(limiter)
        self.cost = cost_of(cost)
        self.identifier = identifier

    def allow_request(self, request: HttpRequest) -> bool:
        """Return whether the limiter lets the request pass."""
        known = _facts_of(getattr(request, "auth", None))
        try:
            extra = {**known, **(self.identifier(request) if self.identifier else {})}
            # Raises for values that no limiter accepts. This error of the project must not fail the request either.
            values(extra)
        except ANSWERED_BY_DJANGO:
            raise
        except Exception as error:  # noqa: BLE001 -- a project's function may raise anything
            failure = CallableFailed.because(f"the identifier of the throttle for {self.limiter.name!r}", error)
            result = self.limiter.fail_request(request, failure)
        else:
            result = self.limiter.check_request(request, cost=self.cost, identifier=extra)
        _result.set(result)
        return not result.blocked

    def wait(self) -> float | None:
        """Return the seconds until the request could pass, at least 1. Returns None if it never could."""
        result = _result.get()
        return None if result is None or result.retry_after is None else max(1.0, result.retry_after)


def throttled(request: HttpRequest, error: Throttled | type[Throttled]) -> HttpResponse:
    """Answer as Ninja does, with the headers, and with 503 if the limiter fails closed.

    A handler for Ninja's Throttled.
    """
    status = max((status_of(result) for result in results_of(request).values() if result.blocked), default=429)
    detail = _("This service cannot take requests at the moment.") if status == 503 else str(error)
    response = JsonResponse({"detail": detail}, status=status)
    response["Cache-Control"] = "no-store"
    add_headers(request, response)
    return response


def _facts_of(auth: object) -> dict[str, Any]:
    """Return the properties of Ninja's authentication: the credential, and the user if it returned one."""
    facts = facts_of(auth)
    if isinstance(auth, AbstractBaseUser):
        # Ninja leaves request.user to Django, whose session a client with a token does not have.
        facts |= {"user": auth, "is_authenticated": is_authenticated(auth), "is_staff": is_staff(auth)}
    return facts
