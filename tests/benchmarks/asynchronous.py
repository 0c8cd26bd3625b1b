"""Two hundred concurrent checks on one event loop: throughput against ``redis.asyncio``, and the longest stall.

A stall is how much later than due the loop came back to a task that wants to be woken every millisecond.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence

from tests.benchmarks.contestants import FLOOR, OURS, ACall, Contestant
from tests.benchmarks.report import Row, multiples
from tests.benchmarks.timing import Samples, rounds

CONCURRENT = 200
CHECKS_EACH = 5
TICK = 0.001


def asynchronous(peers: Sequence[Contestant], seconds: float) -> list[Row]:
    """Two rows: throughput, and the longest stall of the event loop."""
    return asyncio.run(_rows(peers, seconds))


async def _rows(peers: Sequence[Contestant], seconds: float) -> list[Row]:
    calls = {one.name: one.acheck() for one in (FLOOR, OURS, *peers)}
    times: Samples = {name: {} for name in calls}
    stalls: dict[str, float] = dict.fromkeys(calls, 0.0)
    for call in calls.values():
        # Alone first: not everybody survives it when two hundred tasks find no connection and no script.
        await call(0)
        await at_once(call)
    for number, taking_part in rounds([FLOOR.name, OURS.name], [one.name for one in peers], seconds):
        for name in taking_part:
            started = time.perf_counter()
            stall = await longest_stall(calls[name])
            times[name][number] = (time.perf_counter() - started) / (CONCURRENT * CHECKS_EACH)
            stalls[name] = max(stalls[name], stall)
    floor = 1 / statistics.median(times[FLOOR.name].values())
    samples = f"{len(times[OURS.name])} x {CONCURRENT * CHECKS_EACH}"
    cells = {name: f"{stall * 1000:.1f} ms" for name, stall in stalls.items()}
    reference = f"EVALSHA {cells.pop(FLOOR.name)}"
    return [
        Row(
            f"{CONCURRENT} concurrent async checks, throughput",
            f"redis.asyncio {floor:,.0f}/s",
            "≥ 3.00",
            multiples(times, FLOOR.name, inverse=True),
            samples,
        ),
        Row("longest stall of the event loop meanwhile", reference, "≤ 20 ms", cells, samples),
    ]


async def longest_stall(call: ACall) -> float:
    """Have two hundred tasks check a few times each; return by how much the event loop was late at most."""
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
                raise AssertionError("refused, though nobody reaches the limit")

    await asyncio.gather(*[somebody(person) for person in range(CONCURRENT)])
