"""Functions of a project, called from async code. Async functions are awaited. Sync functions run in a thread.

A sync function may query the database, and Django raises for queries on an event loop. Each function is called once.
The thread has the context variables of the task that waits for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of a function of the project."""
    if iscoroutinefunction(function):
        return await function(*args, **kwargs)
    result = await sync_to_async(function)(*args, **kwargs)
    # A lambda that calls an async function returns an awaitable, for example.
    return await result if isinstance(result, Awaitable) else result
