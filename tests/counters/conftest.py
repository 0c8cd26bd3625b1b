"""A fixture for both stores, and hits without rules."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from django_ratelimit_rules.counters.memory import MemoryCounters
from django_ratelimit_rules.counters.redis import RedisCounters
from django_ratelimit_rules.engine import Hit, Rule
from django_ratelimit_rules.engine.keys import prefixes


@dataclass
class Store:
    """Counters, and a way to let time pass: really for Redis, and with a moved clock for memory."""

    counters: Any
    clock: list[float] | None

    def wait(self, seconds: float) -> None:
        if self.clock is None:
            time.sleep(seconds)
        else:
            self.clock[0] += seconds * 1000


@pytest.fixture(params=["redis", "memory"])
def store(request) -> Store:
    if request.param == "redis":
        return Store(RedisCounters("default"), None)
    clock = [1_700_000_000_000.0]
    return Store(MemoryCounters(clock=lambda: clock[0]), clock)


def make_hit(name: str = "r", value: str = "42", *, enforced: bool = True, member: str | None = None, **options) -> Hit:
    options = {"limit": 3, "period": 60, "characteristics": ["user"]} | options
    rule = Rule(name, **options)
    key = prefixes("test", [rule])[0] + value
    return Hit(rule, key, rule.limit, rule.period, enforced, rule.response is not None, member)


@pytest.fixture(autouse=True)
def _collect() -> Iterator[None]:
    """Collect garbage after each test, so that a resource left open fails this test and not a later one."""
    yield
    gc.collect()
