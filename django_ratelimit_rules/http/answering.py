"""Runs the code that answers a request, then settles the response and adds the headers of all limiters.

The code is the rest of the middleware chain, or a decorated view.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from django.http import HttpRequest

from ..engine import Result
from ..runtime.steps import Steps
from .responses import ablocked_response, add_headers, blocked_response
from .settling import Settling

# The steps that answer Django's own request, from the request that the view got and the view's other arguments.
Answer: TypeAlias = Callable[[HttpRequest, object, tuple[Any, ...], dict[str, Any]], Steps[Any]]


def answered(request: HttpRequest, steps: Steps[Any]) -> Steps[Any]:
    """Return the steps that answer a request by others, settle the response and write its headers."""
    settling = Settling(request)
    settling.open()
    try:
        settling.response = response = yield from steps
    except BaseException as error:
        yield from settling.close(error)
        raise
    yield from settling.close()
    # Add the headers after settling, because a charge by the response lowers the remaining calls that they report.
    add_headers(request, response)
    return response


def call_view(view: Callable[..., Any], request: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Any]:
    """Return the steps that have a view answer. An async view takes async callers, a sync view blocking ones."""
    call = partial(view, request, *args, **kwargs)
    return (yield call, call, ())


def refuse(request: HttpRequest, result: Result) -> Steps[Any]:
    """Return the steps that answer a refused request."""
    return (yield blocked_response, ablocked_response, (request, result))
