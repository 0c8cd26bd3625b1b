"""Two hundred concurrent checks on one event loop: throughput against ``redis.asyncio``, and the longest stall.

A stall is the delay of a task that wakes up every millisecond. Freeze imported objects first, as servers do before
they fork. Otherwise the longest stall of each contestant is a full garbage collection of all of Django's objects
(33 ms on the machine of the README).
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

from tests.benchmarks.contestants import FLOOR, OURS, ACall, Contestant
from tests.benchmarks.report import Row, multiples
from tests.benchmarks.timing import Samples, rounds

CONCURRENT = 200
CHECKS_EACH = 5
TICK = 0.001


def throughput(peers: Sequence[Contestant], seconds: float) -> list[Row]:
    """One row."""

    async def timed(call: ACall) -> float:
        started = time.perf_counter()
        await at_once(call)
        return (time.perf_counter() - started) / (CONCURRENT * CHECKS_EACH)

    times = asyncio.run(_rounds(peers, seconds, timed))
    floor = 1 / statistics.median(times[FLOOR.name].values())
    title, reference = f"{CONCURRENT} concurrent async checks, throughput", f"redis.asyncio {floor:,.0f}/s"
    return [Row(title, reference, "≥ 3.00", multiples(times, FLOOR.name, inverse=True), _samples(times))]


def stalls(peers: Sequence[Contestant], seconds: float) -> list[Row]:
    """One row: the longest stall of the event loop, and the median of the rounds' longest stalls."""
    found = asyncio.run(_rounds(peers, seconds, longest_stall))
    cells = {
        name: f"{max(each.values()) * 1000:.0f} ms ({statistics.median(each.values()) * 1000:.1f})"
        for name, each in found.items()
    }
    title, reference = "longest stall of the event loop (median of a round's)", f"EVALSHA {cells.pop(FLOOR.name)}"
    return [Row(title, reference, "≤ 20 ms", cells, _samples(found))]


async def _rounds(peers: Sequence[Contestant], seconds: float, measure: Callable[[ACall], Awaitable[float]]) -> Samples:
    calls = {one.name: one.acheck() for one in (FLOOR, OURS, *peers)}
    for call in calls.values():
        # Make one call first, because some contestants fail if two hundred tasks find no connection and no script.
        await call(0)
        await at_once(call)
    found: Samples = {name: {} for name in calls}
    gc.collect()
    gc.freeze()
    for number, taking_part in rounds([FLOOR.name, OURS.name], [one.name for one in peers], seconds):
        for name in taking_part:
            found[name][number] = await measure(calls[name])
    gc.unfreeze()
    return found


def _samples(found: Samples) -> str:
    return f"{len(found[OURS.name])} x {CONCURRENT * CHECKS_EACH}"


async def longest_stall(call: ACall) -> float:
    """Run two hundred tasks with a few checks each. Return the longest delay of the event loop."""
    worst, due = 0.0, time.perf_counter()

    async def watch() -> None:
        nonlocal worst, due
        while True:
            due = time.perf_counter() + TICK
            await asyncio.sleep(TICK)
            worst = max(worst, time.perf_counter() - due)

    watcher = asyncio.create_task(watch())
    await at_once(call)
    watcher.cancel()
    return max(worst, time.perf_counter() - due)


async def at_once(call: ACall) -> None:
    async def somebody(person: int) -> None:
        for _ in range(CHECKS_EACH):
            if not await call(person):
                raise AssertionError("blocked a call below the limit")

    await asyncio.gather(*[somebody(person) for person in range(CONCURRENT)])
