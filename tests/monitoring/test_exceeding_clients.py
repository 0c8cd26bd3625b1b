"""The number of clients that exceeded a limit in the last hour, and the cost of counting them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from django.urls import reverse

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.models import Rule as RuleRow
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.monitoring import exceeding_clients
from django_ratelimit_rules.monitoring.exceeding_clients import Clients
from django_ratelimit_rules.runtime import background
from django_ratelimit_rules.testing import override_ruleset
from tests.servers import AWAY, wait_until

COUNTING = {"characteristics": ["ip"], "limit": 2, "period": 60}
RULES = [Rule("shadow", action="log", **COUNTING | {"limit": 1}), Rule("all", **COUNTING)]
PROCESS = """
import django
django.setup()
from django_ratelimit_rules import Limiter, Rule
limiter = Limiter("shared", rules=[Rule("all", characteristics=["ip"], limit=0, period=60)])
for number in range(3):
    limiter.check({"ip": f"203.0.113.{number}"})
"""


@pytest.fixture
def limiter():
    with override_ruleset("search", RULES):
        yield Limiter("search")


def keys(redis_client) -> list[bytes]:
    return sorted(redis_client.keys("*:clients:*:all"))


def test_each_client_that_exceeded_counts_once_for_each_rule(limiter):
    for address, calls in (("203.0.113.1", 1), ("203.0.113.2", 2), ("203.0.113.3", 9), ("203.0.113.4", 3)):
        for _ in range(calls):
            limiter.check({"ip": address})
    assert exceeding_clients.of_rules("search", ["shadow", "all", "none"]) == {
        "shadow": Clients(3, False),
        "all": Clients(2, False),
        "none": Clients(0, False),
    }


def test_processes_are_summed_and_one_client_of_two_counts_once():
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", PROCESS], env=environment, check=True)
    assert exceeding_clients.of_rules("shared", ["all"])["all"].number == 3


def test_an_hour_later_a_client_is_forgotten(limiter, redis_client):
    for _ in range(3):
        limiter.check({"ip": "203.0.113.1"})
    exceeding_clients.write()
    (key,) = keys(redis_client)
    redis_client.zadd(key, {"before": int(time.time()) - 3601})
    assert exceeding_clients.of_rules("search", ["all"])["all"].number == 1
    for _ in range(3):
        limiter.check({"ip": "203.0.113.2"})
    assert exceeding_clients.of_rules("search", ["all"])["all"].number == 2
    assert redis_client.zscore(key, "before") is None


def test_memory_is_bounded_for_any_number_of_clients(limiter, redis_client, monkeypatch):
    monkeypatch.setattr(exceeding_clients, "MOST", 50)
    monkeypatch.setattr(background.tasks[exceeding_clients.write], "called", time.monotonic() + 60)
    with override_ruleset("search", [Rule("all", **COUNTING | {"limit": 0})]):
        for number in range(80):
            limiter.check({"ip": f"198.51.100.{number}"})
        assert sum(map(len, exceeding_clients.noted.keys.values())) == 50
        exceeding_clients.write()
        for number in range(80, 120):
            limiter.check({"ip": f"198.51.100.{number}"})
        assert exceeding_clients.of_rules("search", ["all"])["all"] == Clients(50, True)
    (key,) = keys(redis_client)
    assert redis_client.zcard(key) == 50
    assert 3590 <= redis_client.ttl(key) <= 3600
    assert not any(b"198.51" in member for member in redis_client.zrange(key, 0, -1))
    assert str(Clients(1000, True)) == "1,000 or more clients"


def test_a_check_itself_writes_nothing_and_the_thread_does(limiter, redis_client, monkeypatch):
    monkeypatch.setattr(background.tasks[exceeding_clients.write], "called", time.monotonic() + 60)
    for _ in range(3):
        limiter.check({"ip": "203.0.113.1"})
    assert keys(redis_client) == []
    monkeypatch.setattr(background.tasks[exceeding_clients.write], "called", 0.0)
    background.ensure()
    wait_until(lambda: keys(redis_client), 15, "the thread's write")


def test_switched_off_nothing_is_noted_and_without_redis_nothing_breaks(limiter, settings):
    settings.RATELIMIT_RULES_LIVE = False
    for _ in range(3):
        limiter.check({"ip": "203.0.113.1"})
    assert exceeding_clients.noted.keys == {}
    settings.RATELIMIT_RULES_LIVE = True
    for _ in range(3):
        limiter.check({"ip": "203.0.113.1"})
    settings.CACHES = AWAY
    exceeding_clients.write()


@pytest.fixture
def confirmation(admin_client):
    """Create a ruleset in the admin. Return a function that returns a page's sentence about the last hour."""
    ruleset = Ruleset.objects.create(name="search")
    for position, rule in enumerate(RULES):
        fields = COUNTING | {"limit": rule.limit}
        RuleRow.objects.create(ruleset=ruleset, position=position, name=rule.name, action=rule.action, **fields)

    def read(page: str, *arguments: object) -> str:
        url = reverse(f"admin:django_ratelimit_rules_ruleset_{page}", args=[ruleset.pk, *arguments])
        text = admin_client.get(url).content.decode()
        return text.partition("The last hour")[2].partition("Changes")[0]

    return read


@pytest.mark.django_db
def test_a_confirmation_shows_the_numbers_of_requests_and_clients_of_a_change(confirmation, limiter):
    for number in range(4):
        for _ in range(3):
            limiter.check({"ip": f"203.0.113.{number}"})
    pk = {rule.name: rule.pk for rule in RuleRow.objects.all()}
    said = confirmation("turn", pk["shadow"], "promote")
    assert "shadow would have blocked 8 of 12 requests. They came from 4 clients, identified by ip." in said
    said = confirmation("turn", pk["all"], "demote")
    assert "all blocked 4 of 12 requests. They came from 4 clients, identified by ip." in said
    said = confirmation("switch", "off")
    assert "search blocked 4 of 12 requests." in said
    assert "all blocked 4 of 12 requests. They came from 4 clients, identified by ip." in said
    assert "shadow" not in said


@pytest.mark.django_db
def test_in_a_dry_run_it_shows_the_requests_that_would_have_been_blocked(confirmation):
    rules = [Rule("all", **COUNTING), Rule("together", limit=5, period=60)]
    with override_ruleset("search", rules, mode="dry_run"):
        for number in range(4):
            for _ in range(3):
                Limiter("search").check({"ip": f"203.0.113.{number}"})
        said = confirmation("switch", "enforce")
    assert "search would have blocked at least 7 of 12 requests." in said
    assert "all would have blocked 4 of 12 requests. They came from 4 clients, identified by ip." in said
    assert "together would have blocked 7 of 12 requests. It counts all clients together" in said


@pytest.mark.django_db
def test_without_redis_the_confirmation_reports_it(confirmation, limiter, settings):
    settings.CACHES = AWAY
    assert "Not known:" in confirmation("switch", "off")
