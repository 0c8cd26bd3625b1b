"""Memory per counter: the growth of Redis after one check of each of many users, with one limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.benchmarks.contestants import FLOOR, NEVER_REACHED, OURS, Contestant
from tests.benchmarks.report import Row
from tests.servers import wait_until


def memory(peers: Sequence[Contestant], people: int) -> list[Row]:
    """One row. The keys are a contestant's keys of users with numbers of seven digits."""
    sizes = {one.name: bytes_per_counter(one, people) for one in (FLOOR, OURS, *peers)}
    cells = {name: f"{size:.0f} B" for name, size in sizes.items()}
    reference = f"EVALSHA {cells.pop(FLOOR.name)}"
    return [Row("memory per counter", reference, "≤ 120 B", cells, f"1 x {people:,}")]


def bytes_per_counter(contestant: Contestant, people: int) -> float:
    from django_redis import get_redis_connection

    client = get_redis_connection("default")
    call = contestant.check(1, NEVER_REACHED)
    call(0)
    client.flushall()
    before = settled_memory(client)
    for person in range(people):
        call(person)
    return (settled_memory(client) - before) / people


def settled_memory(client: Any) -> int:
    """Return the memory of Redis after it has moved its keys into tables of the final size and freed the rest."""
    seen: list[int] = []

    def settled() -> bool:
        seen.append(client.info("memory")["used_memory"])
        return len(seen) > 50 and max(seen[-50:]) - min(seen[-50:]) < 10_000

    wait_until(settled, 30, "Redis to settle")
    return seen[-1]
