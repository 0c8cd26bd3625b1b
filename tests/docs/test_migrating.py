"""The migration guide: its commands run, and its examples limit as described, with the real libraries."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import path

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take
from tests.docs.running import define, serve, shell

pytestmark = pytest.mark.django_db

(READ,) = take("docs/migrating.md#1-read")
BEFORE, AFTER, SEVERAL = take("docs/migrating.md#from-django-ratelimit")
REST_BEFORE, REST_AFTER, REST_FUNCTION = take("docs/migrating.md#from-django-rest-framework")
SMART, SMART_RULE = take("docs/migrating.md#from-django-smart-ratelimit")
(ANYTHING,) = take("docs/migrating.md#from-anything-else")
(COMPARED,) = take("docs/migrating.md#3-compare")


@pytest.fixture(autouse=True)
def _fresh_cache():
    cache.clear()


@pytest.fixture
def served(settings):
    """Return a function that serves a view and returns the statuses of some calls."""

    def serve(view, times: int, **options) -> list[int]:
        settings.ROOT_URLCONF = type("Urls", (), {"urlpatterns": [path("", view)]})
        return [Client().generic(options.get("method", "GET"), "/").status_code for _ in range(times)]

    return serve


@pytest.mark.urls("tests.contrib.old_site")
def test_the_commands_read_plan_and_apply_drafts(tmp_path):
    # `ratelimit_plan` ends with 2 if the draft would change rules.
    assert [ran.status for ran in shell(READ, tmp_path)] == [0, 2, 0]
    assert Ruleset.objects.get(name="search").mode == "dry_run"


@pytest.mark.parametrize("mode", ["off", "dry_run"])
def test_django_ratelimit_still_decides_with_its_own_counters(served, mode):
    with override_ruleset("search", [], mode=mode):
        old, new = define(BEFORE)["search"], define(AFTER)["search"]
        assert served(old, 3) == [200] * 3
        assert served(new, 3) == [200, 200, 403]
    with override_ruleset("search", [Rule("one", characteristics=["ip"], limit=1, period=60)]):
        assert served(new, 2) == [200, 429]


def test_the_old_decorator_decides_until_the_ruleset_enforces(settings):
    client = serve(settings, search=define(AFTER)["search"])
    with override_ruleset("search", [], mode="off"):
        assert [client.get("/search/").status_code for _ in range(6)] == [200] * 5 + [403]
    with override_ruleset("search", [Rule("none", limit=0, period=60)]):
        assert client.get("/search/").status_code == 429


def test_several_decorators_of_one_view_become_one(served):
    with override_ruleset("sign_up", [], mode="off"):
        # All requests without an address share a counter of ten.
        assert served(define(AFTER, SEVERAL)["sign_up"], 11, method="POST") == [200] * 10 + [403]


@pytest.mark.parametrize("mode", ["off", "dry_run"])
def test_rest_framework_s_throttles_still_decide(served, mode, monkeypatch):
    from rest_framework.throttling import AnonRateThrottle, UserRateThrottle

    monkeypatch.setattr(UserRateThrottle, "rate", "2/hour", raising=False)
    monkeypatch.setattr(AnonRateThrottle, "rate", "3/hour", raising=False)
    answering = "\n\n    def get(self, request):\n        from rest_framework.response import Response\n"
    answering += "        return Response([])\n"
    old, new = (define(source.rstrip() + answering)["Items"].as_view() for source in (REST_BEFORE, REST_AFTER))
    latest = define(REST_FUNCTION)["latest"]
    with override_ruleset("user", [], mode=mode), override_ruleset("anon", [], mode=mode):
        assert served(old, 1) == [200]
        assert served(new, 2) == [200, 429]
        cache.clear()
        assert served(latest, 3) == [200, 200, 429]
    enforced = [Rule("one", characteristics=["user"], limit=1, period=60)]
    with override_ruleset("user", enforced), override_ruleset("anon", [], mode="off"):
        assert served(new, 2) == [200, 429]


def test_django_smart_ratelimit_still_decides_and_the_rule_agrees(served):
    view = define(SMART)["search"]
    ruleset = ruleset_text.load(SMART_RULE, "guide.yaml")["search"]
    with override_ruleset("search", ruleset.rules, mode="dry_run"):
        assert served(view, 7) == [200] * 5 + [429] * 2
        # This app counted the blocked calls too, and would have blocked the same ones.
        assert Limiter("search").peek({"ip": "127.0.0.1"}).exceeded
    with override_ruleset("search", ruleset.rules):
        assert served(view, 1) == [429]


def test_code_without_a_request_compares():
    send = define(ANYTHING)["send"]
    mail = SimpleNamespace(team=7)
    full, empty = (SimpleNamespace(is_full=lambda team, full=full: full) for full in (True, False))
    with override_ruleset("mails", [Rule("one", characteristics=["team"], limit=1, period=60)], mode="dry_run"):
        assert [send(mail, limiter) for limiter in (full, empty, empty)] == [False, True, True]
    with override_ruleset("mails", [Rule("none", characteristics=["team"], limit=0, period=60)]):
        assert not send(mail, empty)


def test_the_log_line_that_the_guide_shows_is_the_one_that_is_written(caplog):
    words = re.findall(r"(\w+)=", COMPARED)
    with override_ruleset("search", [Rule("none", limit=0, period=3600)], mode="dry_run"):
        Limiter("search").compare({}, legacy_blocked=False)
    (line,) = [record.getMessage() for record in caplog.records if "compared" in record.getMessage()]
    assert re.findall(r"(\w+)=", line) == words
