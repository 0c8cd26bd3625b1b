"""Recorded traffic: the recorded values, the recorded clients, and the cost."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory
from django.utils.functional import SimpleLazyObject

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.monitoring import recording
from django_ratelimit_rules.runtime import background
from django_ratelimit_rules.testing import override_ruleset
from tests.servers import AWAY, wait_until

RULES = [Rule("all", characteristics=["ip", "header.x-key"], limit=5, period=60)]


@pytest.fixture(autouse=True)
def _recorded(settings):
    settings.RATELIMIT_RULES_RECORD = 1
    with override_ruleset("search", RULES):
        yield


def recorded() -> list[dict]:
    return [json.loads(line) for lines in recording.lines() for line in lines]


def test_time_limiter_and_identifier_are_kept_with_client_values_as_digests():
    before = time.time()
    Limiter("search", properties=["team"]).check({"ip": "203.0.113.7", "user": 7, "team": "red", "header.x-key": "ABC"})
    (entry,) = recorded()
    assert before - 1 < entry["time"] < time.time() + 1
    assert entry["limiter"] == "search"
    digest = entry["identifier"].pop("header.x-key")
    assert digest.startswith("#")
    assert "ABC" not in digest
    assert entry["identifier"] == {"ip": "203.0.113.7", "user": "7", "team": "red"}


def test_the_digest_is_the_one_in_counter_keys(keys):
    Limiter("search").check({"ip": "203.0.113.7", "header.x-key": "ABC"})
    assert recorded()[0]["identifier"]["header.x-key"] in keys()[0]


def test_refused_calls_are_recorded_and_looks_are_not():
    limiter = Limiter("search")
    for _ in range(7):
        limiter.check({"ip": "203.0.113.7"}, cost=2)
    limiter.peek({"ip": "203.0.113.7"})
    limiter.charge({"ip": "203.0.113.7"})
    assert [entry["cost"] for entry in recorded()] == [2] * 7


def test_asynchronous_checks_are_recorded_as_well():
    asyncio.run(Limiter("search").acheck({"ip": "203.0.113.7"}))
    assert len(recorded()) == 1


def test_nothing_is_recorded_unless_it_is_switched_on(settings, redis_client):
    settings.RATELIMIT_RULES_RECORD = 0
    Limiter("search").check({"ip": "203.0.113.7"})
    recording.write()
    assert redis_client.keys("*record*") == []


def test_a_client_is_recorded_with_all_its_calls_or_none(settings):
    settings.RATELIMIT_RULES_RECORD = 0.3
    limiter = Limiter("search")
    with override_ruleset("search", [Rule("all", limit=10**6, period=60)]):
        for _ in range(2):
            for number in range(200):
                limiter.check({"ip": f"203.0.113.{number}"})
    seen = [entry["identifier"]["ip"] for entry in recorded()]
    assert len(seen) == 2 * len(set(seen))
    assert 30 <= len(set(seen)) <= 90


def test_addresses_of_one_network_are_one_client(settings):
    settings.RATELIMIT_RULES_RECORD = 0.5
    for number in range(16):
        Limiter("search").check({"ip": f"2001:db8::{number:x}"})
    assert len(recorded()) in (0, 16)


def test_a_request_is_recorded_without_touching_its_session():
    def user():
        raise AssertionError("the user was loaded without need")

    request = RequestFactory().get("/a?q=secret", headers={"X-Key": "ABC", "Cookie": "sid=1"}, REMOTE_ADDR="192.0.2.1")
    request.user = SimpleLazyObject(user)
    assert not Limiter("search").check_request(request).blocked
    (entry,) = recorded()
    key = entry["identifier"].pop("header.x-key")
    assert key.startswith("#")
    assert entry["identifier"] == {"ip": "192.0.2.1", "method": "GET", "path": "/a", "host": "testserver"}


def test_a_user_that_a_rule_read_is_recorded():
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    with override_ruleset("search", [Rule("all", characteristics=["user"], limit=5, period=60)]):
        Limiter("search").check_request(request)
    assert recorded()[0]["identifier"]["user"] == "<anonymous>"


def test_a_check_writes_nothing_and_the_refreshers_thread_all_of_it(redis_client, monkeypatch):
    Limiter("search").check({"ip": "203.0.113.7"})
    assert redis_client.exists(stream(redis_client)) == 0
    monkeypatch.setattr(background.tasks[recording.write], "called", 0.0)
    background.ensure()
    wait_until(lambda: redis_client.exists(stream(redis_client)), what="the refresher to write the record")


def stream(redis_client) -> str:
    return f"{current().namespace()}:record"


def test_the_record_is_capped_and_expires(settings, redis_client):
    settings.RATELIMIT_RULES_RECORD_MAX = 50
    limiter = Limiter("search")
    for number in range(500):
        limiter.check({"ip": f"203.0.113.{number % 250}"})
    recording.write()
    # Redis drops whole nodes of a stream, each with a hundred entries.
    assert 50 <= redis_client.xlen(stream(redis_client)) <= 150
    assert 0 < redis_client.ttl(stream(redis_client)) <= recording.KEPT_SECONDS


def test_entries_of_several_processes_are_read_in_the_order_of_time():
    for times in ([300, 302], [299, 301]):
        lines = [f'{{"time":{time},"limiter":"search","identifier":{{}}}}' for time in times]
        current().log(recording.STREAM, lines, 100, 60)
    assert [entry["time"] for entry in recorded()] == [299, 300, 301, 302]


def test_the_queue_is_bounded(monkeypatch):
    monkeypatch.setattr(recording, "MOST_WAITING", 3)
    for number in range(10):
        Limiter("search").check({"ip": f"203.0.113.{number}"})
    assert len(recorded()) == 3


def test_a_setting_that_is_none_and_a_redis_that_is_away_disturb_no_check(settings, caplog):
    settings.RATELIMIT_RULES_RECORD = "yes"
    assert not Limiter("search").check({"ip": "203.0.113.7"}).blocked
    assert "could not be recorded" in caplog.text
    settings.RATELIMIT_RULES_RECORD = 1
    Limiter("search").check({"ip": "203.0.113.7"})
    settings.CACHES = AWAY
    recording.write()


def test_bad_settings_are_named_by_the_checks(settings):
    from django_ratelimit_rules.checks.settings import fault_of_number, fault_of_share

    assert fault_of_share("SHARE", 0.5) is None
    assert "from 0 to 1" in fault_of_share("SHARE", True)
    assert "from 0 to 1" in fault_of_share("SHARE", 2)
    assert fault_of_number("NUMBER", 1) is None
    assert fault_of_number("NUMBER", 0)
