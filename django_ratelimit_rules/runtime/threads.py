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
    result = await in_thread(function, *args, **kwargs)
    # A lambda that calls an async function returns an awaitable, for example.
    return await result if isinstance(result, Awaitable) else result


async def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of a sync function that runs in a thread. Raises RuntimeError if it raises StopIteration."""
    return await _in_thread(function, *args, **kwargs)


@sync_to_async
def _in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        # Before Python 3.12 a future rejects a StopIteration, and the task that waits for it would wait forever.
        raise RuntimeError(f"{function!r} raised StopIteration") from error
