"""One cluster for the run, and an alias with the configuration that users would write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clusters import NODE_TIMEOUT, PATIENCE, Cluster, redis_cluster

FACTORY = "django_ratelimit_rules.counters.transport.cluster.ClusterConnectionFactory"
OPTIONS = {"CONNECTION_FACTORY": FACTORY, "SOCKET_TIMEOUT": 5, "SOCKET_CONNECT_TIMEOUT": 5}


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory) -> Iterator[Cluster]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster, settings) -> Cluster:
    """Return the empty cluster, used by the default alias."""
    running_cluster.flush()
    settings.CACHES = {"default": alias(running_cluster)}
    return running_cluster


@pytest.fixture
def fragile_cluster(cluster, settings) -> Iterator[Cluster]:
    """Return the same for tests that break the cluster. Failures are noticed quickly, and the fixture repairs it."""
    settings.CACHES = {"default": alias(cluster, SOCKET_TIMEOUT=1, SOCKET_CONNECT_TIMEOUT=1)}
    cluster.promote_after(NODE_TIMEOUT)
    yield cluster
    cluster.wait_until_well()
    cluster.promote_after(PATIENCE)


def alias(cluster: Cluster, who: str = "", **options: object) -> dict[str, object]:
    return {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": cluster.locations(who),
        "OPTIONS": OPTIONS | options,
    }
