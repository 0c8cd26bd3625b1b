"""One real Redis for the whole run, and fresh counters for every test."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django_redis import get_redis_connection
from hypothesis import settings as hypothesis_settings

from django_ratelimit_rules import rulesets, testing
from django_ratelimit_rules.rulesets import refresh
from tests.servers import postgresql_server, redis_server

# A busy machine is no fault of the code: no example has a deadline.
hypothesis_settings.register_profile("patient", deadline=None)
hypothesis_settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def _redis_server() -> Iterator[None]:
    with redis_server(urlsplit(settings.REDIS_URL).port):
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> Iterator[None]:
    """Start the database's server, where it has one, before pytest-django makes the tests' database there."""
    if settings.POSTGRESQL_FOLDER is None:
        yield
        return
    with postgresql_server(Path(settings.POSTGRESQL_FOLDER)):
        yield


@pytest.fixture(autouse=True)
def _fresh(monkeypatch) -> Iterator[None]:
    """Every test begins with no counters, no rules left over by another test's transaction, and a closed breaker."""
    get_redis_connection("default").flushdb()
    testing.reset()
    if settings.POSTGRESQL_FOLDER is not None:
        # The refresher's thread would look there by itself, and not see what a test's transaction holds.
        monkeypatch.setattr(refresh, "RELOAD_SECONDS", math.inf)
    with rulesets.isolated_code():
        yield


@pytest.fixture
def redis_client():
    """The raw Redis behind the default cache alias."""
    return get_redis_connection("default")


@pytest.fixture
def keys(redis_client):
    """A function that lists the counter keys of this app, as text."""
    return lambda: sorted(key.decode() for key in redis_client.keys("*{*"))
