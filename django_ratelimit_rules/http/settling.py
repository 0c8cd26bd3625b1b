"""Rules by outcome: the charge of a response, once for each request.

:class:`Settling` brackets the code that answers a request. Its response or exception goes to the rules with a
``response``. The outermost bracket of a request settles the results of all limiters that the request met. The limiters
know the rules and counters.
"""

from __future__ import annotations

from asyncio import CancelledError
from types import TracebackType

from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase

from ..engine import Result
from ..engine.properties import base_of
from ..identifiers.current import current_request, enter
from ..identifiers.state import has_state, state_of
from ..runtime.steps import Steps, run

# The status of Django's own response to an exception of a view.
_STATUSES: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
    ((Http404,), 404),
    ((PermissionDenied,), 403),
    ((BadRequest, MultiPartParserError, SuspiciousOperation), 400),
)
ANSWERED_BY_DJANGO = tuple(kind for kinds, _ in _STATUSES for kind in kinds)


class Settling:
    """A context manager around the code that answers a request. The code stores its response in ``response``.

    An exception counts as the status that Django gives it, mostly 500. A client that disconnects counts as 500 too,
    because otherwise a client that never waits for the response would be charged nothing.
    """

    __slots__ = ("_before", "_outermost", "_request", "response")

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._before: HttpRequest | None = None
        self._outermost = False
        self.response: object = None

    def open(self) -> None:
        """Make the request the current one."""
        state = state_of(self._request)
        self._outermost = state.settling is None
        if self._outermost:
            state.settling = self
        self._before = enter(self._request)

    def close(self, error: BaseException | None = None) -> Steps[None]:
        """Return the steps that settle by the response or exception, if this is the outermost Settling."""
        enter(self._before)
        if self._outermost:
            state_of(self._request).settling = None
            yield from _settle(self._request, self.response, error)

    def __enter__(self) -> Settling:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run(self.close(error))


def settle(request: HttpRequest, response: object = None, error: BaseException | None = None) -> None:
    """Settle the pending results of a request by its response or exception.

    Use this in frameworks that open no :class:`Settling`. Inside a Settling it does nothing, because the final
    response settles the request.
    """
    if state_of(request).settling is None:
        run(_settle(request, response, error))


def _settle(request: HttpRequest, response: object, error: BaseException | None) -> Steps[None]:
    unsettled = state_of(request).unsettled
    # Most requests meet no rule by outcome, and every answer passes here: so that is asked first.
    if not unsettled or not isinstance(error, (Exception, CancelledError, type(None))):
        return
    for limiter, result in unsettled:
        if result.pending:
            answer = {name: _fact(name, request, response, error) for name in _asked(result)}
            yield from limiter.settling(result, answer)
    unsettled.clear()


def _asked(result: Result) -> set[str]:
    """Return the properties of the response that the pending rules use."""
    matchers = (hit.rule.response_matcher for hit in result.pending)
    return {base_of(name) for matcher in matchers if matcher for name in matcher.properties}


def _fact(name: str, request: HttpRequest, response: object, error: BaseException | None) -> object:
    if name == "login":
        return state_of(request).login
    if error is not None:
        return status_of_error(error) if name == "status" else None
    if not isinstance(response, HttpResponseBase):
        return None
    if name == "status":
        return response.status_code
    family, _, header = name.partition(".")
    if name == "header.set-cookie":
        # Django keeps cookies apart from the other headers until the answer is sent.
        return response.cookies.output(header="", sep=",").strip() or None
    return response.headers.get(header) if family == "header" else None


def status_of_error(error: BaseException) -> int:
    """Return the status of the answer that Django gives when a view raises this."""
    return next((status for errors, status in _STATUSES if isinstance(error, errors)), 500)


def _note_success(request: object = None, **_: object) -> None:
    _note("ok", request)


def _note_failure(request: object = None, **_: object) -> None:
    _note("failed", request)


def _note(login: str, given: object) -> None:
    """Store the outcome of a sign-in in the state of its request. The last sign-in of a request counts.

    Falls back to the current request, because ``authenticate()`` may be called without one. Frameworks wrap theirs.
    """
    for request in (given, getattr(given, "_request", None), current_request()):
        if isinstance(request, HttpRequest) and has_state(request):
            state_of(request).login = login
            return


def connect() -> None:
    """Connect to Django's sign-in signals. The app config calls this once."""
    user_logged_in.connect(_note_success, dispatch_uid="django_ratelimit_rules.http.settling")
    user_login_failed.connect(_note_failure, dispatch_uid="django_ratelimit_rules.http.settling")
