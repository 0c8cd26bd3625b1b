"""A master dies under load. The failure mode answers until its replica continues to count."""

from __future__ import annotations

import contextlib

import pytest

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.exceptions import CountersUnavailable
from django_ratelimit_rules.testing import override_ruleset
from tests.cluster.load import LIMIT, load, lose_the_master
from tests.servers import wait_until


@pytest.mark.parametrize(("colour", "mode"), [("sync", "closed"), ("async", "open")])
def test_no_call_is_lost_and_no_more_admitted_than_writes_were_lost(fragile_cluster, colour, mode):
    cluster = fragile_cluster
    master, replica = cluster.owner_of("{failover}"), cluster.replica_of("{failover}")
    lose_the_master(master, replica, lambda: cluster.owner_of("{failover}") is replica, colour, mode)


def test_a_hanging_master_is_given_up_and_counting_stays_exact_when_it_comes_back(fragile_cluster):
    cluster, limiter = fragile_cluster, Limiter("hanging")
    with override_ruleset("hanging", [Rule("all", limit=LIMIT, period=600)], failure_mode="closed"):
        master, replica = cluster.owner_of("{hanging}"), cluster.replica_of("{hanging}")
        before = sum(not limiter.check({}).blocked for _ in range(LIMIT // 10))
        wait_until(lambda: replica.offset() == master.offset(), what="the replica to be in sync")
        master.hang()
        with load("hanging", lambda _: {}, "async") as calls:
            wait_until(lambda: cluster.owner_of("{hanging}", beside=master) is replica, what="the replica to take over")
            wait_until(lambda: calls.admitted, what="the first command to the replica")
            master.resume()
            wait_until(lambda: before + calls.admitted >= LIMIT, 60, "the limit to be reached")
            wait_until(lambda: sum(result.blocked and not result.error for result in calls.results) > 20, what="blocks")
        assert before + calls.admitted == LIMIT
        # The first calls wait for a time-out, and the calls that try again after a pause.
        assert calls.slowest < 5


@pytest.fixture
def partly_covered(fragile_cluster):
    """Return a cluster whose other servers still answer while one master is down."""
    for node in fragile_cluster.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    yield fragile_cluster
    fragile_cluster.wait_until_well()
    for node in fragile_cluster.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "yes")


def test_a_dead_master_stops_no_limiter_of_the_others_and_is_left_alone(partly_covered):
    cluster = partly_covered
    rules = [Rule("all", limit=10**6, period=60)]
    names = [f"limiter{number}" for number in range(20)]
    dead = cluster.owner_of("{limiter0}")
    beside = [name for name in names if cluster.owner_of(f"{{{name}}}") is not dead]
    with contextlib.ExitStack() as rulesets:
        for name in names:
            rulesets.enter_context(override_ruleset(name, rules, failure_mode="closed"))
            assert not Limiter(name).check({}).error
        dead.kill()
        failed = 0
        while cluster.owner_of("{limiter0}") is dead:
            failed += Limiter("limiter0").check({}).error
            assert not any(Limiter(name).check({}).error for name in beside)
        assert failed > 20
        # Most calls are answered without a request to a server.
        assert current()._connect().topology.breaker(("127.0.0.1", dead.port)).is_open
        wait_until(lambda: not Limiter("limiter0").check({}).error, what="the first command to the promoted replica")


def test_shared_data_is_found_again_without_any_call(fragile_cluster):
    cluster = fragile_cluster
    current().announce()
    key = f"{current().namespace()}:revision"
    home, replica = cluster.owner_of(key), cluster.replica_of(key)
    replica.ask("READONLY")
    wait_until(lambda: replica.ask("GET", key), what="the announcement to reach the replica")
    home.kill()
    wait_until(lambda: cluster.owner_of(key) is replica, what="the replica to take over")

    def news() -> bool:
        try:
            return current().revision() is not None
        except CountersUnavailable:
            return False

    wait_until(news, what="the announcement")
