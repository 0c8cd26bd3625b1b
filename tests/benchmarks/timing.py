"""Fair timing on a noisy machine: cores kept awake, rounds interleaved, ratios taken within a round.

The result is the seconds per call of each callable, by round. Each round times the hosts (the floor and this app) and
one guest, in random order, for a small batch of calls each. The guests are the peers. They take turns, because some
take ten times as long. Other work on the machine affects all alike, so read the ratios, not the microseconds.
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
# The number of counted persons. With fewer, histories grow long. With more, some have no counter before the timing.
PEOPLE = 1000

Call = Callable[[int], object]
Samples = dict[str, dict[int, float]]


@contextlib.contextmanager
def cores_awake() -> Iterator[None]:
    """Keep every core busy with a process of the lowest priority.

    A check spends most of its time waiting for Redis. On an idle machine both cores fall asleep during the wait. The
    timing would include the wake-up of a (virtual) core, which takes 30 to 100 µs and moves all ratios towards 1. A
    site that needs a rate limiter has no sleeping cores.
    """
    # The processes end by themselves if this process is killed.
    code = f"import os\nos.nice(19)\nwhile os.getppid() == {os.getpid()}: sum(range(100_000))"
    spinners = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def rounds(hosts: Sequence[str], guests: Sequence[str], seconds: float) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each round and its contestants in random order, until the time is over.

    Each contestant takes part at least twice, even in a short time.
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
    """Return the seconds per call of each contestant, by round. Each call is for the next person."""
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
    """Return a contestant's times as multiples of the floor's time in the same round."""
    return [value / samples[floor][number] for number, value in samples[name].items()]


def tenth_percentile(values: list[float]) -> float:
    """Return the 10th percentile of the values, which estimates a quieter machine."""
    return statistics.quantiles(values, n=10, method="inclusive")[0]
