"""A blocked request gets a 429, and the same response from the decorator, the middleware and both."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import http_sf
import pytest
from django.http import HttpResponse, JsonResponse
from django.test import AsyncClient, Client, RequestFactory
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View

from django_ratelimit_rules import Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset, reset_counters

OURS = "django_ratelimit_rules.middleware.RateLimitMiddleware"
handled = []


def record(request, exception=None):
    handled.append(request.path)
    return HttpResponse(status=500)


handler403 = handler404 = handler500 = record


def plain(request):
    return HttpResponse("ok")


async def asynchronous(request):
    return HttpResponse("ok")


class Page(View):
    def get(self, request):
        return HttpResponse("ok")


class Other(Page):
    pass


def echo(request):
    """Read the whole request as views do, after the rules have read it."""
    form = {"form": request.POST.get("email")} if request.content_type != "application/json" else {}
    return JsonResponse({**form, "size": len(request.body)})


limited = rate_limited("api")
limited_plain = limited(plain)


@method_decorator(limited, name="dispatch")
class LimitedPage(Page):
    pass


@method_decorator(limited, name="dispatch")
class LimitedOther(Page):
    pass


urlpatterns = [
    path("plain/", plain),
    path("async/", asynchronous),
    path("page/", Page.as_view()),
    path("same-page/", Page.as_view(), name="same"),
    path("other/", Other.as_view()),
    path("echo/", echo),
    path("limited/plain/", limited_plain),
    path("limited/async/", limited(asynchronous)),
    path("limited/page/", LimitedPage.as_view()),
    path("limited/same-page/", LimitedPage.as_view(), name="limited-same"),
    path("limited/other/", LimitedOther.as_view()),
    path("limited/echo/", limited(echo)),
]


@pytest.fixture(autouse=True)
def _site(settings):
    settings.ROOT_URLCONF = __name__
    settings.DEBUG = False
    handled.clear()


@pytest.fixture(params=["decorator", "middleware", "both"])
def at(request, settings):
    """Return a function that returns the address of a view. The decorator, the middleware or both check the limiter."""
    if request.param != "decorator":
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, OURS]
        settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["api"]
    return lambda name: f"/{name}/" if request.param == "middleware" else f"/limited/{name}/"


def limit(number=1, by=("ip",), **options):
    return override_ruleset("api", [Rule("per_client", limit=number, period=60, characteristics=list(by))], **options)


def structured(response, name):
    return http_sf.parse(response[name].encode(), tltype="list")


@pytest.mark.parametrize("view", ["plain", "async", "page"])
def test_refusal_is_429_on_the_wire_and_no_error_handler_of_the_site_runs(at, view):
    # Report 18: a 403 page instead of a 429, or headers only on some responses.
    with limit():
        first, second = (Client().get(at(view), headers={"accept": "application/json"}) for _ in range(2))
    assert [first.status_code, second.status_code] == [200, 429]
    for response, left in ((first, 0), (second, 0)):
        assert structured(response, "RateLimit-Policy") == [("per_client", {"q": 1, "w": 60})]
        ((name, rest),) = structured(response, "RateLimit")
        assert (name, rest["r"]) == ("per_client", left)
        assert 59 <= rest["t"] <= 60
    assert "Retry-After" not in first
    assert second["Retry-After"] in ("59", "60")
    assert second["Cache-Control"] == "no-store"
    assert second["Content-Type"] == "application/problem+json"
    assert json.loads(second.content)["violated-policies"] == ["per_client"]
    assert handled == []


async def test_refusal_is_the_same_under_asgi(at):
    with limit():
        responses = [await AsyncClient().get(at("async")) for _ in range(2)]
    assert [one.status_code for one in responses] == [200, 429]
    assert all("RateLimit" in one for one in responses)
    assert handled == []


@pytest.mark.parametrize(
    ("options", "present"), [({"mode": "enforce"}, True), ({"mode": "dry_run"}, False), ({"mode": "off"}, False)]
)
def test_only_a_ruleset_that_enforces_sends_headers(at, options, present):
    with limit(**options):
        responses = [Client().get(at("plain")) for _ in range(2)]
    assert [one.status_code for one in responses] == [200, 429 if present else 200]
    assert [("RateLimit" in one, "RateLimit-Policy" in one) for one in responses] == [(present, present)] * 2


@pytest.mark.parametrize(("failure_mode", "status"), [("open", 200), ("closed", 503)])
def test_failed_check_sends_no_headers_and_failing_closed_sends_retry_after(at, settings, failure_mode, status):
    dead = settings.CACHES["default"] | {"LOCATION": "redis://127.0.0.1:1/0"}
    settings.CACHES = {**settings.CACHES, "dead": dead}
    settings.RATELIMIT_RULES_CACHE_ALIAS = "dead"
    with limit(failure_mode=failure_mode):
        response = Client().get(at("plain"))
    assert response.status_code == status
    assert "RateLimit" not in response
    assert response.get("Retry-After") == ("1" if status == 503 else None)
    assert handled == []


def test_limit_that_waiting_would_not_lift_names_no_time(at):
    with limit(0):
        response = Client().get(at("plain"))
    assert response.status_code == 429
    assert "Retry-After" not in response
    assert structured(response, "RateLimit")[0][1]["r"] == 0


def test_two_routes_to_one_class_are_one_view_and_two_routes(at):
    # Report 29: all class-based views look like the same view.
    urls = [at("page"), at("same-page"), at("other")]
    with limit(by=["view"]):
        assert [Client().get(url).status_code for url in urls] == [200, 429, 200]
    reset_counters()
    with limit(by=["route"]):
        assert [Client().get(url).status_code for url in (*urls, *urls)] == [200, 200, 200, 429, 429, 429]


def test_request_without_a_peer_is_one_unknown_client_and_never_an_error():
    # Report 1 (a): no client address, here with the key missing.
    requests = [RequestFactory().get("/limited/plain/") for _ in range(3)]
    for request in requests:
        del request.META["REMOTE_ADDR"]
    with limit(2):
        assert [limited_plain(request).status_code for request in requests] == [200, 200, 429]


@pytest.mark.parametrize("kind", ["form", "multipart", "json"])
def test_body_that_a_rule_has_read_is_left_for_the_view(at, kind):
    sent = {
        "form": {"data": urlencode({"email": "a@b.test"}), "content_type": "application/x-www-form-urlencoded"},
        "multipart": {"data": {"email": "a@b.test"}},
        "json": {"data": {"email": "a@b.test"}, "content_type": "application/json"},
    }[kind]
    name = "json.email" if kind == "json" else "post.email"
    with limit(1, by=[name]):
        first = Client().post(at("echo"), **sent).json()
        assert Client().post(at("echo"), **sent).status_code == 429
    assert first["size"] > 15
    assert kind == "json" or first["form"] == "a@b.test"
