"""The messages of ``manage.py check`` about a project's settings, cache and limiters."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from io import StringIO

import django
import pytest
from django.core.checks import Tags, run_checks
from django.core.checks.registry import registry
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connections
from django.http import HttpResponse
from django.urls import include, path
from django_redis.cache import RedisCache
from rest_framework.views import APIView

from django_ratelimit_rules import Limiter, Rule, rate_limited, rulesets
from django_ratelimit_rules.checks import TAG
from django_ratelimit_rules.contrib.rest_framework import RuleThrottle
from django_ratelimit_rules.models import Rule as RuleRow
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.testing import override_ruleset

OURS = "django_ratelimit_rules.middleware.RateLimitMiddleware"
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"


@rate_limited("checked_by_a_decorator")
def view(request):
    return HttpResponse()


def blocked_view(request, result):
    return HttpResponse(status=429)


class Cache(RedisCache):
    """A project's own cache class."""


class Throttled(APIView):
    throttle_classes = [RuleThrottle]
    throttle_limiter = "checked_by_a_throttle"


not_a_view = "text"
urlpatterns = [path("", view), path("api/", include([path("", Throttled.as_view())]))]


def messages(databases=None):
    """Return all of our messages by id, of a plain ``check`` or of a check with databases."""
    return {message.id: message for message in (run_checks(tags=[TAG], databases=databases) if databases else plain())}


def plain():
    """Return the messages of a plain ``check``. With a tag, checks that use a database run too."""
    databases = list(connections) if django.VERSION >= (6, 1) else None
    ours = [check for check in registry.get_checks() if TAG in check.tags and Tags.database not in check.tags]
    return [message for check in ours for message in check(app_configs=None, databases=databases)]


def test_a_project_with_working_settings_gets_no_message():
    assert messages() == {}


def test_every_message_has_an_id_and_a_hint(settings):
    settings.RATELIMIT_RULES_HEADER = "off"
    settings.RATELIMIT_RULES_HEADERS = "on"
    settings.MIDDLEWARE = [OURS, *settings.MIDDLEWARE]
    found = plain()
    assert len(found) == 3
    assert all(message.id.startswith("ratelimit_rules.") and message.hint for message in found)


def test_an_unknown_setting_is_named_with_the_nearest_that_exists(settings):
    settings.RATELIMIT_RULES_PROXY_HOP = 1
    message = messages()["ratelimit_rules.W001"]
    assert message.msg == "There is no setting RATELIMIT_RULES_PROXY_HOP."
    assert message.hint == "Did you mean RATELIMIT_RULES_PROXY_HOPS?"


def test_an_unknown_setting_like_no_other_gets_the_list_of_all(settings):
    settings.RATELIMIT_RULES_ZZZ = 1
    assert "TRUSTED_PROXIES" in messages()["ratelimit_rules.W001"].hint


@pytest.mark.parametrize(
    ("setting", "value", "number", "words"),
    [
        ("ENABLED", "False", "E001", "'False'"),
        ("TRUSTED_PROXIES", ["10.0.0.0/8", "10.0.0.0/33"], "E002", "'10.0.0.0/33'"),
        ("TRUSTED_PROXIES", "proxy.example.org", "E002", "'proxy.example.org'"),
        ("TRUSTED_PROXIES", 10, "E002", "10, not a list"),
        ("PROXY_HOPS", -1, "E003", "-1"),
        ("PROXY_HOPS", "1", "E003", "'1'"),
        ("PROXY_HOPS", True, "E003", "True"),
        ("PROXY_HOPS", 1.0, "E003", "1.0"),
        ("CLIENT_IP_HEADER", "", "E004", "''"),
        ("CLIENT_IP_HEADER", "HTTP_X_REAL_IP", "E004", "request.META"),
        ("IPV6_PREFIX", 0, "E005", "0, not a whole number from 1 to 128"),
        ("IPV6_PREFIX", 129, "E005", "129"),
        ("IPV6_PREFIX", "64", "E005", "'64'"),
        ("HEADERS", "drafts", "E006", "draft, legacy, off"),
        ("HEADERS", None, "E006", "None"),
        ("BLOCKED_VIEW", "nowhere.view", "E007", "cannot be imported"),
        ("BLOCKED_VIEW", f"{__name__}.missing", "E007", "cannot be imported"),
        ("BLOCKED_VIEW", f"{__name__}.not_a_view", "E007", "cannot be called"),
        ("FAILURE_MODE", "opened", "E008", "open, closed, local"),
        ("REFRESH_SECONDS", 0, "E009", "0"),
        ("REFRESH_SECONDS", float("nan"), "E009", "nan"),
        ("REFRESH_SECONDS", "1", "E009", "'1'"),
        ("MIDDLEWARE_LIMITERS", "site", "E011", "'site', not a list"),
        ("MIDDLEWARE_LIMITERS", ["site", "Site"], "E011", "'Site'"),
        ("MIDDLEWARE_LIMITERS", [3], "E011", "3"),
        ("DECISIONS", "False", "E012", "neither True nor False"),
        ("LIVE", 0, "E013", "neither True nor False"),
    ],
)
def test_an_unusable_value_is_an_error_with_a_reason(settings, setting, value, number, words):
    setattr(settings, f"RATELIMIT_RULES_{setting}", value)
    (message,) = plain()
    assert message.id == f"ratelimit_rules.{number}"
    assert message.msg.startswith(f"RATELIMIT_RULES_{setting} ")
    assert words in message.msg
    assert message.is_serious()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("TRUSTED_PROXIES", ["10.0.0.0/8", "2001:db8::1", "unix", "192.0.2.1/24"]),
        ("TRUSTED_PROXIES", "10.0.0.0/8"),
        ("TRUSTED_PROXIES", [" 10.0.0.0/8", " unix"]),
        ("PROXY_HOPS", 0),
        ("IPV6_PREFIX", 128),
        ("HEADERS", "legacy"),
        ("BLOCKED_VIEW", f"{__name__}.blocked_view"),
        ("FAILURE_MODE", "local"),
        ("REFRESH_SECONDS", 0.5),
        ("MIDDLEWARE_LIMITERS", ("site",)),
    ],
)
def test_a_value_that_can_be_used_is_not_mentioned(settings, setting, value):
    setattr(settings, f"RATELIMIT_RULES_{setting}", value)
    assert messages() == {}


def test_a_rules_file_with_a_fault_is_named_with_line_and_reason(settings, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("search:\n  - {name: ok, limit: 1, period: 1m}\n  - {name: bad, limit: -1, period: 1m}\n")
    settings.RATELIMIT_RULES_FILE = file
    message = messages()["ratelimit_rules.E010"]
    assert f"{file}:3: " in message.msg
    assert "limit" in message.msg


def test_a_missing_rules_file_is_an_error_and_a_sound_one_is_not(settings, tmp_path):
    file = tmp_path / "rules.yaml"
    settings.RATELIMIT_RULES_FILE = str(file)
    assert "No such file" in messages()["ratelimit_rules.E010"].msg
    file.write_text("search: [{name: ok, limit: 1, period: 1m}]\n")
    assert messages() == {}


def test_an_alias_that_does_not_exist_is_an_error(settings):
    settings.RATELIMIT_RULES_CACHE_ALIAS = "counters"
    message = messages()["ratelimit_rules.E020"]
    assert "'counters'" in message.msg
    assert "'default'" in message.hint


@pytest.mark.parametrize("backend", ["django.core.cache.backends.redis.RedisCache", "nowhere.Cache", ""])
def test_an_alias_that_is_not_django_redis_is_an_error(settings, backend):
    settings.CACHES = {"default": {**settings.CACHES["default"], "BACKEND": backend}}
    assert list(messages()) == ["ratelimit_rules.E021"]


def test_a_subclass_of_django_redis_will_do(settings):
    settings.CACHES = {"default": {**settings.CACHES["default"], "BACKEND": f"{__name__}.Cache"}}
    assert messages() == {}


def alias(options=None, location="redis://127.0.0.1:6379/0"):
    return {
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": location,
            **({} if options is None else {"OPTIONS": options}),
        }
    }


@pytest.mark.parametrize(
    ("caches", "missing"),
    [
        (alias(), "SOCKET_CONNECT_TIMEOUT and SOCKET_TIMEOUT"),
        (alias({"SOCKET_CONNECT_TIMEOUT": 1}), "SOCKET_TIMEOUT"),
        (alias({"SOCKET_TIMEOUT": 1, "SOCKET_CONNECT_TIMEOUT": None}), "SOCKET_CONNECT_TIMEOUT"),
        (
            alias({"SOCKET_TIMEOUT": 1}, ["redis://a?socket_connect_timeout=1", "redis://b"]),
            "SOCKET_CONNECT_TIMEOUT",
        ),
    ],
)
def test_an_alias_without_time_outs_is_warned_about(settings, caches, missing):
    settings.CACHES = caches
    message = messages()["ratelimit_rules.W002"]
    assert f"does not set {missing}. " in message.msg
    assert not message.is_serious()


@pytest.mark.parametrize(
    "caches",
    [
        alias({"SOCKET_TIMEOUT": 1, "SOCKET_CONNECT_TIMEOUT": 1}),
        alias({"CONNECTION_POOL_KWARGS": {"socket_timeout": 1, "socket_connect_timeout": 1}}),
        alias(None, "redis://a?socket_timeout=1&socket_connect_timeout=1"),
    ],
)
def test_time_outs_are_found_wherever_they_may_be_set(settings, caches):
    settings.CACHES = caches
    assert messages() == {}


@pytest.mark.parametrize(
    ("middleware", "ids"),
    [
        ([OURS, AUTHENTICATION], ["ratelimit_rules.W003"]),
        ([AUTHENTICATION, OURS], []),
        ([OURS], []),
        ([AUTHENTICATION], []),
    ],
)
def test_the_middleware_belongs_after_djangos_authentication(settings, middleware, ids):
    settings.MIDDLEWARE = middleware
    assert list(messages()) == ids


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([{"characteristics": ["ip"]}], None),
        ([{"characteristics": ["user|lower"]}], "the rule 'r0' of limiter 'ordered' treats every request"),
        ([{"match": {"is_staff": True}}, {"count_distinct": "user"}], "'r0' of limiter 'ordered', 'r1' of limiter"),
        ([{"match": {"is_authenticated": True}}] * 5, "and 2 more treat every request"),
    ],
)
def test_with_the_database_only_rules_that_need_the_user_make_the_order_matter(db, settings, rules, said):
    settings.MIDDLEWARE = [OURS, AUTHENTICATION]
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["ordered"]
    made = [Rule(f"r{number}", limit=1, period=60, **rule) for number, rule in enumerate(rules)]
    with override_ruleset("ordered", made):
        found = messages(databases=["default"])
    assert ("ratelimit_rules.W003" in found) is (said is not None)
    assert said is None or said in found["ratelimit_rules.W003"].msg


@pytest.mark.urls(__name__)
def test_limiters_without_rules_are_named_once_the_database_may_be_asked(db, settings, caplog):
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["checked_in_middleware", "checked_in_admin"]
    Limiter("checked_in_code", rules=[Rule("one", limit=1, period=60)])
    Limiter("checked_alone")
    Ruleset.objects.create(name="checked_in_admin")
    found = [
        message.msg.split("'")[1]
        for message in run_checks(tags=[TAG], databases=["default"])
        if message.id == "ratelimit_rules.W004"
    ]
    ours = [name for name in found if name.startswith("checked_")]
    assert ours == ["checked_alone", "checked_by_a_decorator", "checked_by_a_throttle", "checked_in_middleware"]
    assert not caplog.records


def test_limiters_without_rules_are_named_without_a_query_where_the_rules_are_loaded(
    django_assert_num_queries, db, settings
):
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["checked_in_middleware"]
    assert "ratelimit_rules.W004" not in messages()
    Limiter("checked_alone").check({})
    with django_assert_num_queries(0):
        assert "ratelimit_rules.W004" in messages()


@pytest.mark.parametrize(("bound", "warned"), [(1000, False), (500, True), (None, False)])
def test_rulesets_too_long_for_djangos_bound_on_fields_are_named(db, settings, bound, warned):
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = bound
    ruleset = Ruleset.objects.create(name="checked_long")
    rules = (RuleRow(ruleset=ruleset, name=f"r{number}", limit=1, period=60) for number in range(200))
    RuleRow.objects.bulk_create(rules)
    assert ("ratelimit_rules.W006" in messages(databases=["default"])) is warned


def test_without_the_database_option_no_query_is_made(django_assert_num_queries, db, settings):
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["checked_in_middleware"]
    with django_assert_num_queries(0):
        assert messages() == {}
        assert messages(databases=["another"]) == {}


@pytest.fixture
def closed_database(tmp_path):
    """Listen as a PostgreSQL that disconnects each client.

    Return a function that runs ``check`` with it as the database. The function returns the process, and whether it
    connected.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        connected = threading.Event()
        ended = threading.Event()

        def hang_up():
            while not ended.is_set():
                with suppress(TimeoutError):
                    server.accept()[0].close()
                    connected.set()

        thread = threading.Thread(target=hang_up)
        thread.start()
        engine = {"ENGINE": "django.db.backends.postgresql", "NAME": "closed", "HOST": "127.0.0.1"}
        engine["PORT"] = server.getsockname()[1]
        (tmp_path / "closed_settings.py").write_text(
            "from tests.settings import *\n"
            f"DATABASES = {{'default': {engine!r}}}\n"
            f"MIDDLEWARE = [{OURS!r}, {AUTHENTICATION!r}, *MIDDLEWARE]\n"
            "RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ['checked_in_middleware']\n"
        )

        def check(*arguments):
            connected.clear()
            path = os.pathsep.join([str(tmp_path), os.getcwd()])
            ran = subprocess.run(
                [sys.executable, "-m", "django", "check", *arguments],
                env={**os.environ, "DJANGO_SETTINGS_MODULE": "closed_settings", "PYTHONPATH": path},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            return ran, connected.is_set()

        yield check
        ended.set()
        thread.join()


def test_a_plain_check_uses_no_database_and_needs_none(closed_database):
    plain, connected = closed_database()
    assert plain.returncode == 0, plain.stderr
    assert not connected
    assert "(ratelimit_rules.W003)" in plain.stderr
    assert "rules by user treat every request as anonymous" in plain.stderr
    assert "(ratelimit_rules.W004)" not in plain.stderr


def test_a_check_that_may_use_a_database_uses_it_and_survives_its_absence(closed_database):
    asked, connected = closed_database("--tag", TAG, "--database", "default")
    assert asked.returncode == 0, asked.stderr
    assert connected
    assert "(ratelimit_rules.W003)" in asked.stderr


def test_with_the_database_option_the_findings_of_the_rules_are_reported(db, settings):
    settings.MIDDLEWARE = [OURS, *settings.MIDDLEWARE]
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["checked_in_admin", "checked_in_middleware"]
    ruleset = Ruleset.objects.create(name="checked_in_admin")
    RuleRow.objects.create(ruleset=ruleset, name="per_user", limit=1, period=60, characteristics=["user"])
    printed = StringIO()
    call_command("check", databases=["default"], stdout=printed, stderr=printed)
    assert "the rule 'per_user' of limiter 'checked_in_admin' treats every request" in printed.getvalue()
    assert printed.getvalue().count("Limiter 'checked_in_middleware' has no rules and allows every request.") == 1


def test_a_check_leaves_the_rules_unloaded_that_it_loaded_itself(db, settings):
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["checked_in_middleware"]
    assert "ratelimit_rules.W004" in messages(databases=["default"])
    assert not rulesets.are_loaded()
    rulesets.reload()
    assert "ratelimit_rules.W004" in messages(databases=["default"])
    assert rulesets.are_loaded()


@pytest.mark.urls("tests.no_such_urls")
def test_urls_that_cannot_be_imported_are_left_to_djangos_own_checks(db):
    assert all(message.id == "ratelimit_rules.W004" for message in run_checks(tags=[TAG], databases=["default"]))


@pytest.mark.parametrize(
    ("memory", "policy", "said"),
    [
        ("1gb", "allkeys-lru", "when its memory is full"),
        ("1gb", "noeviction", ""),
        ("0", "volatile-ttl", "once its memory is bounded"),
    ],
)
def test_a_redis_that_may_drop_counters_is_warned_about(redis_client, memory, policy, said):
    redis_client.config_set("maxmemory", memory)
    redis_client.config_set("maxmemory-policy", policy)
    try:
        found = messages()
        assert ("ratelimit_rules.W005" in found) is bool(said)
        assert not said or f"by {policy} {said}" in found["ratelimit_rules.W005"].msg
    finally:
        redis_client.config_set("maxmemory", "0")
        redis_client.config_set("maxmemory-policy", "noeviction")


def test_a_redis_that_is_away_is_not_a_matter_of_the_checks(settings):
    settings.CACHES = alias({"SOCKET_TIMEOUT": 1, "SOCKET_CONNECT_TIMEOUT": 1}, "redis://127.0.0.1:1")
    assert messages() == {}


def test_manage_py_check_fails_on_an_error_and_can_be_silenced(db, settings):
    # In a plain check, Django 6.1 itself asks SQLite for JSON support.
    settings.RATELIMIT_RULES_HEADERS = "on"
    with pytest.raises(SystemCheckError, match=r"\(ratelimit_rules\.E006\) RATELIMIT_RULES_HEADERS is 'on'"):
        call_command("check", stderr=StringIO())
    settings.SILENCED_SYSTEM_CHECKS = ["ratelimit_rules.E006"]
    call_command("check", stdout=StringIO(), stderr=StringIO())


def test_the_first_migrate_finds_no_tables_and_reports_nothing():
    migrate = subprocess.run(
        [sys.executable, "-W", "error", "-m", "django", "migrate", "--verbosity", "1"],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert migrate.returncode == 0, migrate.stderr
    assert migrate.stderr == ""
    assert "Applying django_ratelimit_rules.0001_initial... OK" in migrate.stdout
