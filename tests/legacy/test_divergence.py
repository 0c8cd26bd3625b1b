"""The stored share of disagreements between two limiters, from all processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from django.urls import reverse

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.legacy import divergence
from django_ratelimit_rules.legacy.divergence import HOUR, KEPT_HOURS, last_day
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.testing import override_ruleset
from tests.servers import free_port, wait_until

NEVER = [Rule("none", limit=0, period=3600)]

PROCESS = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django
django.setup()
from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.testing import override_ruleset
with override_ruleset("moved", [Rule("all", limit=5, period=3600)], mode="dry_run"):
    for _ in range(20):
        Limiter("moved").compare({}, legacy_blocked=True)
"""


@pytest.fixture
def limiter():
    """Return a limiter in a dry run that would block each call."""
    with override_ruleset("moved", NEVER, mode="dry_run"):
        yield Limiter("moved")


def remember(hours_ago: int, compared: int, diverged: int) -> None:
    """Store comparisons of an earlier hour."""
    hour = int(time.time()) // HOUR - hours_ago
    current().add({f"compared:moved:{hour}": {"compared": compared, "diverged": diverged}}, KEPT_HOURS * HOUR)


def test_comparisons_are_shown_as_a_share_of_all(limiter):
    for number in range(200):
        limiter.compare({}, legacy_blocked=number != 0)
    said = last_day("moved")
    assert str(said) == "0.5 % of 200"
    assert (said.day.compared, said.day.diverged) == (200, 1)
    assert said.last_exceeded is None


def test_the_latest_hour_above_the_target_is_shown_even_when_the_day_was_quiet(limiter):
    remember(100, 1000, 400)
    remember(50, 1000, 6)
    remember(30, 1000, 5)
    remember(2, 40_000, 100)
    for _ in range(6):
        limiter.compare({}, legacy_blocked=True)
    said = last_day("moved")
    assert str(said) == "0.2 % of 40,006"
    assert said.last_exceeded.start == (int(time.time()) // HOUR - 50) * HOUR
    assert said.last_exceeded.share == 0.006


def test_nothing_compared_is_nothing_to_tell(limiter):
    limiter.check({})
    assert last_day("moved") is None


def test_other_processes_count_and_write_their_comparisons_at_their_end(limiter):
    subprocess.run([sys.executable, "-c", PROCESS], env=os.environ, check=True, timeout=60)
    limiter.compare({}, legacy_blocked=True)
    assert str(last_day("moved")) == "23.8 % of 21"


def test_the_refresher_s_thread_writes_without_a_reader(limiter, redis_client):
    limiter.compare({}, legacy_blocked=True)
    wait_until(lambda: redis_client.keys("*compared:moved*"), what="the thread to write")
    key = redis_client.keys("*compared:moved*")[0]
    assert 0 < redis_client.ttl(key) <= KEPT_HOURS * HOUR


def test_unwritten_counts_wait(limiter, settings, redis_client):
    there = settings.CACHES
    limiter.compare({}, legacy_blocked=True)
    settings.CACHES = {"default": there["default"] | {"LOCATION": f"redis://127.0.0.1:{free_port()}/0"}}
    divergence.write()
    settings.CACHES = there
    assert last_day("moved").day.compared == 1


def test_switched_off_with_the_other_live_numbers_nothing_is_kept(limiter, settings, redis_client):
    settings.RATELIMIT_RULES_LIVE = False
    limiter.compare({}, legacy_blocked=True)
    divergence.write()
    assert redis_client.keys("*compared*") == []


@pytest.mark.django_db
def test_the_ruleset_s_page_and_the_page_that_enforces_show_it(admin_client):
    ruleset = Ruleset.objects.create(name="moved", mode="dry_run")
    change = reverse("admin:django_ratelimit_rules_ruleset_change", args=[ruleset.pk])
    enforce = reverse("admin:django_ratelimit_rules_ruleset_switch", args=[ruleset.pk, "enforce"])
    assert "legacy limiter" not in admin_client.get(change).content.decode()
    remember(0, 41_206, 124)
    remember(72, 1000, 31)
    for page in (change, enforce):
        text = " ".join(admin_client.get(page).content.decode().split())
        assert "disagreed in 0.3 % of 41,206 comparisons" in text
        assert "(3.1 % of 1,000)" in text
    assert "legacy limiter" not in admin_client.get(enforce.replace("enforce", "off")).content.decode()
