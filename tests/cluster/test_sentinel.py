"""A master under Sentinel dies under load: the failure mode answers until its replica counts on."""

from __future__ import annotations

import pytest

from django_ratelimit_rules import Rule
from django_ratelimit_rules.testing import override_ruleset
from tests.cluster.load import CALLERS, load
from tests.clusters import watched_master
from tests.servers import wait_until

LIMIT = 3000


@pytest.fixture
def watched(settings, tmp_path):
    """A master under Sentinel behind the default alias, configured as django-redis has it."""
    with watched_master(tmp_path) as watched:
        options = {
            "CLIENT_CLASS": "django_redis.client.SentinelClient",
            "SENTINELS": [("127.0.0.1", sentinel.port) for sentinel in watched.sentinels],
            "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
            "SOCKET_TIMEOUT": 1,
            "SOCKET_CONNECT_TIMEOUT": 1,
        }
        cache = {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://{watched.name}/0",
            "OPTIONS": options,
        }
        settings.CACHES = {"default": cache}
        yield watched


@pytest.mark.parametrize(("colour", "mode"), [("sync", "closed"), ("async", "open")])
def test_no_call_is_lost_and_no_more_admitted_than_writes_were_lost(watched, colour, mode):
    with override_ruleset("failover", [Rule("all", limit=LIMIT, period=600)], failure_mode=mode):
        master, replica = watched.servers
        with load("failover", lambda _: {}, colour) as calls:
            wait_until(lambda: calls.admitted > LIMIT // 10, what="calls")
            master.kill()
            wait_until(lambda: calls.failed, what="the failure to be felt")
            acknowledged = calls.admitted
            kept = replica.kept()
            wait_until(lambda: watched.master() is replica, what="the replica to take over")
            wait_until(lambda: calls.admitted >= LIMIT - CALLERS, 60, "the limit to be reached")
            wait_until(lambda: sum(result.blocked and not result.error for result in calls.results) > 20, what="blocks")
        lost = max(0, acknowledged - kept)
        assert LIMIT - CALLERS <= calls.admitted <= LIMIT + lost
        assert calls.slowest < 5
        answers = {(result.blocked, result.error) for result in calls.results}
        assert answers == {(False, False), (True, False), (mode == "closed", True)}
