"""The connection factory: the site's cache and the counters reach a cluster through an ordinary django-redis alias."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django_redis.pool import ConnectionFactory
from redis.cluster import RedisCluster
from redis.exceptions import ConnectionError as RedisConnectionError

from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.exceptions import CountersUnavailable
from tests.cluster.conftest import FACTORY, alias
from tests.counters.conftest import make_hit
from tests.servers import free_port, redis_server


def test_the_sites_cache_works_through_the_alias(cluster):
    assert cache.set("one", {"a": 1}, 60)
    assert cache.get("one") == {"a": 1}
    assert cache.add("number", 1, 60)
    assert cache.incr("number", 4) == 5
    assert cache.decr("number") == 4
    assert 0 < cache.ttl("number") <= 60
    many = {f"key{number}": number for number in range(20)}
    cache.set_many(many)
    assert cache.get_many(many) == many
    assert cache.delete("one")
    assert cache.get("one") is None
    assert cache.delete_many(many) == 20
    assert sum(map(len, cluster.keys().values())) == 1
    cache.clear()
    assert not any(cluster.keys().values())


def test_the_factory_may_be_the_projects_and_the_location_one_text(cluster, settings):
    settings.DJANGO_REDIS_CONNECTION_FACTORY = FACTORY
    location = ",".join(cluster.locations())
    settings.CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": location}}
    cache.set("one", 1)
    assert cache.get("one") == 1
    assert current().hit([make_hit()])[0].used == 1


def test_one_server_of_the_location_that_answers_is_enough(cluster, settings):
    dead = [f"redis://127.0.0.1:{free_port()}/0" for _ in range(3)]
    settings.CACHES = {"default": alias(cluster) | {"LOCATION": [*dead, cluster.locations()[0]]}}
    with pytest.raises(CountersUnavailable):
        # One check tries at most three servers.
        current().hit([make_hit()])
    current().breaker.worked()
    assert current().hit([make_hit()])[0].used == 1
    cache.set("one", 1)
    assert cache.get("one") == 1


def test_no_answering_server_is_an_ordinary_failure_of_the_cache_and_of_the_counters(cluster, settings):
    nobody = alias(cluster) | {"LOCATION": f"redis://127.0.0.1:{free_port()}/0"}
    settings.CACHES = {"default": nobody}
    with pytest.raises(RedisConnectionError):
        cache.get("one")
    with pytest.raises(CountersUnavailable, match="failed"):
        current().hit([make_hit()])
    with pytest.raises(CountersUnavailable, match="is not used again"):
        current().hit([make_hit()])
    settings.CACHES = {"default": nobody | {"OPTIONS": nobody["OPTIONS"] | {"IGNORE_EXCEPTIONS": True}}}
    assert cache.get("one", "default") == "default"


def test_a_server_that_is_no_cluster_is_named(settings, cluster):
    with redis_server() as url:
        settings.CACHES = {"default": alias(cluster) | {"LOCATION": url}}
        with pytest.raises(CountersUnavailable, match="cluster support disabled"):
            current().hit([make_hit()])


@pytest.mark.parametrize("place", ["redis://127.0.0.1:6379/3", "unix:///run/redis.sock"])
def test_options_that_no_cluster_has_are_rejected(settings, cluster, place):
    settings.CACHES = {"default": alias(cluster) | {"LOCATION": place}}
    with pytest.raises(CountersUnavailable, match=r"databases|host and port"):
        current().hit([make_hit()])


class OtherFactory(ConnectionFactory):
    """A factory as projects wrote it before this app had one."""

    def connect(self, url):
        return RedisCluster.from_url(url)


def test_another_factory_for_clusters_is_named_with_the_one_to_use(cluster, settings):
    settings.CACHES = {"default": alias(cluster, CONNECTION_FACTORY=f"{__name__}.OtherFactory")}
    with pytest.raises(CountersUnavailable, match="ClusterConnectionFactory"):
        current().hit([make_hit()])


def test_a_restricted_user_with_its_password_reaches_all_servers(cluster, settings):
    rights = ["~site:1:rl*", "+eval", "+evalsha", "+@read", "+@write", "+@connection", "+cluster|slots"]
    for node in cluster.nodes:
        node.ask("ACL", "SETUSER", "app", "on", ">s3cret", *rights)
    settings.CACHES = {"default": alias(cluster, "app:s3cret@") | {"KEY_PREFIX": "site"}}
    try:
        for name in ("a", "b", "c", "d", "e", "f"):
            hit = make_hit()._replace(key=f"{{{name}}}abcde:")
            assert [current().hit([hit])[0].used for _ in range(2)] == [1, 2]
        assert len([keys for keys in cluster.keys().values() if keys]) > 1
    finally:
        for node in cluster.nodes:
            node.ask("ACL", "DELUSER", "app")


def test_shared_data_may_be_on_any_server_and_is_found(cluster):
    counters = current()
    names = [f"kept{number}" for number in range(20)]
    for name in names:
        counters.put(name, name.upper(), 60)
    assert [counters.fetch(name) for name in names] == [name.upper().encode() for name in names]
    counters.announce()
    assert counters.revision()
    sums = [f"sums{number}" for number in range(20)]
    counters.add({name: {"calls": 2, "blocked": 1} for name in sums}, 60)
    counters.add({name: {"calls": 3} for name in sums}, 60)
    assert counters.added(sums) == [{b"calls": b"5", b"blocked": b"1"}] * 20


def test_counters_of_all_servers_are_listed_and_forgotten(cluster):
    counters = current()
    hits = [make_hit()._replace(key=f"{{limiter{number}}}abcde:") for number in range(30)]
    for hit in hits:
        counters.hit([hit])
    counters.announce()
    assert len([keys for keys in cluster.keys().values() if keys]) == 3
    assert counters.keys("limiter7", 10) == (["{limiter7}abcde:"], True)
    assert counters.clear("limiter7") == 1
    assert counters.reset([hits[3].key]) == 1
    assert counters.clear() == 28
    assert counters.revision()
