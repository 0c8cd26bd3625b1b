"""One cluster for the run, and an alias that is configured as its users would configure it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clusters import Cluster, redis_cluster

FACTORY = "django_ratelimit_rules.counters.cluster.ClusterConnectionFactory"
OPTIONS = {"CONNECTION_FACTORY": FACTORY, "SOCKET_TIMEOUT": 1, "SOCKET_CONNECT_TIMEOUT": 1}


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory) -> Iterator[Cluster]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster, settings) -> Cluster:
    """The cluster, empty, behind the default alias."""
    running_cluster.flush()
    settings.CACHES = {"default": alias(running_cluster)}
    return running_cluster


@pytest.fixture
def fragile_cluster(cluster) -> Iterator[Cluster]:
    """The same for tests that break it: it is put together again after them."""
    yield cluster
    cluster.wait_until_well()


def alias(cluster: Cluster, who: str = "", **options: object) -> dict[str, object]:
    return {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": cluster.locations(who),
        "OPTIONS": OPTIONS | options,
    }
