"""Each way from an alias to its Redis, sync and async: sockets, credentials, TLS, Sentinel, forks, many loops."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import django_redis
import pytest
import redis

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.counters.redis import RedisCounters
from django_ratelimit_rules.exceptions import CountersUnavailable
from django_ratelimit_rules.testing import override_ruleset
from tests.counters.conftest import make_hit
from tests.servers import free_port, redis_binary, redis_server, wait_until

BACKEND = {"BACKEND": "django_redis.cache.RedisCache"}


def count_in_both_colours(settings, **cache) -> list[int]:
    """Count twice on an alias, once in sync and once in async code. Return the counter's values."""
    settings.CACHES = {"default": BACKEND | cache}
    hit = make_hit(limit=9)
    first = current().hit([hit])[0].used
    return [first, asyncio.run(current().ahit([hit]))[0].used]


def test_a_unix_socket(settings, tmp_path):
    path = tmp_path / "redis.sock"
    with redis_server(None, "--unixsocket", str(path)):
        assert count_in_both_colours(settings, LOCATION=f"unix://{path}?db=1") == [1, 2]


@pytest.mark.parametrize("way", ["options", "url"])
def test_a_user_restricted_to_the_prefix_with_its_password(settings, way):
    if way == "options" and django_redis.VERSION < (7,):
        pytest.skip("django-redis supports USERNAME since version 7. Earlier versions take the user from the URL.")
    acl = ["user", "app", "on", ">s3cret:@/", "~site:1:rl*", "+eval", "+evalsha", "+@read", "+@write", "+@connection"]
    with redis_server(None, *["--user", *acl[1:]]) as url:
        options = {"USERNAME": "app", "PASSWORD": "s3cret:@/"} if way == "options" else {}
        url = url if way == "options" else url.replace("//", "//app:s3cret%3A%40%2F@")
        assert count_in_both_colours(settings, LOCATION=f"{url}/0", OPTIONS=options, KEY_PREFIX="site") == [1, 2]
        current().announce()
        assert current().revision()
        settings.CACHES = {"default": settings.CACHES["default"] | {"KEY_PREFIX": "elsewhere"}}
        with pytest.raises(CountersUnavailable, match=r"(?i)permission"):
            current().hit([make_hit()])


def test_a_password_that_is_wrong_is_counters_unavailable(settings):
    with redis_server(None, "--requirepass", "right") as url:
        settings.CACHES = {"default": BACKEND | {"LOCATION": f"{url}/0", "OPTIONS": {"PASSWORD": "wrong"}}}
        with pytest.raises(CountersUnavailable):
            current().hit([make_hit()])
        with pytest.raises(CountersUnavailable):
            asyncio.run(RedisCounters("default").ahit([make_hit()]))


@pytest.fixture
def certificate(tmp_path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, so no certificate can be made")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")),
        ],
        check=True,
        capture_output=True,
    )
    return tmp_path / "cert.pem"


def test_tls_with_a_certificate_that_is_checked(settings, certificate):
    port = free_port()
    files = ["--tls-cert-file", str(certificate), "--tls-key-file", str(certificate.with_name("key.pem"))]
    options = ["--tls-port", str(port), *files, "--tls-ca-cert-file", str(certificate), "--tls-auth-clients", "no"]
    probe = subprocess.Popen([redis_binary(), "--port", "0", *options], stdout=subprocess.PIPE, text=True)
    try:
        probe.wait(2)
        pytest.skip("this server was built without TLS: " + probe.communicate()[0][-200:])
    except subprocess.TimeoutExpired:
        probe.kill()
        probe.communicate()
    with redis_server(None, *options):
        options = {"CONNECTION_POOL_KWARGS": {"ssl_ca_certs": str(certificate), "ssl_cert_reqs": "required"}}
        location = f"rediss://localhost:{port}/0"
        assert count_in_both_colours(settings, LOCATION=location, OPTIONS=options) == [1, 2]


@pytest.fixture
def sentinel(tmp_path) -> Iterator[int]:
    """Run a master under a Sentinel, and yield the Sentinel's port."""
    port = free_port()
    with redis_server() as url:
        master = url.rsplit(":", 1)[1]
        config = tmp_path / "sentinel.conf"
        config.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor primary 127.0.0.1 {master} 1\n")
        process = subprocess.Popen(
            [redis_binary(), str(config), "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            client = redis.Redis(port=port)

            def knows() -> bool:
                try:
                    return client.sentinel_get_master_addr_by_name("primary") is not None
                except redis.ConnectionError:
                    return False

            wait_until(knows, what="the Sentinel")
            client.close()
            yield port
        finally:
            process.kill()
            process.wait()


def test_a_master_found_through_sentinel(settings, sentinel):
    settings.DJANGO_REDIS_CONNECTION_FACTORY = "django_redis.pool.SentinelConnectionFactory"
    options = {"CLIENT_CLASS": "django_redis.client.SentinelClient", "SENTINELS": [("127.0.0.1", sentinel)]}
    assert count_in_both_colours(settings, LOCATION="redis://primary/0", OPTIONS=options) == [1, 2]


def test_serializers_and_compressors_of_the_alias_do_not_touch_counters(settings):
    options = {
        "SERIALIZER": "django_redis.serializers.json.JSONSerializer",
        "COMPRESSOR": "django_redis.compressors.zlib.ZlibCompressor",
    }
    location = settings.CACHES["default"]["LOCATION"]
    assert count_in_both_colours(settings, LOCATION=location, OPTIONS=options) == [1, 2]


def test_one_process_may_run_many_loops_one_after_the_other_and_side_by_side():
    hit = make_hit(limit=99)
    counters = RedisCounters("default")

    async def ten() -> None:
        await asyncio.gather(*[counters.ahit([hit]) for _ in range(10)])

    asyncio.run(ten())
    asyncio.run(ten())
    threads = [threading.Thread(target=asyncio.run, args=(ten(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.hit([hit])[0].used == 51


def test_connections_of_a_loop_are_closed_with_it(redis_client):
    counters = RedisCounters("default")

    async def some() -> set[str]:
        await asyncio.gather(*[counters.ahit([make_hit()]) for _ in range(5)])
        pipelines = await counters._aconnect()
        host, port = pipelines._current._transport.get_extra_info("sockname")
        return {f"{host}:{port}"}

    def connected() -> set[str]:
        return {client["addr"] for client in redis_client.client_list()}

    ours = asyncio.run(some())
    assert ours
    wait_until(lambda: not ours & connected(), what="the connections to close")


async def test_many_checks_of_one_loop_turn_are_all_answered():
    # Report 11.
    with override_ruleset("many", [Rule("r", limit=10, period=60)]):
        results = await asyncio.gather(*[Limiter("many").acheck({}) for _ in range(250)])
    assert not any(result.error for result in results)
    assert sum(not result.blocked for result in results) == 10


async def test_an_idle_connection_that_the_server_closed_costs_no_check(settings):
    with redis_server() as url:
        settings.CACHES = {"default": BACKEND | {"LOCATION": f"{url}/0"}}
        hit = make_hit(limit=9)
        await current().ahit([hit])
        current().hit([hit])
        client = redis.Redis.from_url(url)
        client.client_kill_filter(skipme=True, _type="normal")
        client.close()
        await asyncio.sleep(0.05)
        assert (await current().ahit([hit]))[0].used == 3
        assert current().hit([hit])[0].used == 4
        await (await current()._aconnect()).aclose()


async def test_a_cancelled_check_leaves_no_answer_for_the_next_one(redis_client):
    counters = RedisCounters("default")
    slow, quick = make_hit("slow", limit=5), make_hit("quick", limit=99)
    await counters.ahit([quick], 7)
    for _ in range(20):
        task = asyncio.create_task(counters.ahit([slow]))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await counters.ahit([quick], 0))[0].used == 7


def test_a_forked_child_opens_connections_of_its_own(redis_client):
    counters = RedisCounters("default")
    hit = make_hit(limit=9999)
    counters.hit([hit])
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for _ in range(50):
                    counters.hit([hit])
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    for _ in range(50):
        counters.hit([hit])
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    assert counters.hit([hit])[0].used == 202


def test_a_server_that_restarted_is_found_again_at_the_next_check(settings):
    port = free_port()
    settings.CACHES = {"default": BACKEND | {"LOCATION": f"redis://127.0.0.1:{port}/0"}}
    with override_ruleset("restarted", [Rule("r", limit=9, period=60)]):
        limiter = Limiter("restarted")
        for _ in range(2):
            with redis_server(port):
                # Idle connections to the earlier server are detected as closed before a command is sent.
                assert not limiter.check({}).error


def test_a_hanging_server_is_given_up_after_a_second_without_a_time_out_of_the_alias(settings):
    with redis_server() as url:
        settings.CACHES = {"default": BACKEND | {"LOCATION": f"{url}/0"}}
        client = redis.Redis.from_url(url)
        hit = make_hit(limit=9)
        current().hit([hit])
        client.execute_command("CLIENT", "PAUSE", 30_000)
        started = time.monotonic()
        with pytest.raises(CountersUnavailable):
            current().hit([hit])
        current().breaker.worked()
        with pytest.raises(CountersUnavailable):
            asyncio.run(current().ahit([hit]))
        assert time.monotonic() - started < 10
        client.close()


def test_connections_grow_with_threads_not_with_calls():
    counters = RedisCounters("default")
    for _ in range(200):
        counters.hit([make_hit(limit=10**6)])
    assert len(counters._connect()._idle) == 1
    counters.close()
