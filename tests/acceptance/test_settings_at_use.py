"""Settings are read on each use, so a change and its end take effect at once."""

# Report 35: `override_settings` has no effect.

from __future__ import annotations

import pytest
from django.http import HttpResponse
from django.test import Client, override_settings
from django.urls import path

from django_ratelimit_rules import Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset, reset_counters


def fails():
    raise LookupError("no limit today")


urlpatterns = [
    path("one/", rate_limited("one")(lambda request: HttpResponse())),
    path("failing/", rate_limited("failing")(lambda request: HttpResponse())),
    path("plain/", lambda request: HttpResponse()),
]


@pytest.fixture(autouse=True)
def _site(settings):
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = ["django_ratelimit_rules.middleware.RateLimitMiddleware"]
    settings.CACHES = {**settings.CACHES, "other": settings.CACHES["default"] | {"KEY_PREFIX": "other"}}
    one = Rule("one", limit=1, period=60, characteristics=["ip"])
    failing = Rule("failing", limit=fails, period=60)
    bypass = [Rule("bypass", action="skip", match={"bypass": True}), Rule("all", limit=0, period=60)]
    with override_ruleset("one", [one]), override_ruleset("failing", [failing]), override_ruleset("bypass", bypass):
        yield


def twice(url="/one/", **meta):
    """Return the status of a second request, after the first one reached the limit."""
    reset_counters()
    return [Client().get(url, **meta).status_code for _ in range(2)][1]


def enabled():
    return twice()


def cache_alias():
    """Return whether the limiter uses the counter of the default cache, which has reached its limit."""
    return Client().get("/one/", REMOTE_ADDR="203.0.113.50").status_code


def failure_mode():
    return Client().get("/failing/").status_code


def hops():
    reset_counters()
    claims = [{"HTTP_X_FORWARDED_FOR": claim} for claim in ("203.0.113.1", "203.0.113.2")]
    return [Client().get("/one/", **claim).status_code for claim in claims]


def headers():
    reset_counters()
    return sorted(name for name in Client().get("/one/").headers if "RateLimit" in name)


def ipv6():
    reset_counters()
    return [Client().get("/one/", REMOTE_ADDR=f"2001:db8::{host}").status_code for host in (1, 2)]


def blocked_view():
    return twice()


def own_answer(request, result):
    return HttpResponse(status=420)


def bypass():
    with override_settings(RATELIMIT_RULES_MIDDLEWARE_LIMITERS=["bypass"]):
        return Client().get("/plain/", HTTP_X_PASS="1").status_code


@pytest.mark.parametrize(
    ("ask", "setting", "value", "usual", "changed"),
    [
        (enabled, "ENABLED", False, 429, 200),
        (failure_mode, "FAILURE_MODE", "closed", 200, 503),
        (hops, "PROXY_HOPS", 1, [200, 429], [200, 200]),
        (hops, "TRUSTED_PROXIES", ["127.0.0.0/8"], [200, 429], [200, 200]),
        (headers, "HEADERS", "off", ["RateLimit", "RateLimit-Policy"], []),
        (
            headers,
            "HEADERS",
            "legacy",
            ["RateLimit", "RateLimit-Policy"],
            ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"],
        ),
        (ipv6, "IPV6_PREFIX", 128, [200, 429], [200, 200]),
        (blocked_view, "BLOCKED_VIEW", f"{__name__}.own_answer", 429, 420),
        (bypass, "BYPASS_HEADER", "X-Pass", 429, 200),
        (enabled, "MIDDLEWARE_LIMITERS", ["bypass"], 429, 429),
    ],
)
def test_setting_takes_effect_at_once_and_is_gone_with_the_block(ask, setting, value, usual, changed):
    for _ in range(2):
        assert ask() == usual
        with override_settings(**{f"RATELIMIT_RULES_{setting}": value}):
            assert ask() == changed
    assert ask() == usual


def test_cache_alias_and_key_prefix_choose_the_counters_at_once():
    assert [cache_alias(), cache_alias()] == [200, 429]
    for change in ({"CACHE_ALIAS": "other"}, {"KEY_PREFIX": "elsewhere"}):
        with override_settings(**{f"RATELIMIT_RULES_{name}": value for name, value in change.items()}):
            assert [cache_alias(), cache_alias()] == [200, 429]
        assert cache_alias() == 429
        with override_settings(**{f"RATELIMIT_RULES_{name}": value for name, value in change.items()}):
            assert cache_alias() == 429


UNUSABLE = [("IPV6_PREFIX", bits) for bits in (0, 129, -1, None, "x", True)]
UNUSABLE += [("DENIAL_CACHE", many) for many in (-1, "x", 1.5)]


@pytest.mark.parametrize(("setting", "value"), UNUSABLE)
def test_a_number_that_cannot_be_used_fails_no_request_for_web_servers_run_no_checks(setting, value):
    with override_settings(**{f"RATELIMIT_RULES_{setting}": value}):
        assert ipv6() == [200, 429]
        assert Client().get("/one/", REMOTE_ADDR="2001:db8:0:1::1").status_code == 200
