"""Bug reports about other limiters, repeated here with the test client: groups G, H and M, the store and metrics.

Each test names its report. More of group G is in tests/faults, of group H in tests/counters.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
import redis
from django.http import HttpResponse
from django.test import Client
from django.urls import include, path
from redis.crc import key_slot

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset
from tests.servers import free_port, redis_server, wait_until

OURS = "django_ratelimit_rules.middleware.RateLimitMiddleware"
ran: Counter[str] = Counter()


@rate_limited("api")
def view(request, **kwargs):
    ran["view"] += 1
    return HttpResponse("fine")


urlpatterns = [path("t/", view), path("t/<path:rest>", view), path("", include("tests.urls"))]
pytestmark = pytest.mark.urls(__name__)


def limit(number: int, period: int, *by: str, name: str = "limited", **options) -> Rule:
    return Rule(name, action="limit", characteristics=list(by), limit=number, period=period, **options)


def scraped(client) -> dict[str, float]:
    """Return our samples, as a scrape sees them."""
    text = client.get("/metrics").content.decode()
    found = re.findall(r"^(django_rate_limiter\S*(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def broken_key(key, prefix, version):
    raise RuntimeError("no tenant")


# Reports of the same kind as 19: any fault of the store, including its configuration.
NOWHERE = {
    "nobody listens": {"LOCATION": "redis://127.0.0.1:{port}/0"},
    "no such host": {"LOCATION": "redis://no-such-host.invalid/0"},
    "no such socket": {"LOCATION": "unix:///nowhere/redis.sock"},
    "no such database": {"LOCATION": "redis://127.0.0.1:{port}/9999"},
    "malformed": {"LOCATION": "nonsense"},
    "no location": {"LOCATION": ""},
    "another backend": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
    "no backend": {"BACKEND": "nowhere.Cache"},
    "key function that raises": {"KEY_FUNCTION": f"{__name__}.broken_key"},
    "unknown option": {
        "LOCATION": "redis://127.0.0.1:{port}/0",
        "OPTIONS": {"CONNECTION_POOL_KWARGS": {"nonsense": 1}},
    },
}


@pytest.mark.parametrize(
    ("where", "ignored"), [*((where, None) for where in NOWHERE), ("nobody listens", True), ("nobody listens", False)]
)
@pytest.mark.parametrize(("failure_mode", "status"), [("open", 200), ("closed", 503), ("local", 200)])
def test_report_19_the_failure_policy_holds_for_any_fault(
    client, settings, caplog, where, failure_mode, status, ignored
):
    wrong = {
        name: value.format(port=free_port()) if isinstance(value, str) else value
        for name, value in NOWHERE[where].items()
    }
    options = {} if ignored is None else {"OPTIONS": {"IGNORE_EXCEPTIONS": ignored}}
    before = scraped(client).get('django_rate_limiter_errors_total{rate_limiter="api"}', 0)
    settings.CACHES = {"default": settings.CACHES["default"] | options | wrong}
    ran.clear()
    with override_ruleset("api", [limit(9, 60, "ip")], failure_mode=failure_mode):
        answers = [client.get("/t/") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [status] * 4
    assert ran["view"] == (4 if status == 200 else 0)
    assert not any("ratelimit" in name.lower() for answer in answers for name in answer.headers)
    ours = [record for record in caplog.records if record.name.startswith("django_ratelimit_rules")]
    assert [record.levelno for record in ours] == [logging.ERROR]
    assert scraped(client)['django_rate_limiter_errors_total{rate_limiter="api"}'] == before + 4


def test_report_19_the_middleware_keeps_the_policy_too(client, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, OURS]
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["site"]
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"redis://127.0.0.1:{free_port()}/0"}}
    for mode, status in (("open", 404), ("closed", 503)):
        with override_ruleset("site", [limit(9, 60)], failure_mode=mode):
            assert client.get("/nowhere/").status_code == status


@pytest.mark.parametrize("failure_mode", ["open", "closed"])
@override_ruleset("api", [limit(5, 60, "ip")])
def test_report_20_a_lost_script_is_put_back_and_the_call_counted_once(client, redis_client, failure_mode):
    with override_ruleset("api", failure_mode=failure_mode):
        for left in (4, 3, 2):
            redis_client.script_flush()
            answer = client.get("/t/")
            assert (answer.status_code, answer["RateLimit"].split(";")[1]) == (200, f"r={left}")


def test_report_20_a_process_whose_first_check_finds_no_script_counts_it(redis_client, settings):
    redis_client.script_flush()
    program = (
        "import django; django.setup()\n"
        "from django_ratelimit_rules import Limiter\n"
        "from django_ratelimit_rules.testing import override_ruleset\n"
        "rules = [{'name': 'r', 'limit': 5, 'period': 60}]\n"
        "with override_ruleset('fresh', rules, failure_mode='closed'):\n"
        "    print([Limiter('fresh').check({}).evaluations[0].used for _ in range(2)])"
    )
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 2]\n"


class Monitor:
    """The commands that a Redis received, as Redis itself reports them."""

    def __init__(self, client: redis.Redis) -> None:
        where = client.connection_pool.connection_kwargs
        self._client = redis.Redis(host=where["host"], port=where["port"])
        self.commands: list[list[str]] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Monitor:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.echo("the end")
        self._thread.join(10)
        self._client.close()

    def _listen(self) -> None:
        with self._client.monitor() as monitor:
            self._ready.set()
            for command in monitor.listen():
                words = command["command"].split(" ")
                if command["client_type"] != "lua":
                    self.commands.append(words)
                if words[0].upper() == "ECHO":
                    return


AWKWARD = ["a}b{c", "{", "}", "{}", "}{other}", "a b", "\u898b", '"', "\\"]


@pytest.mark.parametrize("value", AWKWARD)
def test_report_21_the_script_is_given_keys_of_one_slot_and_nothing_else(client, redis_client, value):
    chain = [
        limit(9, 60, "ip", name="one"),
        limit(9, 60, "user", name="two", algorithm="sliding_window"),
        limit(9, 60, "header.x", name="three", algorithm="token_bucket"),
        limit(9, 60, name="four", count_distinct="header.x"),
    ]
    with override_ruleset("api", chain), Monitor(redis_client) as monitor:
        client.get("/t/", HTTP_X=value.encode().decode("latin-1"))
        identifier = {"ip": "203.0.113.7", "user": value, "header.x": value}
        Limiter("api").check(identifier)
        Limiter("api").peek(identifier)
        Limiter("api").charge(identifier)
        Limiter("api").reset(identifier)
    calls = [command for command in monitor.commands if command[0].upper() in ("EVALSHA", "EVAL")]
    assert len(calls) == 4
    for call in calls:
        number = int(call[2])
        keys = call[3 : 3 + number]
        assert number == 4
        assert len({key_slot(key.encode()) for key in keys}) == 1
        assert all("{api}" in key for key in keys)
    (deleted,) = [command[1:] for command in monitor.commands if command[0].upper() == "DEL"]
    assert len({key_slot(key.encode()) for key in deleted}) == 1


@pytest.fixture(scope="module")
def cluster_of_one() -> Iterator[str]:
    """Run a Redis Cluster with a single node, which rejects the same commands as a larger cluster."""
    options = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with redis_server(None, *options) as url, redis.Redis.from_url(url) as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: client.cluster("INFO")["cluster_state"] == "ok", what="the cluster")
        yield url


@pytest.mark.parametrize("value", AWKWARD)
def test_report_21_a_cluster_takes_every_call(settings, cluster_of_one, value):
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": cluster_of_one}}
    rules = [limit(9, 60, "ip", name="one"), limit(9, 60, "v", name="two"), limit(9, 60, name="x", count_distinct="v")]
    with override_ruleset("api", rules, failure_mode="closed"):
        limiter, identifier = Limiter("api"), {"ip": "203.0.113.7", "v": value}
        assert limiter.reset(identifier) >= 0
        assert limiter.check(identifier).action == "allow"
        limiter.charge(identifier)
        assert [e.used for e in limiter.peek(identifier).evaluations][1] == 2
        assert limiter.reset(identifier) == 3


def other_key(key, prefix, version):
    return f"{prefix}/{version}/{key}"


@override_ruleset("api", [limit(1, 60, "ip")])
def test_report_22_any_difference_between_two_sites_separates_their_counters(client, settings, redis_client):
    base = settings.CACHES["default"]
    location = base["LOCATION"].removesuffix("/0")
    apart = [
        {"KEY_PREFIX": "p1"},
        {"KEY_PREFIX": "p2"},
        {"KEY_PREFIX": "p2", "VERSION": 2},
        {"KEY_PREFIX": "p2", "KEY_FUNCTION": f"{__name__}.other_key"},
        {"LOCATION": f"{location}/1"},
        {"LOCATION": f"{location}/2"},
    ]
    try:
        for change in apart:
            settings.CACHES = {"default": base | change}
            assert [client.get("/t/").status_code for _ in range(2)] == [200, 429]
        settings.CACHES = {"default": base | {"KEY_PREFIX": "p1"}, "second": base | {"KEY_PREFIX": "p3"}}
        settings.RATELIMIT_RULES_CACHE_ALIAS = "second"
        assert [client.get("/t/").status_code for _ in range(2)] == [200, 429]
        settings.RATELIMIT_RULES_KEY_PREFIX = "ours"
        assert [client.get("/t/").status_code for _ in range(2)] == [200, 429]
    finally:
        for number in (1, 2):
            with redis.Redis.from_url(f"{location}/{number}") as elsewhere:
                elsewhere.flushdb()


@override_ruleset("api", [limit(1, 60, "ip")])
def test_report_22_all_that_is_written_carries_the_prefix(client, settings, redis_client):
    from django_ratelimit_rules.counters.aliases import current
    from django_ratelimit_rules.monitoring import last_hour

    settings.CACHES = {"default": settings.CACHES["default"] | {"KEY_PREFIX": "mine"}}
    redis_client.flushdb()
    for _ in range(3):
        client.get("/t/")
    last_hour.write()
    current().announce()
    written = [key.decode() for key in redis_client.keys("*")]
    # A counter, a stored decision, a minute of the last hour, and the announcement.
    assert len(written) >= 4
    assert all(key.startswith("mine:1:rl") for key in written)


@pytest.mark.django_db
def test_report_32_no_value_of_a_request_is_a_label(client, django_user_model):
    rules = [
        Rule("seen", action="log", characteristics=["path"], limit=1, period=60),
        Rule("bots", action="skip", match={"header.user-agent": {"prefix": "bot-3"}}),
        limit(2, 60, "ip", name="by_ip"),
        limit(2, 60, "user", "query.q", name="by_user"),
        limit(99, 60, name="spread", count_distinct="header.x-tag"),
    ]
    users = [django_user_model.objects.create(username=f"name-{number}") for number in range(5)]
    before = set(scraped(client))
    with override_ruleset("api", rules):
        for number in range(500):
            if number % 100 == 0:
                client = Client()
                client.force_login(users[number // 100])
            client.get(
                f"/t/secret-{number}?q=word-{number}",
                REMOTE_ADDR=f"198.51.100.{number % 250}",
                HTTP_USER_AGENT=f"bot-{number}",
                HTTP_X_TAG=f"tag-{number}",
                HTTP_HOST=f"host-{number}.example",
            )
        made = set(scraped(client)) - before
    # Apart from the buckets of the duration, at most one sample for each rule and outcome.
    counted = [name for name in made if "_bucket" not in name]
    assert len(counted) <= len(rules) * 3 * 3
    assert not [name for name in made if re.search(r"198\.51|secret|word-|bot-|tag-|name-|host-", name)]


def test_report_32_names_of_limiters_cannot_be_made_by_requests():
    with pytest.raises(ValueError, match="not a valid name"):
        Limiter("api/203.0.113.7")
