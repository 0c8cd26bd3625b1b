"""Cross-origin requests, with the real django-cors-headers before our middleware."""

# Report 30: a preflight is counted like a request.

from __future__ import annotations

import pytest
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import path

from django_ratelimit_rules import Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset

ORIGIN = "https://app.example"
PREFLIGHT = {"origin": ORIGIN, "access-control-request-method": "GET"}
CORS, OURS = "corsheaders.middleware.CorsMiddleware", "django_ratelimit_rules.middleware.RateLimitMiddleware"


@rate_limited("api")
def view(request):
    return HttpResponse("ok")


urlpatterns = [path("view/", view), path("plain/", view.__wrapped__)]


@pytest.fixture(autouse=True)
def _cors(settings):
    settings.ROOT_URLCONF = __name__
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "corsheaders"]
    settings.CORS_ALLOWED_ORIGINS = [ORIGIN]
    settings.CORS_EXPOSE_HEADERS = ["RateLimit", "RateLimit-Policy", "Retry-After"]


@pytest.fixture(params=["decorator", "middleware"])
def url(request, settings):
    """Return the address of a view that the limiter "api" checks."""
    settings.MIDDLEWARE = [CORS, *settings.MIDDLEWARE]
    if request.param == "decorator":
        return "/view/"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, OURS]
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["api"]
    return "/plain/"


def limit(*before):
    return override_ruleset("api", [*before, Rule("rule", limit=3, period=60, characteristics=["ip"])])


def test_preflights_are_answered_above_us_and_a_page_can_read_the_refusal(url):
    client = Client()
    with limit():
        for expected in (200, 200, 200, 429):
            preflight = client.options(url, headers=PREFLIGHT)
            assert (preflight.status_code, preflight["Access-Control-Allow-Origin"]) == (200, ORIGIN)
            assert "RateLimit" not in preflight
            response = client.get(url, headers={"origin": ORIGIN})
            assert (response.status_code, response["Access-Control-Allow-Origin"]) == (expected, ORIGIN)
            assert "RateLimit" in response["Access-Control-Expose-Headers"]
        assert client.options(url, headers=PREFLIGHT).status_code == 200


async def test_preflights_are_answered_above_us_under_asgi(url):
    client = AsyncClient()
    with limit():
        for expected in (200, 200, 200, 429):
            assert (await client.options(url, headers=PREFLIGHT)).status_code == 200
            response = await client.get(url, headers={"origin": ORIGIN})
            assert (response.status_code, response["Access-Control-Allow-Origin"]) == (expected, ORIGIN)


@pytest.mark.parametrize("above", [True, False])
def test_skip_rule_exempts_preflights_where_nothing_answers_them_first(settings, above):
    # Also if the CORS middleware is listed after RateLimitMiddleware.
    settings.MIDDLEWARE = [OURS, *settings.MIDDLEWARE] if above else [*settings.MIDDLEWARE, OURS]
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["api"]
    client = Client()
    with limit(Rule("preflight", action="skip", match={"preflight": True})):
        for expected in (200, 200, 200, 429):
            assert client.options("/plain/", headers=PREFLIGHT).status_code == 200
            assert client.get("/plain/").status_code == expected
        assert client.options("/plain/", headers=PREFLIGHT).status_code == 200
        assert client.options("/plain/").status_code == 429


def test_method_named_in_the_match_exempts_all_options_requests():
    client = Client()
    with limit(Rule("options", action="skip", match={"method": "OPTIONS"})):
        assert [client.options("/view/").status_code for _ in range(4)] == [200] * 4
