"""The request that this thread or task is answering, for code without a request argument: log records and signals.

It knows no limits and loads no model, because a logging filter needs it before the apps are ready.
"""

from __future__ import annotations

from contextvars import ContextVar

from django.http import HttpRequest

_current: ContextVar[HttpRequest | None] = ContextVar("django_ratelimit_rules.request", default=None)


def current_request() -> HttpRequest | None:
    """Return the request that is being answered. Returns None outside of requests that this app has seen."""
    return _current.get()


def enter(request: HttpRequest | None) -> HttpRequest | None:
    """Make a request the current one. Return the previous one, which the caller enters again afterwards.

    A ContextVar's token would not work: Django moves contexts between threads, and another thread's token is rejected.
    """
    before = _current.get()
    _current.set(request)
    return before
