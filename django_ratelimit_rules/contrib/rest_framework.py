"""A throttle for Django REST framework.

A view names a limiter. The throttle asks it, and REST framework blocks with its own exception and renderers. The
response of a checked view gets the headers, and settles the rules by outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_lazy as _
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from ..engine import Mode, Result
from ..engine.calls import cost_of, values
from ..exceptions import CallableFailed
from ..http.responses import add_headers, status_of
from ..http.settling import ANSWERED_BY_DJANGO, settle
from ..identifiers import http_request
from ..identifiers.state import results_of
from ..limiter import Limiter, compare
from ..rulesets import limiter_names
from .credentials import facts_of


class TemporarilyUnavailable(APIException):  # type: ignore[misc]  # REST framework is untyped
    """A limiter failed closed. ``wait`` is the number of seconds that the client should wait, None if unknown."""

    status_code = 503
    default_detail = _("This service cannot take requests at the moment.")
    default_code = "temporarily_unavailable"

    def __init__(self, wait: float | None = None) -> None:
        # REST framework drops the fraction, and a client that comes that early would be blocked again.
        self.wait = None if wait is None else ceil(wait)
        super().__init__()


class RuleThrottle(BaseThrottle):  # type: ignore[misc]  # REST framework is untyped
    """Let the limiter decide that the view names as ``throttle_limiter``.

    Use :func:`rule_throttle` for views that cannot name a limiter, or have several. A subclass may set ``limiter`` and
    ``cost``, and add properties in :meth:`get_identifier`. ``legacy`` (or the view's ``throttle_legacy``) are the
    throttles of before. They decide until the ruleset enforces. REST framework asks all throttles of a view, also after
    one of them has blocked.
    """

    limiter: Limiter | str | None = None
    cost: int | float = 1
    legacy: Sequence[type[BaseThrottle]] = ()
    _result: Result | None = None
    _legacy_waits: list[float | None] | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Return whether the limiter lets the request pass. Raises TemporarilyUnavailable when it failed closed."""
        limiter = self.get_limiter(view)
        if limiter is None:
            return True
        waits = None if limiter.mode is Mode.ENFORCE else self._ask_legacy(request, view)
        result = self._check(limiter, request, view)
        if waits is None or (result.mode is Mode.ENFORCE and limiter.mode is Mode.ENFORCE):
            return not result.blocked
        self._legacy_waits = waits
        compare(result, bool(waits))
        return not waits

    def _check(self, limiter: Limiter, request: Request, view: APIView) -> Result:
        # Reading `auth` authenticates the request, unless the view has done so already. REST framework then stores its
        # user in Django's request, and the properties read it from there.
        known = facts_of(request.auth)
        http = http_request(request)
        try:
            extra = {**known, **self.get_identifier(request, view)}
            # Raises for values that no limiter accepts. This error of the project must not fail the request either.
            values(extra)
        except (APIException, *ANSWERED_BY_DJANGO):
            raise
        except Exception as error:  # noqa: BLE001 -- a project's method may raise anything
            self._result = limiter.fail_request(http, CallableFailed.because(f"the identifier of {self!r}", error))
        else:
            kwargs = getattr(view, "kwargs", None)
            self._result = limiter.check_request(http, cost=self.cost, identifier=extra, kwargs=kwargs)
        if isinstance(view, APIView):
            _follow(view, http)
        if self._result.blocked and status_of(self._result) == 503:
            raise TemporarilyUnavailable(self.wait())
        return self._result

    def _ask_legacy(self, request: Request, view: APIView) -> list[float | None] | None:
        """Return the waits of the legacy throttles that refuse, as REST framework asks for them: all, in order."""
        legacy = self.legacy or getattr(view, "throttle_legacy", ())
        if not legacy:
            return None
        throttles = [throttle() for throttle in legacy]
        return [throttle.wait() for throttle in throttles if not throttle.allow_request(request, view)]

    def wait(self) -> float | None:
        """Return the seconds until the request could pass, at least 1. Returns None if never, or if unknown."""
        if self._legacy_waits is not None:
            return max((wait for wait in self._legacy_waits if wait is not None), default=None)
        retry_after = self._result.retry_after if self._result else None
        return None if retry_after is None else max(1.0, retry_after)

    def get_limiter(self, view: APIView) -> Limiter | None:
        """Return the limiter of a view. Returns None for a view without one that the project's default throttles.

        Raises ImproperlyConfigured for a view that wants this throttle and names no limiter.
        """
        limiter = self.limiter or getattr(view, "throttle_limiter", None)
        if limiter is None:
            if type(self) in api_settings.DEFAULT_THROTTLE_CLASSES:
                return None
            raise ImproperlyConfigured(
                f"{type(view).__name__} is throttled by {type(self).__name__} but names no limiter: set"
                ' throttle_limiter = "…" on the class, or throttle the view by rule_throttle("…")'
            )
        return limiter if isinstance(limiter, Limiter) else Limiter(limiter)

    def get_identifier(self, request: Request, view: APIView) -> Mapping[str, Any]:
        """Return more properties, which override those of the request. For subclasses."""
        return {}


def rule_throttle(
    limiter: Limiter | str, *, cost: int | float = 1, legacy: Sequence[type[BaseThrottle]] = ()
) -> type[RuleThrottle]:
    """Return a throttle class for one limiter: for function views, actions, and views with several limiters."""
    named = limiter if isinstance(limiter, Limiter) else Limiter(limiter)
    return type(
        "RuleThrottle",
        (RuleThrottle,),
        {"limiter": named, "cost": cost_of(cost), "legacy": tuple(legacy), "__module__": __name__},
    )


def _limiter_of(view: Any) -> str | None:
    """Return the name that a class has as ``throttle_limiter``, if any. REST framework leaves both on the view
    function."""
    of_action = getattr(view, "initkwargs", {}).get("throttle_limiter")
    name = of_action or getattr(getattr(view, "cls", None), "throttle_limiter", None)
    return name if isinstance(name, str) else None


limiter_names.name_views_by(_limiter_of)


def _follow(view: APIView, request: HttpRequest) -> None:
    """Make this view add the headers to its response, and settle its results.

    This is done on the instance, which answers one request, so that a view needs only its throttle classes.
    """
    if "finalize_response" in vars(view):
        return
    finalize, raise_uncaught = view.finalize_response, view.raise_uncaught_exception

    def finalize_response(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response: HttpResponseBase = finalize(*args, **kwargs)
        settle(request, response)
        add_headers(request, response)
        if any(result.blocked for result in results_of(request).values()):
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    def raise_uncaught_exception(error: Exception) -> None:
        settle(request, error=error)
        raise_uncaught(error)

    view.finalize_response, view.raise_uncaught_exception = finalize_response, raise_uncaught_exception
