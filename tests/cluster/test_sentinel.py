"""A master under Sentinel dies under load. The failure mode answers until its replica continues to count."""

from __future__ import annotations

import pytest

from tests.cluster.load import lose_the_master
from tests.clusters import watched_master


@pytest.fixture
def watched(settings, tmp_path):
    """Run a master under Sentinel for the default alias, with the configuration from the manual of django-redis."""
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
    master, replica = watched.servers
    lose_the_master(master, replica, lambda: watched.master() is replica, colour, mode)
