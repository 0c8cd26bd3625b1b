"""Checks of allowed clients (with 1, 2 and 5 matching limits) and of blocked clients, against the bare EVALSHA."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from tests.benchmarks.contestants import FLOOR, NEVER_REACHED, OURS, Contestant
from tests.benchmarks.report import Row, multiples
from tests.benchmarks.timing import BATCH, PEOPLE, Samples, interleaved, rounds

TARGETS = {1: "≤ 1.00", 2: "≤ 1.05", 5: "≤ 1.15"}
# A flood comes from a few clients. With more clients, most refusals would be among a client's first, which are logged.
BLOCKED_PEOPLE = 20
FLOOD_PEOPLE, FLOOD_BATCH = 4, 1000
ASKING = "asking Redis"


def check(peers: Sequence[Contestant], seconds: float) -> list[Row]:
    """Rows of 1, 2 and 5 limits that no client reaches."""
    return [
        row(f"check, {number} limit{'s'[: number > 1]}", peers, seconds, number, NEVER_REACHED, TARGETS[number])
        for number in TARGETS
    ]


def blocked(peers: Sequence[Contestant], seconds: float) -> list[Row]:
    """A row of blocked clients."""
    return [row("check, blocked client", peers, seconds, 1, 1, "≤ 1.10")]


def flood(seconds: float) -> list[Row]:
    """A row of a flood of blocked calls from a few clients, with the denial cache and without it."""
    from django.test import override_settings

    call = OURS.check(1, 1)
    samples: Samples = {ASKING: {}, OURS.name: {}}
    for number, taking_part in rounds([ASKING, OURS.name], [], seconds):
        for name in taking_part:
            # Use long batches, because a changed setting resets all parts.
            with override_settings(RATELIMIT_RULES_DENIAL_CACHE=name != ASKING):
                for person in range(FLOOD_PEOPLE * 5):
                    call(person % FLOOD_PEOPLE)
                started = time.perf_counter()
                for person in range(FLOOD_BATCH):
                    call(person % FLOOD_PEOPLE)
                samples[name][number] = (time.perf_counter() - started) / FLOOD_BATCH
    asking = statistics.median(samples[ASKING].values())
    return [
        Row(
            f"a flood from {FLOOD_PEOPLE} blocked clients, denial cache",
            f"{ASKING} {asking * 1e6:.0f} µs",
            "≤ 0.10",
            multiples(samples, ASKING),
            f"{len(samples[OURS.name])} x {FLOOD_BATCH}",
        )
    ]


def row(title: str, peers: Sequence[Contestant], seconds: float, limits: int, limit: int, target: str) -> Row:
    people = PEOPLE if limit == NEVER_REACHED else BLOCKED_PEOPLE
    calls = {one.name: one.check(limits, limit) for one in (FLOOR, OURS, *peers)}
    for name, call in calls.items():
        # The second call at the latest must show the expected result.
        call(0)
        if name != FLOOR.name and bool(call(0)) is not (limit == NEVER_REACHED):
            raise AssertionError(f"{name} let a client pass, or refused one, wrongly: {title}")
    hosts = {one.name: calls.pop(one.name) for one in (FLOOR, OURS)}
    samples = interleaved(hosts, calls, seconds, people)
    floor = statistics.median(samples[FLOOR.name].values())
    return Row(
        title,
        f"EVALSHA {floor * 1e6:.0f} µs",
        target,
        multiples(samples, FLOOR.name),
        f"{len(samples[OURS.name])} x {BATCH}",
    )
