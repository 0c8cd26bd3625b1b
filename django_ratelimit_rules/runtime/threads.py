"""Synchronous functions called from async code: on the spot where they can be, in a thread where they must.

A function of a project that looks at ``request.user``, say, is refused the database by Django on an event loop; most
never look. Knows nothing of what is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation

P = ParamSpec("P")
T = TypeVar("T")


async def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns; it is begun again in a thread when :func:`wants_thread` of what it raised."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        if not wants_thread(error):
            raise
    return await sync_to_async(function)(*args, **kwargs)


def wants_thread(error: BaseException) -> bool:
    """Whether something failed, or was said to fail, only because it may not be done on an event loop."""
    return isinstance(error.__cause__ or error, SynchronousOnlyOperation)
