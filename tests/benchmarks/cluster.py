"""Redis Cluster, by hand: the cost of a check, each server's share of a limiter, and the time of a failover.

``python -m tests.benchmarks.cluster`` starts three masters with replicas and a single Redis, all on this machine.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django
from django.test import override_settings

ROUNDS, CALLS, USERS = 30, 200, 10_000
LIMIT = 10**9


def main() -> None:
    """Print the figures."""
    django.setup()
    from tests.cluster.conftest import alias
    from tests.clusters import redis_cluster
    from tests.servers import redis_server

    with tempfile.TemporaryDirectory() as folder, redis_server() as url, redis_cluster(Path(folder)) as cluster:
        alone = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": f"{url}/0"}
        with override_settings(CACHES={"default": alone, "cluster": alias(cluster)}):
            cost()
        with override_settings(CACHES={"default": alias(cluster)}):
            shares(cluster)
            failover(cluster)


def cost() -> None:
    """Compare the cost of two limits on a single server, on one master of the cluster, and through the cluster."""
    from django_ratelimit_rules.counters.redis import RedisCounters
    from django_ratelimit_rules.counters.transport.slots import slot_of
    from tests.counters.conftest import make_hit

    hits = [make_hit(name, limit=LIMIT) for name in ("a", "b")]
    alone, clustered, direct = (RedisCounters(name) for name in ("default", "cluster", "cluster"))
    clustered.hit(hits)
    cluster: Any = clustered._connect()
    direct._connections = cluster._to(cluster.topology.slots.owner(slot_of(hits[0].key)))
    stores = {"alone": alone, "on its master": direct, "by way of the cluster": clustered}
    times: dict[str, list[float]] = {name: [] for name in stores}
    for _ in range(ROUNDS):
        for name, store in stores.items():
            started = time.perf_counter()
            for _ in range(CALLS):
                store.hit(hits)
            times[name].append((time.perf_counter() - started) / CALLS * 1e6)
    said = ", ".join(f"{statistics.median(each):.0f} µs {name}" for name, each in times.items())
    print(f"counting two limits: {said};\n  medians of {ROUNDS} interleaved rounds of {CALLS} calls")


def shares(cluster: Any) -> None:
    """Count the keys of one limiter on each server."""
    from django_ratelimit_rules import Limiter, Rule
    from django_ratelimit_rules.testing import override_ruleset

    for partition_by in (None, "user"):
        cluster.flush()
        with override_ruleset(
            "huge", [Rule("r", characteristics=["user"], limit=5, period=60)], partition_by=partition_by
        ):
            for user in range(USERS):
                Limiter("huge").check({"user": user})
        found = [len(keys) / USERS for keys in cluster.keys().values()]
        print(f"partition_by {partition_by}: {', '.join(f'{share:.1%}' for share in found)} of {USERS:,} counters")


def failover(cluster: Any) -> None:
    """Kill a master under load, and print the effect on the calls."""
    from django_ratelimit_rules import Rule
    from django_ratelimit_rules.testing import override_ruleset
    from tests.cluster.load import load
    from tests.clusters import NODE_TIMEOUT
    from tests.servers import wait_until

    cluster.flush()
    cluster.promote_after(NODE_TIMEOUT)
    rules = [Rule("all", limit=LIMIT, period=600)]
    with override_ruleset("failover", rules), load("failover", lambda _: {}) as calls:
        master, replica = cluster.owner_of("{failover}"), cluster.replica_of("{failover}")
        wait_until(lambda: calls.admitted > 500)
        master.kill()
        killed = time.monotonic()
        wait_until(lambda: calls.failed)
        acknowledged, kept = calls.admitted, replica.kept()
        wait_until(lambda: cluster.owner_of("{failover}") is replica, 30)
        promoted = time.monotonic()
        wait_until(lambda: calls.admitted > acknowledged, 30)
        back = time.monotonic()
    print(f"failover, cluster-node-timeout {NODE_TIMEOUT} ms: promoted after {promoted - killed:.2f} s,")
    print(
        f"  asked again {max(0.0, back - promoted):.2f} s later; {acknowledged - kept} of {acknowledged} writes lost,"
    )
    print(f"  slowest call {calls.slowest * 1000:.0f} ms, {calls.failed} of {len(calls.results)} failed")


if __name__ == "__main__":
    main()
