"""Functions of a project, called from async code: async ones are awaited, sync ones run in a thread, as Django does.

A sync function may query the database, which Django refuses on an event loop. Each function is called once. The thread
sees the context variables of the task that waits for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a function of the project returns."""
    if iscoroutinefunction(function):
        return await function(*args, **kwargs)
    result = await sync_to_async(function)(*args, **kwargs)
    # Such as a lambda that calls an async function.
    return await result if isinstance(result, Awaitable) else result
