"""Starts one real Redis for the whole run, and empties its counters for each test."""

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

# Set no deadline for examples, because a busy machine must not fail a test.
hypothesis_settings.register_profile("patient", deadline=None)
hypothesis_settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def _redis_server() -> Iterator[None]:
    with redis_server(urlsplit(settings.REDIS_URL).port):
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> Iterator[None]:
    """Start PostgreSQL, if the tests use it, before pytest-django creates the tests' database."""
    if settings.POSTGRESQL_FOLDER is None:
        yield
        return
    with postgresql_server(Path(settings.POSTGRESQL_FOLDER)):
        yield


@pytest.fixture(autouse=True)
def _fresh(monkeypatch) -> Iterator[None]:
    """Start each test without counters, without rules of another test's transaction, and with a closed breaker."""
    get_redis_connection("default").flushdb()
    testing.reset()
    if settings.POSTGRESQL_FOLDER is not None:
        # Turn reloads off, because the refresher's thread would not see rows of a test's transaction.
        monkeypatch.setattr(refresh, "RELOAD_SECONDS", math.inf)
    with rulesets.isolated_code():
        yield


@pytest.fixture
def redis_client():
    """Return a raw Redis client of the default cache alias."""
    return get_redis_connection("default")


@pytest.fixture(scope="session")
def pseudo_catalogues(tmp_path_factory) -> Path:
    """Return a folder with the compiled catalogue of the pseudo-language."""
    # Import it here, because only tests in that language need Babel.
    from tests.i18n import pseudo

    return pseudo.compiled(tmp_path_factory.mktemp("locale"))


@pytest.fixture
def pseudo_language(settings, pseudo_catalogues) -> None:
    """Make the pseudo-language the language of the site."""
    from tests.i18n import pseudo

    settings.LANGUAGES = [(pseudo.LANGUAGE, "zz")]
    settings.LOCALE_PATHS = [pseudo_catalogues]
    settings.LANGUAGE_CODE = pseudo.LANGUAGE


@pytest.fixture
def keys(redis_client):
    """Return a function that lists the counter keys of this app as strings."""
    return lambda: sorted(key.decode() for key in redis_client.keys("*{*"))
