"""Behaviour that needs a real Redis: expiries, lost scripts, odd data, prefixes, and failures."""

from __future__ import annotations

import pytest
from redis.crc import key_slot

from django_ratelimit_rules.counters import Verb
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.counters.redis import RedisCounters
from django_ratelimit_rules.engine.algorithms import ALGORITHMS
from django_ratelimit_rules.engine.messages import Catalogue, translate
from django_ratelimit_rules.exceptions import CountersUnavailable
from tests.counters.conftest import make_hit
from tests.servers import free_port

EVERY_KIND = [
    *({"algorithm": name} for name in ALGORITHMS),
    {"count_distinct": "project", "member": "7"},
    {"ban_for": 5},
]
kinds = pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: next(iter(kind.values())))


@pytest.fixture
def counters() -> RedisCounters:
    return RedisCounters("default")


@kinds
def test_every_key_expires_no_later_than_needed_after_every_hit(counters, redis_client, keys, kind):
    # Report 8.
    hit = make_hit(limit=2, period=60, **kind)
    for _ in range(5):
        counters.hit([hit])
        longest = 120_000 if kind.get("algorithm") == "sliding_window" else 60_000
        assert all(0 < redis_client.pttl(key) <= longest for key in keys())


@kinds
def test_a_key_found_without_expiry_is_given_one(counters, redis_client, keys, kind):
    # Report 8.
    hit = make_hit(limit=2, period=60, **kind)
    for _ in range(3):
        counters.hit([hit])
    for key in keys():
        redis_client.persist(key)
    counters.hit([hit])
    assert keys()
    assert all(redis_client.pttl(key) > 0 for key in keys())


@kinds
@pytest.mark.parametrize("blocking", [{}, {"ban_for": 5}], ids=["window", "ban"])
def test_a_key_without_expiry_after_a_block_gets_one_and_is_not_counted(counters, redis_client, keys, kind, blocking):
    # Report 8.
    behind = make_hit(limit=2, period=60, **kind)
    used = counters.hit([behind])[0].used
    redis_client.persist(keys()[0])
    blocked = make_hit("blocking", limit=0, period=60, **blocking)
    counters.hit([blocked, behind], verb=Verb.PEEK)
    assert redis_client.pttl(counters.namespace() + behind.key) == -1
    assert len(counters.hit([blocked, behind])) == 1
    longest = 120_000 if kind.get("algorithm") == "sliding_window" else 60_000
    assert 0 < redis_client.pttl(counters.namespace() + behind.key) <= longest
    assert counters.hit([behind], verb=Verb.PEEK)[0].used == used


@pytest.mark.parametrize("value", ["", "gibberish", "-5", "nan", "inf", "1 2 3 4 5 6", b"\xff\xfe", "1e999"])
@kinds
def test_a_foreign_text_under_a_key_is_healed(counters, redis_client, kind, value):
    hit = make_hit(limit=2, **kind)
    redis_client.set(counters.namespace() + hit.key, value)
    assert [counters.hit([hit])[0].used for _ in range(2)] == ([1, 1] if hit.member else [1, 2])


@kinds
def test_a_foreign_type_under_a_key_is_healed(counters, redis_client, kind):
    hit = make_hit(limit=2, **kind)
    redis_client.rpush(counters.namespace() + hit.key, "a", "b")
    assert counters.hit([hit])[0].used == 1
    assert redis_client.pttl(counters.namespace() + hit.key) > 0


def test_a_lost_script_is_put_back_within_the_same_check_and_counted_once(counters, redis_client):
    # Report 20.
    redis_client.script_flush()
    hit = make_hit(limit=5)
    assert counters.hit([hit])[0].used == 1
    redis_client.script_flush()
    assert counters.hit([hit])[0].used == 2


def test_a_plain_counter_is_an_integer_to_redis(counters, redis_client):
    hit = make_hit(limit=5)
    counters.hit([hit])
    counters.hit([hit])
    assert redis_client.object("encoding", counters.namespace() + hit.key) == b"int"


def test_all_keys_of_a_chain_lie_in_one_cluster_slot(counters, keys):
    # Report 21.
    counters.hit([make_hit(name, value="a%7Db") for name in ("a", "b", "c")])
    assert len({key_slot(key.encode()) for key in keys()}) == 1


def test_another_key_prefix_or_version_never_meets_our_counters(settings):
    # Report 22.
    hit = make_hit(limit=1)
    assert not current().hit([hit])[0].exceeded
    for change in ({"KEY_PREFIX": "p2"}, {"VERSION": 7}):
        settings.CACHES = {"default": settings.CACHES["default"] | change}
        assert not current().hit([hit])[0].exceeded
        assert current().hit([hit])[0].exceeded


def test_a_key_function_of_the_project_is_called_each_time(settings, redis_client):
    settings.CACHES = {"default": settings.CACHES["default"] | {"KEY_FUNCTION": "tests.counters.test_redis.tenant_key"}}
    tenant[0] = "one"
    current().hit([make_hit()])
    tenant[0] = "two"
    current().hit([make_hit()])
    assert [key.split(b"|")[0] for key in sorted(redis_client.keys("*"))] == [b"one", b"two"]


tenant = [""]


def tenant_key(key, prefix, version):
    return f"{tenant[0]}|{key}"


def test_answers_are_read_with_decode_responses_on_the_alias(settings):
    options = settings.CACHES["default"]["OPTIONS"] | {"CONNECTION_POOL_KWARGS": {"decode_responses": True}}
    location = settings.CACHES["default"]["LOCATION"].replace("127.0.0.1", "localhost")
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": location, "OPTIONS": options}}
    hit = make_hit(limit=300)
    assert current().hit([hit], 0.5)[0].used == 0.5
    current().announce()
    assert isinstance(current().revision(), str)


def test_a_closed_port_is_counters_unavailable_and_then_left_alone(settings):
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"redis://127.0.0.1:{free_port()}/0"}}
    with pytest.raises(CountersUnavailable, match="failed"):
        current().hit([make_hit()])
    with pytest.raises(CountersUnavailable, match="is not used again") as raised:
        current().hit([make_hit()], verb=Verb.PEEK)
    assert 0 < raised.value.retry_after <= 0.1


def test_an_alias_that_is_not_django_redis_is_named(settings):
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    with pytest.raises(CountersUnavailable, match="not django-redis"):
        current().hit([make_hit()])


def test_the_reason_of_a_failure_can_be_translated_with_its_parts(settings):
    marks = Catalogue(lambda text: f"<{text}>", lambda one, many, number: f"<{many}>", str)
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    with pytest.raises(CountersUnavailable) as raised:
        current().hit([make_hit()])
    (message,) = raised.value.args
    assert translate(message, marks).startswith("<Cache alias 'default' is not django-redis.")

    factory = "django_ratelimit_rules.counters.transport.cluster.ClusterConnectionFactory"
    options = {"CONNECTION_FACTORY": factory}
    settings.CACHES = {
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/3",
            "OPTIONS": options,
        }
    }
    with pytest.raises(CountersUnavailable) as raised:
        current().hit([make_hit()])
    (message,) = raised.value.args
    assert translate(message, marks).count("<") == 3
    assert "<Redis Cluster has no databases" in translate(message, marks)
    assert "<" not in str(raised.value)


def test_clear_forgets_only_this_apps_keys(counters, redis_client):
    redis_client.set("foreign", 1)
    counters.hit([make_hit("a"), make_hit("b")])
    counters.announce()
    assert counters.clear("other") == 0
    assert counters.clear("test") == 2
    assert redis_client.exists("foreign")
    assert counters.revision()


def test_clear_with_an_empty_prefix_leaves_similar_keys(settings, counters, redis_client):
    settings.RATELIMIT_RULES_KEY_PREFIX = ""
    redis_client.set(":1:{other}x", 1)
    counters.hit([make_hit()])
    assert counters.clear() == 1
    assert redis_client.exists(":1:{other}x")


def test_every_key_of_this_app_expires(counters, redis_client):
    # Report 8: the announcement of a rule change too.
    counters.hit([make_hit()])
    counters.announce()
    assert all(redis_client.pttl(key) > 0 for key in redis_client.keys("*"))


@pytest.mark.parametrize("value", ["1.0", "5e0", "0x10", " 7 ", "9" * 17])
def test_a_value_that_redis_and_lua_read_differently_fails_no_check(counters, redis_client, value):
    chain = [make_hit("front", limit=50), make_hit("odd", limit=50)]
    redis_client.set(counters.namespace() + chain[1].key, value, px=50_000)
    for number in range(1, 4):
        assert counters.hit(chain)[0].count == number


def test_an_odd_key_is_no_reason_to_leave_redis_alone(counters, redis_client):
    redis_client.lpush(counters.namespace() + ":revision", "x")
    with pytest.raises(CountersUnavailable):
        counters.revision()
    assert counters.hit([make_hit()])[0].used == 1
    counters.announce()
    assert counters.revision()


def test_an_alias_that_is_not_there_is_named():
    with pytest.raises(CountersUnavailable, match="'nowhere'"):
        RedisCounters("nowhere").hit([make_hit()])


def test_a_key_function_that_raises_is_counters_unavailable(settings):
    settings.CACHES = {"default": settings.CACHES["default"] | {"KEY_FUNCTION": "tests.counters.test_redis.broken_key"}}
    with pytest.raises(CountersUnavailable, match="KEY_FUNCTION"):
        current().hit([make_hit()])


def broken_key(key, prefix, version):
    raise RuntimeError("no tenant")


def test_a_redis_that_forgot_its_counters_is_left_alone_no_longer(counters):
    counters.hit([make_hit()])
    counters.breaker.failed()
    with pytest.raises(CountersUnavailable):
        counters.hit([make_hit()])
    assert counters.clear() == 1
    assert counters.hit([make_hit()])[0].used == 1
