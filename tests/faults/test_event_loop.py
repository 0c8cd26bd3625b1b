"""What tasks of one event loop do to each other: slow answers, cancellations, and nothing that ever holds up the loop."""

from __future__ import annotations

import asyncio

import pytest

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.testing import override_ruleset

LIMIT = 50


@pytest.fixture
def limiter():
    with override_ruleset("looped", [Rule("all", limit=LIMIT, period=3600)], failure_mode="closed"):
        yield Limiter("looped")


async def test_an_answer_has_its_whole_time_out_however_long_nothing_was_asked(limiter, proxy, use):
    use(proxy.port, SOCKET_TIMEOUT=1)
    proxy.DELAY = 0.4
    assert not (await limiter.acheck({})).error
    # Quiet for most of a time-out; then one that takes a good part of one.
    await asyncio.sleep(0.8)
    with proxy.broken("late"):
        assert not (await limiter.acheck({})).error
