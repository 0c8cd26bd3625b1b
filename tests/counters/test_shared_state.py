"""Shared data other than counters, in Redis and in memory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from django_ratelimit_rules.counters.memory_store import MemoryStore
from django_ratelimit_rules.counters.redis import RedisCounters
from tests.counters.conftest import make_hit

NOW = int(time.time())


@dataclass
class Shared:
    """A store, and a way to let time pass for its data. In Redis, the time to live is shortened instead."""

    store: Any
    clock: list[float] | None
    redis: Any

    def pass_seconds(self, seconds: int) -> None:
        if self.clock is not None:
            self.clock[0] += seconds * 1000
            return
        for key in self.redis.keys("*"):
            left = self.redis.pttl(key) - seconds * 1000
            if left > 0:
                self.redis.pexpire(key, left)
            else:
                self.redis.delete(key)


@pytest.fixture(params=["redis", "memory"])
def shared(request, redis_client) -> Shared:
    if request.param == "redis":
        return Shared(RedisCounters("default"), None, redis_client)
    clock = [NOW * 1000.0]
    return Shared(MemoryStore(clock=lambda: clock[0]), clock, None)


async def test_a_string_is_kept_for_its_time(shared):
    store = shared.store
    assert store.fetch("a") is None
    store.put("a", "é", 60)
    await store.aput("b", "2", 600)
    assert (store.fetch("a"), store.fetch("b")) == ("é".encode(), b"2")
    shared.pass_seconds(61)
    assert (store.fetch("a"), store.fetch("b")) == (None, b"2")


def test_each_announcement_is_another_revision_for_a_minute(shared):
    store = shared.store
    assert store.revision() is None
    store.announce()
    first = store.revision()
    assert store.revision() == first
    store.announce()
    assert store.revision() not in (None, first)
    shared.pass_seconds(61)
    assert store.revision() is None


def test_numbers_add_up_until_their_time_is_over(shared):
    store = shared.store
    store.add({"x": {"a": 1, "b": 2}, "y": {"a": 5}}, 60)
    shared.pass_seconds(40)
    store.add({"x": {"a": 10}}, 60)
    assert store.added(["x", "none", "y"]) == [{b"a": b"11", b"b": b"2"}, {}, {b"a": b"5"}]
    shared.pass_seconds(40)
    assert store.added(["x", "y"]) == [{b"a": b"11", b"b": b"2"}, {}]


def test_members_of_sets_are_counted_since_a_time_and_the_latest_are_kept(shared):
    store = shared.store
    store.mark({"s": ["a", "b"]}, NOW - 100, 3600, 3)
    store.mark({"s": ["b", "c"], "t": ["z"]}, NOW, 3600, 3)
    assert store.marked(["s", "t", "none"], NOW - 3600) == [3, 1, 0]
    assert store.marked(["s"], NOW - 100) == [2]
    store.mark({"s": ["d", "e"]}, NOW + 1, 3600, 3)
    assert store.marked(["s"], NOW - 3600) == [3]
    assert store.marked(["s"], NOW) == [2]
    store.mark({"s": ["f"]}, NOW + 3601, 3600, 3)
    assert store.marked(["s"], 0) == [1]


def test_entries_come_back_in_their_order_and_no_more_than_the_bound(shared):
    store = shared.store
    assert list(store.logged("l")) == []
    store.log("l", ["one", "two"], 5000, 60)
    store.log("l", ["three"], 5000, 60)
    assert [entry for some in store.logged("l") for entry in some] == [b"one", b"two", b"three"]
    assert store.logged_size("l") == 3
    store.log("l", map(str, range(4500)), 5000, 60)
    chunks = list(store.logged("l"))
    assert max(map(len, chunks)) <= 2000
    assert sum(map(len, chunks)) == store.logged_size("l") == 4503
    shared.pass_seconds(61)
    assert store.logged_size("l") == 0


def test_counters_of_one_limiter_are_listed_looked_at_and_cleared(shared):
    store = shared.store
    hits = [make_hit(value=value) for value in "abc"]
    other = make_hit()._replace(key="{tests}abcde:1")
    for hit in [*hits, other]:
        store.hit([hit], 2)
    found, complete = store.keys("test", 10)
    assert (sorted(found), complete) == (sorted(hit.key for hit in hits), True)
    assert store.keys("test", 2)[1] is False
    assert {hit.key: tally.used for hit, tally in store.look(hits)} == {hit.key: 2 for hit in hits}
    # Other shared data is not listed as a counter.
    store.put("note", "x", 60)
    assert [store.clear("test"), store.clear("test"), store.clear()] == [3, 0, 1]
    assert store.fetch("note") == b"x"
