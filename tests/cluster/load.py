"""Continuous calls from threads, or from tasks of an event loop, while a test breaks or moves servers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.engine import Result
from django_ratelimit_rules.testing import override_ruleset
from tests.clusters import Node
from tests.servers import wait_until

CALLERS = 4
# The limit of calls in tests in which a server dies.
LIMIT = 3000
# Seconds between two calls of one caller.
PACE = 0.002

Identify = Callable[[int], dict[str, Any]]


class Load:
    """The results of the calls so far. ``raised`` should stay empty."""

    def __init__(self, limiter: str, identify: Identify) -> None:
        self.limiter = Limiter(limiter)
        self.identify = identify
        self.results: list[Result] = []
        self.slowest = 0.0
        self.raised: list[BaseException] = []
        self.ends = False

    @property
    def admitted(self) -> int:
        """Return the number of calls that the counters allowed, without calls that a failure mode answered."""
        return len([result for result in self.results if not result.blocked and not result.error])

    @property
    def failed(self) -> int:
        return len([result for result in self.results if result.error])

    def call(self, caller: int) -> None:
        """Call until the end, in a thread."""
        try:
            number = caller
            while not self.ends:
                started = time.monotonic()
                self._note(self.limiter.check(self.identify(number)), started)
                number += CALLERS
                time.sleep(PACE)
        except BaseException as error:
            self.raised.append(error)
            raise

    async def acall(self, caller: int) -> None:
        """Async version of `call`."""
        number = caller
        while not self.ends:
            started = time.monotonic()
            self._note(await self.limiter.acheck(self.identify(number)), started)
            number += CALLERS
            await asyncio.sleep(PACE)

    def call_from_a_loop(self) -> None:
        async def all_callers() -> None:
            await asyncio.gather(*map(self.acall, range(CALLERS)))

        try:
            asyncio.run(all_callers())
        except BaseException as error:
            self.raised.append(error)
            raise

    def _note(self, result: Result, started: float) -> None:
        self.slowest = max(self.slowest, time.monotonic() - started)
        self.results.append(result)


@contextmanager
def load(limiter: str, identify: Identify, colour: str = "sync") -> Iterator[Load]:
    """Call a limiter in the background during a block. No call may raise."""
    calls = Load(limiter, identify)
    if colour == "sync":
        threads = [threading.Thread(target=calls.call, args=(caller,)) for caller in range(CALLERS)]
    else:
        threads = [threading.Thread(target=calls.call_from_a_loop)]
    for thread in threads:
        thread.start()
    try:
        yield calls
    finally:
        calls.ends = True
        for thread in threads:
            thread.join()
    assert not calls.raised


def lose_the_master(master: Node, replica: Node, taken_over: Callable[[], bool], colour: str, mode: str) -> None:
    """Kill the master of the limiter ``failover`` under load, and check that its replica continues to count.

    No call is lost. Calls above the limit are allowed only for lost writes.
    """
    with (
        override_ruleset("failover", [Rule("all", limit=LIMIT, period=600)], failure_mode=mode),
        load("failover", lambda _: {}, colour) as calls,
    ):
        wait_until(lambda: calls.admitted > LIMIT // 10, what="calls")
        master.kill()
        wait_until(lambda: calls.failed, what="the first failed call")
        acknowledged = calls.admitted
        kept = replica.kept()
        wait_until(taken_over, what="the replica to take over")
        wait_until(lambda: calls.admitted >= LIMIT - CALLERS, 60, "the limit to be reached")
        wait_until(lambda: sum(result.blocked and not result.error for result in calls.results) > 20, what="blocks")
    lost = max(0, acknowledged - kept)
    assert LIMIT - CALLERS <= calls.admitted <= LIMIT + lost
    # No call waited longer than the time-outs of the alias.
    assert calls.slowest < 5
    answers = {(result.blocked, result.error) for result in calls.results}
    assert answers == {(False, False), (True, False), (mode == "closed", True)}
