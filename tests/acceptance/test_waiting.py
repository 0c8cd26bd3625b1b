"""On a real clock, a client that waits for Retry-After is allowed, and no number is ever below zero."""

# Report 16: Retry-After is too early, then 0, then a large negative number.

from __future__ import annotations

import random
import re
import time
from datetime import UTC, datetime

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import path

from django_ratelimit_rules import Rule, rate_limited
from django_ratelimit_rules.testing import moved_clock, override_ruleset

PERIOD = 2
CLIENTS = 30

urlpatterns = [path("", rate_limited("api")(lambda request: HttpResponse()))]


@pytest.fixture(autouse=True)
def _urls(settings):
    settings.ROOT_URLCONF = __name__


def limit(algorithm="fixed_window"):
    return override_ruleset("api", [Rule("r", limit=2, period=PERIOD, characteristics=["ip"], algorithm=algorithm)])


def get(number):
    return Client(REMOTE_ADDR=f"203.0.113.{number}").get("/")


def retry_after(response):
    assert re.fullmatch(r"[1-9]\d*", response["Retry-After"])
    assert 1 <= int(response["Retry-After"]) <= PERIOD
    return int(response["Retry-After"])


@pytest.mark.parametrize(
    ("algorithm", "prefix"),
    [("fixed_window", ""), ("fixed_window", "p"), ("sliding_window", ""), ("token_bucket", "")],
)
def test_client_that_waits_for_retry_after_is_allowed(settings, algorithm, prefix):
    settings.CACHES = {"default": settings.CACHES["default"] | {"KEY_PREFIX": prefix}}
    # Thirty clients replace thirty rounds. Each starts at a different time, and all wait in parallel.
    due = []
    with limit(algorithm):
        for number in range(CLIENTS):
            while (response := get(number)).status_code == 200:
                pass
            due.append((time.monotonic() + retry_after(response), number))
            time.sleep(random.random() / CLIENTS)  # This sleep spreads the starts and waits for no condition.
        for moment, number in due:
            time.sleep(max(0.0, moment - time.monotonic()))  # The header promises exactly this time.
            assert get(number).status_code == 200


def test_hammering_across_the_edge_of_a_window_shows_no_number_below_zero():
    seen = set()
    with limit():
        deadline = time.monotonic() + PERIOD + 0.5
        while time.monotonic() < deadline:
            response = get(1)
            assert all(int(number) >= 0 for number in re.findall(r"=(-?\d+)", response["RateLimit"]))
            if response.status_code == 429:
                retry_after(response)
            seen.add(response.status_code)
    assert seen == {200, 429}


def test_reset_does_not_move_during_refused_calls():
    ends = []
    with limit(), moved_clock(datetime.now(UTC)) as clock:
        started = clock.timestamp()
        while clock.timestamp() < started + PERIOD - 0.5:
            wait = int(get(2)["RateLimit"].partition("t=")[2])
            ends.append(clock.timestamp() - started + wait)
            clock.move(0.05)
    assert len(ends) == 30
    # The header's seconds are rounded up.
    assert max(ends) - min(ends) <= 1
