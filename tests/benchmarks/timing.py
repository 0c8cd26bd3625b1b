"""Fair timing on a noisy machine: cores kept awake, rounds interleaved, ratios taken within a round.

Callables go in, seconds a call come out, by round. Every round times the hosts (the floor and this app) and one of the
guests (the peers, in turn, because some take ten times as long), in random order, for a small batch of calls each: what
the machine does meanwhile hits all alike. So read the ratios, not the microseconds.
"""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle

BATCH = 40
# Who is counted: enough that no history grows long, few enough that everybody has a counter before timing begins.
PEOPLE = 1000

Call = Callable[[int], object]
Samples = dict[str, dict[int, float]]


@contextlib.contextmanager
def cores_awake() -> Iterator[None]:
    """Keep every core busy with a process of the lowest priority.

    A check spends most of its time waiting for Redis. On an otherwise idle machine both cores fall asleep meanwhile,
    and what is timed is how long a (virtual) core takes to wake up: 30 to 100 µs, which draws all ratios towards 1. A
    site that has use for a rate limiter has no sleeping cores.
    """
    # They end by themselves when this process was killed and could not end them.
    code = f"import os\nos.nice(19)\nwhile os.getppid() == {os.getpid()}: sum(range(100_000))"
    spinners = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def rounds(hosts: Sequence[str], guests: Sequence[str], seconds: float) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each round and who takes part in it, until the time is over, in random order.

    Everybody takes part twice at least, however short the time is.
    """
    order = random.Random(1)
    turns = cycle([[guest] for guest in guests] or [[]])
    ends, number = time.monotonic() + seconds, 0
    while time.monotonic() < ends or number < 2 * max(1, len(guests)):
        taking_part = [*hosts, *next(turns)]
        order.shuffle(taking_part)
        yield number, taking_part
        number += 1


def interleaved(hosts: Mapping[str, Call], guests: Mapping[str, Call], seconds: float, people: int = PEOPLE) -> Samples:
    """Return seconds a call, of everybody by round. Each call is about the next of some people."""
    calls = {**hosts, **guests}
    for call in calls.values():
        for person in range(people):
            call(person)
    samples: Samples = {name: {} for name in calls}
    people_in_turn = cycle(range(people))
    for number, taking_part in rounds(list(hosts), list(guests), seconds):
        batch = [next(people_in_turn) for _ in range(BATCH)]
        for name in taking_part:
            call = calls[name]
            started = time.perf_counter()
            for person in batch:
                call(person)
            samples[name][number] = (time.perf_counter() - started) / BATCH
    return samples


def ratios(samples: Samples, name: str, floor: str) -> list[float]:
    """Return what somebody took, as multiples of what the floor took in the same round."""
    return [value / samples[floor][number] for number, value in samples[name].items()]


def tenth_percentile(values: list[float]) -> float:
    """Return the value that a tenth of the values are below: what a quieter machine would show."""
    return statistics.quantiles(values, n=10, method="inclusive")[0]
