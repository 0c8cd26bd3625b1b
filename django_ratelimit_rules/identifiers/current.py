"""The request that this thread or task is answering, for those who are not handed it: log records and signals.

Knows nothing of limits and loads no model: a logging filter needs it before the apps are ready.
"""

from __future__ import annotations

from contextvars import ContextVar

from django.http import HttpRequest

_current: ContextVar[HttpRequest | None] = ContextVar("django_ratelimit_rules.request", default=None)


def current_request() -> HttpRequest | None:
    """Return the request being answered, None outside of any that met this app."""
    return _current.get()


def enter(request: HttpRequest | None) -> HttpRequest | None:
    """Make a request the current one; return the one before, to enter again afterwards.

    Not by a ContextVar's token: Django moves contexts between threads, where a token is refused.
    """
    before = _current.get()
    _current.set(request)
    return before
