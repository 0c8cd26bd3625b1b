"""Work that is written once for blocking and for async code: a generator yields each call that may wait.

A generator goes in, and its return value comes out. A yielded :data:`Call` has a blocking and an async function for the
same work. :func:`run` makes the blocking calls, and :func:`arun` awaits the async calls. :func:`drive` and
:func:`adrive` do the same for generators that yield other values. Their caller makes the calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias, TypeVar

S = TypeVar("S")
T = TypeVar("T")

# The blocking function, the async function, and the arguments of both.
Call: TypeAlias = tuple[Callable[..., Any], Callable[..., Awaitable[Any]], tuple[Any, ...]]
Steps: TypeAlias = Generator[Call, Any, T]


def run(steps: Steps[T]) -> T:
    """Make the blocking calls of the steps, and return their result."""
    # This repeats drive(), because each check runs it, and one function call more for a step costs a percent.
    try:
        function, _, arguments = steps.send(None)
        while True:
            try:
                reply = function(*arguments)
            except BaseException as error:  # noqa: BLE001 -- the steps decide, also about an interrupt
                function, _, arguments = steps.throw(error)
            else:
                function, _, arguments = steps.send(reply)
    except StopIteration as end:
        result: T = end.value
        return result


async def arun(steps: Steps[T]) -> T:
    """Async version of :func:`run`."""
    return await adrive(steps, _wait)


def drive(steps: Generator[S, Any, T], take: Callable[[S], Any]) -> T:
    """Make each step by ``take``, and return the steps' result. The steps see the exceptions of ``take``."""
    try:
        step = next(steps)
        while True:
            try:
                reply = take(step)
            except BaseException as error:  # noqa: BLE001 -- the steps decide, also about an interrupt
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as end:
        result: T = end.value
        return result


async def adrive(steps: Generator[S, Any, T], take: Callable[[S], Awaitable[Any]]) -> T:
    """Async version of :func:`drive`."""
    try:
        step = next(steps)
        while True:
            try:
                reply = await take(step)
            except BaseException as error:  # noqa: BLE001 -- the steps decide, also about a cancellation
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as end:
        result: T = end.value
        return result


def _wait(call: Call) -> Awaitable[Any]:
    return call[1](*call[2])
