"""Tasks of one event loop with slow replies and cancellations. No check blocks the loop."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from django_ratelimit_rules import Limiter, Rule, rulesets
from django_ratelimit_rules.testing import override_ruleset

LIMIT = 50


@pytest.fixture
def limiter():
    with override_ruleset("looped", [Rule("all", limit=LIMIT, period=3600)], failure_mode="closed"):
        yield Limiter("looped")


async def test_a_reply_has_its_whole_time_out_after_any_pause(limiter, proxy, use):
    use(proxy.port, SOCKET_TIMEOUT=1)
    proxy.DELAY = 0.4
    assert not (await limiter.acheck({})).error
    # No check for most of a time-out, and then a check that takes a large part of a time-out.
    await asyncio.sleep(0.8)
    with proxy.broken("late"):
        assert not (await limiter.acheck({})).error


async def turns_until(done: asyncio.Future) -> int:
    """Return the number of turns of the loop until a task is done."""
    turns = 0
    while not done.done():
        turns += 1
        await asyncio.sleep(0)
    return turns


async def test_two_hundred_checks_of_a_redis_that_hangs_leave_the_loop_to_others(limiter, server, use):
    use(server.port)
    assert not (await limiter.acheck({})).error
    with server.frozen():
        checks = asyncio.gather(*[limiter.acheck({}) for _ in range(200)])
        assert await turns_until(checks) > 100
        assert all(result.error and result.blocked for result in await checks)


async def test_cancelled_checks_take_no_other_reply_and_are_counted_once_at_most(limiter, server, use):
    use(server.port, SOCKET_TIMEOUT=5)
    chosen = random.Random(1)
    tasks = [asyncio.create_task(limiter.acheck({})) for _ in range(300)]
    for _ in range(3):
        await asyncio.sleep(0)
        for task in chosen.sample(tasks, 50):
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    answered = [result for result in results if not isinstance(result, asyncio.CancelledError)]
    assert len(answered) < 300
    assert not any(result.error for result in answered)
    passed = [result.evaluations[0].used for result in answered if not result.blocked]
    assert len(set(passed)) == len(passed) <= LIMIT
    after = await limiter.apeek({})
    assert len(passed) <= after.evaluations[0].used <= LIMIT


async def test_a_cancelled_caller_does_not_wait_for_redis(limiter, server, use):
    use(server.port, SOCKET_TIMEOUT=30)
    assert not (await limiter.acheck({})).error
    with server.frozen():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(limiter.acheck({}), 0.05)
        waiting = asyncio.create_task(limiter.acheck({}))
        await asyncio.sleep(0)
    assert (await waiting).evaluations[0].used == 3


async def test_a_killed_connection_fails_only_its_own_checks(limiter, server, use):
    use(server.port, SOCKET_TIMEOUT=5)
    assert not (await limiter.acheck({})).error
    with server.frozen():
        checks = [asyncio.create_task(limiter.acheck({})) for _ in range(100)]
        await asyncio.sleep(0.05)
        # The server kills the connection as soon as it runs again, before or after its reply.
        killing = asyncio.create_task(asyncio.to_thread(server.client.client_kill_filter, skipme=True, _type="normal"))
        await asyncio.sleep(0.05)
    results = await asyncio.gather(*checks)
    await killing
    used = (await settled(limiter)).evaluations[0].used
    passed = [result for result in results if not result.blocked]
    assert len(passed) + 1 <= used <= LIMIT


async def settled(limiter: Limiter):
    """Check until the failure is over."""
    while (result := await limiter.apeek({})).error:
        await asyncio.sleep(0.01)
    return result


async def test_a_first_check_that_is_cancelled_while_rules_load_leaves_the_next_one_alone(limiter, server, use):
    use(server.port)
    rulesets.forget()
    first = asyncio.create_task(Limiter("unheard_of").acheck({}))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert not (await Limiter("unheard_of").acheck({})).matched
    assert (await limiter.acheck({})).matched


async def test_a_connection_that_signs_in_a_byte_at_a_time_is_given_up(limiter, proxy, use):
    use(proxy.port, SOCKET_TIMEOUT=0.5, SOCKET_CONNECT_TIMEOUT=0.5)
    with proxy.broken("trickle"):
        started = time.monotonic()
        assert (await limiter.acheck({})).error
        # A complete sign-in would take more than half a minute.
        assert time.monotonic() - started < 10
    assert not (await settled(limiter)).error
