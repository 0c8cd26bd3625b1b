"""The middleware in all combinations of sync and async, before each view."""

from __future__ import annotations

import asyncio
import threading

import pytest
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.contrib.auth import get_user_model
from django.http import HttpResponse, HttpResponseForbidden
from django.test import AsyncClient, Client
from django.urls import include, path

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules import middleware as middleware_module
from django_ratelimit_rules.middleware import RateLimitMiddleware
from django_ratelimit_rules.testing import override_ruleset

MIDDLEWARE = "django_ratelimit_rules.middleware.RateLimitMiddleware"


def view(request, **kwargs):
    return HttpResponse("ok")


async def async_view(request, **kwargs):
    return HttpResponse("ok")


@rate_limited("site")
def also_decorated(request):
    return HttpResponse("ok")


@rate_limited("tight")
def other_limiter(request):
    return HttpResponse("ok")


def fails(request):
    raise LookupError("the view's own error")


def enforces(request):
    Limiter("calls").enforce({"key": "main"})
    return HttpResponse("ok")


async def async_enforces(request):
    await Limiter("calls").aenforce({"key": "main"})
    return HttpResponse("ok")


def forbidden_handler(request, exception):
    raise AssertionError("a refusal is no 403")


handler403 = forbidden_handler

urlpatterns = [
    path("view/", view),
    path("async/", async_view),
    path("item/<int:pk>/", view, name="item"),
    path("shop/", include(([path("item/<int:pk>/", view, name="item")], "shop"))),
    path("decorated/", also_decorated),
    path("other/", other_limiter),
    path("fails/", fails),
    path("enforces/", enforces),
    path("aenforces/", async_enforces),
]


class SyncOnly:
    """A sync middleware, for which Django switches between async and sync."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)


class AsyncOnly:
    sync_capable = False
    async_capable = True

    def __init__(self, get_response):
        self.get_response = get_response
        markcoroutinefunction(self)

    async def __call__(self, request):
        return await self.get_response(request)


class Cors(SyncOnly):
    """Like a CORS middleware, answer preflights and mark each other response."""

    def __call__(self, request):
        if request.method == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in request.META:
            response = HttpResponse()
        else:
            response = self.get_response(request)
        response["Access-Control-Allow-Origin"] = "*"
        return response


class ShortCut(SyncOnly):
    """Like a cache or a firewall, answer before each view."""

    def __call__(self, request):
        return HttpResponseForbidden()


threads: list[int] = []


class ThreadSpy(RateLimitMiddleware):
    """Record the thread of the check."""

    def __init__(self, get_response):
        super().__init__(get_response)
        check = self.process_view

        async def spy(*args):
            threads.append(threading.get_ident())
            return await check(*args)

        self.process_view = spy


@pytest.fixture(autouse=True)
def middleware(settings):
    """Choose the middleware around RateLimitMiddleware. The default is the usual list."""
    settings.ROOT_URLCONF = __name__
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["site"]
    usual = list(settings.MIDDLEWARE)

    def choose(*, outside=(), inside=(), ours=(MIDDLEWARE,)):
        settings.MIDDLEWARE = [
            *(f"{__name__}.{name}" for name in outside),
            *usual,
            *ours,
            *(f"{__name__}.{n}" for n in inside),
        ]

    choose()
    return choose


def limit(number=2, by=("ip",), limiter="site", **options):
    return override_ruleset(limiter, [Rule("rule", limit=number, period=60, characteristics=list(by), **options)])


def statuses(*urls, client=None, **options):
    client = client or Client()
    return [client.get(url, **options).status_code for url in urls]


async def astatuses(*urls):
    client = AsyncClient()
    return [(await client.get(url)).status_code for url in urls]


NEIGHBOURS = [((), ()), (("SyncOnly",), ()), ((), ("SyncOnly",)), (("AsyncOnly",), ()), ((), ("AsyncOnly",))]


@pytest.mark.parametrize("url", ["/view/", "/async/"])
@pytest.mark.parametrize(("outside", "inside"), NEIGHBOURS)
def test_wsgi_with_neighbours_of_any_colour(middleware, outside, inside, url):
    middleware(outside=outside, inside=inside)
    with limit(2):
        assert statuses(url, url, url) == [200, 200, 429]


@pytest.mark.parametrize("url", ["/view/", "/async/"])
@pytest.mark.parametrize(("outside", "inside"), NEIGHBOURS)
async def test_asgi_with_neighbours_of_any_colour(middleware, outside, inside, url):
    middleware(outside=outside, inside=inside)
    with limit(2):
        assert await astatuses(url, url, url) == [200, 200, 429]


async def test_asgi_check_runs_on_the_event_loop(middleware):
    middleware(ours=[f"{__name__}.ThreadSpy"])
    threads.clear()
    with limit(1):
        assert await astatuses("/async/", "/async/") == [200, 429]
    assert threads == [threading.get_ident()] * 2


def test_colour_is_that_of_the_inner_handler():
    async def inside(request):
        return HttpResponse()

    assert iscoroutinefunction(RateLimitMiddleware(inside))
    assert not iscoroutinefunction(RateLimitMiddleware(view))


def test_route_view_and_arguments_are_known():
    with limit(1, by=["route"]):
        assert statuses("/item/1/", "/item/2/", "/shop/item/1/") == [200, 429, 200]
    with limit(1, by=["kwarg.pk"]):
        assert statuses("/item/1/", "/item/2/", "/shop/item/1/") == [200, 200, 429]
    with limit(1, match={"route": "shop:item", "view": f"{__name__}.view"}):
        assert statuses("/item/1/", "/shop/item/1/", "/shop/item/1/", "/item/1/") == [200, 200, 429, 200]


def test_listed_twice_it_counts_once(middleware):
    middleware(ours=[MIDDLEWARE, MIDDLEWARE])
    with limit(2):
        assert statuses("/view/", "/view/", "/view/") == [200, 200, 429]


def test_same_limiter_by_middleware_and_decorator_counts_once():
    with limit(2):
        assert statuses("/decorated/", "/decorated/", "/decorated/") == [200, 200, 429]


def test_headers_are_written_once_and_belong_to_the_most_restrictive():
    """Report 17: a middleware with 10/60 and a decorator with 5/60 on one view."""
    with limit(10), limit(5, limiter="tight"):
        response = Client().get("/other/")
    assert response["RateLimit-Policy"] == '"site:rule";q=10;w=60, "tight:rule";q=5;w=60'
    assert response["RateLimit"] == '"tight:rule";r=4;t=60'


def test_legacy_headers_are_single_numbers(settings):
    settings.RATELIMIT_RULES_HEADERS = "legacy"
    with limit(10), limit(5, limiter="tight"):
        response = Client().get("/other/")
    names = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
    assert [int(response[name]) for name in names] == [5, 4, 60]


def test_limiters_are_asked_in_order_until_one_blocks(settings):
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["site", "tight"]
    with limit(1), limit(5, limiter="tight"):
        first, second = (Client().get("/view/") for _ in range(2))
    assert [response.status_code for response in (first, second)] == [200, 429]
    assert list(first.wsgi_request.rate_limits) == ["site", "tight"]
    assert list(second.wsgi_request.rate_limits) == ["site"]


@pytest.mark.parametrize(("names", "found"), [("site", [200, 429]), (None, [200, 200])])
def test_one_name_as_a_string_is_one_limiter_and_none_means_no_limiter(settings, names, found):
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = names
    with limit(1):
        assert statuses("/view/", "/view/") == found


@pytest.mark.parametrize("names", [["My Site", "site"], [["nested"], "site"], [None, "site"]], ids=str)
def test_an_invalid_limiter_name_is_logged_and_the_others_continue(settings, names, caplog):
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = names
    # Logged once in the life of the process.
    middleware_module._limiter.cache_clear()
    with limit(1):
        assert statuses("/view/", "/view/") == [200, 429]
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said.startswith(f"RATELIMIT_RULES_MIDDLEWARE_LIMITERS: {str(names[0])!r} is not a valid name")


@pytest.mark.parametrize("value", [5, True])
def test_an_invalid_list_of_limiters_checks_nothing_and_takes_no_site_down(settings, value):
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = value
    assert statuses("/view/") == [200]


def test_refusal_is_429_and_no_error_handler_runs():
    """Report 18: a 403 page instead of a 429."""
    with limit(1):
        first, second = (Client().get("/view/") for _ in range(2))
    assert [response.status_code for response in (first, second)] == [200, 429]
    assert "RateLimit" in first
    assert "RateLimit" in second
    assert "Retry-After" not in first
    assert second["Retry-After"] == "60"


@pytest.mark.parametrize("url", ["/enforces/", "/aenforces/"])
def test_call_that_a_view_enforces_is_refused_like_a_request(url):
    with limit(5), limit(1, ["key"], "calls"):
        first, second = (Client().get(url, headers={"Accept": "application/json"}) for _ in range(2))
    assert [response.status_code for response in (first, second)] == [200, 429]
    assert second.json()["violated-policies"] == ["calls:rule"]
    assert 1 <= int(second["Retry-After"]) <= 60
    assert second["RateLimit"].startswith('"calls:rule";r=0;t=')


async def test_call_that_a_view_enforces_is_refused_like_a_request_under_asgi():
    with limit(5), limit(1, ["key"], "calls"):
        assert await astatuses("/aenforces/", "/enforces/") == [200, 429]


def test_error_of_the_view_gets_headers_as_well():
    with limit(2):
        response = Client(raise_request_exception=False).get("/fails/")
    assert (response.status_code, response["RateLimit"]) == (500, '"rule";r=1;t=60')


def test_paths_that_nothing_answers_are_counted_too():
    with limit(2):
        assert statuses("/no/", "/nope/", "/never/", "/view/") == [404, 404, 429, 429]
        assert "RateLimit" in Client(REMOTE_ADDR="203.0.113.1").get("/no/")


async def test_paths_that_nothing_answers_are_counted_under_asgi_too():
    with limit(2):
        assert await astatuses("/no/", "/nope/", "/never/") == [404, 404, 429]


def test_answer_of_a_middleware_before_any_view_is_not_counted(middleware, keys):
    middleware(inside=["ShortCut"])
    with limit(1):
        assert statuses("/view/", "/view/") == [403, 403]
    assert keys() == []


def test_preflight_answered_outside_is_not_counted_and_a_refusal_gets_its_header(middleware):
    """Report 30: a preflight is counted like a request."""
    middleware(outside=["Cors"])
    preflight = {"HTTP_ORIGIN": "https://a.test", "HTTP_ACCESS_CONTROL_REQUEST_METHOD": "GET"}
    client = Client()
    with limit(2):
        for expected in (200, 200, 429):
            assert client.options("/view/", **preflight).status_code == 200
            response = client.get("/view/", HTTP_ORIGIN="https://a.test")
            assert (response.status_code, response["Access-Control-Allow-Origin"]) == (expected, "*")


def test_preflight_can_be_exempted_by_a_rule():
    """Report 30."""
    preflight = {"HTTP_ORIGIN": "https://a.test", "HTTP_ACCESS_CONTROL_REQUEST_METHOD": "GET"}
    rules = [
        Rule("preflight", action="skip", match={"preflight": True}),
        Rule("ip", limit=2, period=60, characteristics=["ip"]),
    ]
    client = Client()
    with override_ruleset("site", rules):
        for expected in (200, 200, 429):
            assert client.options("/view/", **preflight).status_code == 200
            assert client.get("/view/").status_code == expected


def test_switched_off_everything_passes_untouched(settings, keys):
    settings.RATELIMIT_RULES_ENABLED = False
    with limit(0):
        response = Client().get("/view/")
        assert Client().get("/no/").status_code == 404
    assert response.status_code == 200
    assert "RateLimit" not in response
    assert keys() == []
    settings.RATELIMIT_RULES_ENABLED = True
    with limit(0):
        assert statuses("/view/") == [429]


def test_no_client_address_is_limited_as_one_unknown_client(settings):
    """Report 1: (a) and (b)."""
    with limit(2):
        assert statuses("/view/", "/view/", "/view/", REMOTE_ADDR="") == [200, 200, 429]
        settings.RATELIMIT_RULES_PROXY_HOPS = 1
        behind = {"REMOTE_ADDR": "", "HTTP_X_FORWARDED_FOR": "203.0.113.7"}
        assert statuses("/view/", "/view/", "/view/", **behind) == [200, 200, 429]
        assert statuses("/view/", **(behind | {"HTTP_X_FORWARDED_FOR": "203.0.113.8"})) == [200]


def test_no_client_address_lies_in_no_network():
    """Report 1: (c)."""
    rules = [
        Rule("all", action="skip", match={"ip": {"cidr": ["0.0.0.0/0", "::/0"]}}),
        Rule("rest", limit=0, period=60),
    ]
    with override_ruleset("site", rules):
        assert statuses("/view/", REMOTE_ADDR="") == [429]
        assert statuses("/view/", REMOTE_ADDR="203.0.113.1") == [200]


def test_invented_addresses_get_no_fresh_quota_and_use_up_no_other(settings):
    """Report 2: the left-most entry of X-Forwarded-For is trusted."""
    settings.RATELIMIT_RULES_PROXY_HOPS = 1
    client = Client(REMOTE_ADDR="10.0.0.2")
    with limit(3):
        claims = [f"192.0.2.{n}, 198.51.100.9" for n in range(1, 5)]
        assert [client.get("/view/", HTTP_X_FORWARDED_FOR=claim).status_code for claim in claims] == [
            200,
            200,
            200,
            429,
        ]
        assert client.get("/view/", HTTP_X_FORWARDED_FOR="192.0.2.1")["RateLimit"] == '"rule";r=2;t=60'


def test_address_with_a_port_is_the_same_client(settings):
    """Report 3."""
    settings.RATELIMIT_RULES_PROXY_HOPS = 1
    with limit(2):
        for clients in (
            ["198.51.100.7:1111", "198.51.100.7:2222", "198.51.100.7"],
            ["[2001:db8::5]:443", "[2001:db8::5]", "2001:db8::5"],
        ):
            assert [statuses("/view/", HTTP_X_FORWARDED_FOR=one)[0] for one in clients] == [200, 200, 429]
        assert statuses("/view/", HTTP_X_FORWARDED_FOR="198.51.100.8:1111") == [200]


def test_ipv6_host_is_counted_by_its_network(keys):
    """Report 4."""
    with limit(3):
        hosts = [f"2001:db8:0:1::{n}" for n in range(1, 5)]
        assert [statuses("/view/", REMOTE_ADDR=host)[0] for host in hosts] == [200, 200, 200, 429]
        others = ["2001:db8:0:2::1", *(f"203.0.113.{n}" for n in range(4))]
        assert [statuses("/view/", REMOTE_ADDR=host)[0] for host in others] == [200] * 5
    assert len(keys()) == 6


@pytest.mark.django_db
def test_rule_by_address_reads_no_session_and_no_user(django_assert_num_queries):
    """Report 31: access to request.user makes each page uncacheable."""
    client = Client()
    client.force_login(get_user_model().objects.create_user("ann"))
    with limit(5), django_assert_num_queries(0):
        response = client.get("/view/")
    assert "Cookie" not in response.get("Vary", "")
    assert response.wsgi_request.session.accessed is False


@pytest.mark.django_db
@pytest.mark.parametrize("number", [1, 20])
@pytest.mark.parametrize(
    "match",
    [
        {"is_authenticated": True, "path": "/other/"},
        {"user": "7", "path": {"glob": "/other/**"}},
        {"is_staff": True, "method": {"not": "GET"}},
        [{"is_staff": True, "path": {"exists": False}}, {"user": "7", "method": "POST"}],
        {"post.name": "ann", "user": "7", "header.x-tag": {"exists": True}},
        [{"is_authenticated": True}, {"path": "/view/"}],
    ],
)
def test_rule_with_another_path_reads_no_session_in_any_order_of_conditions(django_assert_num_queries, match, number):
    client = Client()
    client.force_login(get_user_model().objects.create_user("ann"))
    rules = [Rule(f"rule{n}", limit=5, period=60, match=match) for n in range(number)]
    with override_ruleset("site", rules), django_assert_num_queries(0):
        response = client.get("/view/")
    assert "Cookie" not in response.get("Vary", "")
    assert response.wsgi_request.session.accessed is False


async def test_parallel_asgi_requests_let_exactly_the_limit_through():
    async def one():
        return (await AsyncClient().get("/async/")).status_code

    with limit(5):
        found = await asyncio.gather(*(one() for _ in range(20)))
    assert sorted(found) == [200] * 5 + [429] * 15
