"""The decorator on each kind of view: counts once, blocks with a 429, keeps attributes."""

from __future__ import annotations

import functools
import warnings

import http_sf
import pytest
from asgiref.sync import iscoroutinefunction
from django.contrib.auth import get_user_model
from django.http import HttpResponse, StreamingHttpResponse
from django.test import AsyncClient, Client, RequestFactory
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import TemplateView

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset

ran = []


def answer(request, *args, **kwargs):
    ran.append(request.path)
    return HttpResponse(b"".join(str(value).encode() for value in (*args, *kwargs.values())))


@rate_limited("api")
def plain(request, **kwargs):
    return answer(request, **kwargs)


@rate_limited("api")
async def asynchronous(request, **kwargs):
    return answer(request, **kwargs)


@method_decorator(rate_limited("api"), name="dispatch")
class ClassA(View):
    def get(self, request):
        return answer(request)


@method_decorator(rate_limited("api"), name="dispatch")
class ClassB(ClassA):
    pass


class OnMethod(View):
    @method_decorator(rate_limited("api"))
    def get(self, request):
        return answer(request)

    def post(self, request):
        return answer(request)


@method_decorator(rate_limited("api"), name="dispatch")
class AsyncClass(View):
    async def get(self, request):
        return answer(request)


class AsyncOnMethod(View):
    @method_decorator(rate_limited("api"))
    async def get(self, request):
        return answer(request)


class Straight(View):
    @rate_limited("api")
    def get(self, request):
        return answer(request)


@method_decorator(rate_limited("api"), name="dispatch")
class Generic(TemplateView):
    template_name = "django_ratelimit_rules/429.html"


@rate_limited("api")
@csrf_exempt
def exempt_inside(request):
    return answer(request)


@csrf_exempt
@rate_limited("api")
def exempt_outside(request):
    return answer(request)


@rate_limited("api", methods=["get", "PUT"])
def some_methods(request):
    return answer(request)


@rate_limited("api", identifier=lambda request, team: {"team": team}, cost=lambda request, team: len(team))
def by_team(request, team):
    return answer(request)


async def _team(request, team):
    return {"team": team}


async def _size(request, team):
    return len(team)


@rate_limited("api", identifier=_team, cost=_size)
async def by_team_async(request, team):
    return answer(request)


@rate_limited("api")
def outer(request):
    return plain(request)


@rate_limited("other")
@rate_limited("api")
def two_limiters(request):
    return answer(request)


@rate_limited("api")
def streams(request):
    return StreamingHttpResponse(iter([b"a", b"b"]), headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})


@rate_limited("api")
def raises(request):
    ran.append(request.path)
    raise LookupError("the view's own error")


def with_partial(request, x):
    return answer(request, x)


urlpatterns = [
    path("plain/", plain),
    path("u/<int:pk>/", plain, name="u"),
    path("async/", asynchronous),
    path("a/", ClassA.as_view()),
    path("b/", ClassB.as_view()),
    path("method/", csrf_exempt(OnMethod.as_view())),
    path("async-class/", AsyncClass.as_view()),
    path("async-method/", AsyncOnMethod.as_view()),
    path("as-view/", rate_limited("api")(View.as_view())),
    path("straight/", Straight.as_view()),
    path("generic/", Generic.as_view()),
    path("partial/", rate_limited("api")(functools.partial(with_partial, x=1))),
    path("partial-async/", rate_limited("api")(functools.partial(_team, team="x"))),
    path("exempt-inside/", exempt_inside),
    path("exempt-outside/", exempt_outside),
    path("methods/", some_methods),
    path("team/<str:team>/", by_team),
    path("team-async/<str:team>/", by_team_async),
    path("outer/", outer),
    path("two/", two_limiters),
    path("streams/", streams),
    path("raises/", raises),
]


@pytest.fixture(autouse=True)
def _urls(settings):
    settings.ROOT_URLCONF = __name__
    ran.clear()


def limit(number=2, by=("ip",), **options):
    return override_ruleset("api", [Rule("rule", limit=number, period=60, characteristics=list(by), **options)])


def statuses(url, times=3, client=None, method="get", **options):
    client = client or Client()
    return [getattr(client, method)(url, **options).status_code for _ in range(times)]


SYNC = ["plain", "a", "method", "generic", "partial", "exempt-inside", "outer", "streams"]
ASYNC = ["async", "async-class", "async-method"]


@pytest.mark.parametrize("url", SYNC + ASYNC)
def test_every_kind_of_view_is_limited_under_wsgi(url):
    with limit(2):
        assert statuses(f"/{url}/") == [200, 200, 429]
    if ran:
        assert len(ran) == 2


@pytest.mark.parametrize("url", SYNC + ASYNC)
async def test_every_kind_of_view_is_limited_under_asgi(url):
    """Report 28: a decorated async view."""
    client = AsyncClient()
    with limit(2), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [(await client.get(f"/{url}/")).status_code for _ in range(3)] == [200, 200, 429]
    if ran:
        assert len(ran) == 2


def test_wrapper_has_the_colour_of_its_view():
    assert iscoroutinefunction(asynchronous)
    assert not iscoroutinefunction(plain)
    assert iscoroutinefunction(rate_limited("api")(AsyncClass.as_view()))
    assert iscoroutinefunction(rate_limited("api")(functools.partial(AsyncClass.as_view())))
    assert iscoroutinefunction(rate_limited("api")(functools.partial(_team, team="x")))


def test_headers_are_on_all_responses_and_retry_after_only_on_refusals():
    """Report 18: headers only on some responses."""
    with limit(1):
        first, second = (Client().get("/plain/") for _ in range(2))
    assert http_sf.parse(first["RateLimit"].encode(), tltype="list") == [("rule", {"r": 0, "t": 60})]
    assert second["RateLimit-Policy"] == '"rule";q=1;w=60'
    assert "Retry-After" not in first
    assert second["Retry-After"] == "60"


def test_view_that_sets_retry_after_itself_keeps_it():
    with limit():
        response = Client().get("/streams/")
    assert response["Retry-After"].startswith("Wed")
    assert b"".join(response.streaming_content) == b"ab"


def test_classes_count_separately_by_view():
    """Report 29: all class-based views look like the same view."""
    with limit(1, by=["view"]):
        assert [Client().get(url).status_code for url in ("/a/", "/b/", "/a/", "/partial/", "/partial/")] == [
            200,
            200,
            429,
            200,
            429,
        ]


def test_paths_of_one_route_share_a_counter_by_route_and_not_by_path():
    with limit(1, by=["route"]):
        assert [Client().get(url).status_code for url in ("/u/1/", "/u/2/")] == [200, 429]
    with limit(1, by=["path"]):
        assert [Client().get(url).status_code for url in ("/u/1/", "/u/2/", "/u/1/")] == [200, 200, 429]
    with limit(1, by=["kwarg.pk"]):
        assert [Client().get(url).status_code for url in ("/u/1/", "/u/2/", "/u/1/")] == [200, 200, 429]


@pytest.mark.parametrize("url", ["/exempt-inside/", "/exempt-outside/"])
def test_csrf_exemption_is_kept_in_either_order(url):
    with limit(1):
        assert statuses(url, 2, Client(enforce_csrf_checks=True), "post") == [200, 429]


def test_only_the_methods_named_are_checked_and_get_means_head():
    client = Client()
    with limit(2):
        answers = [getattr(client, method)("/methods/") for method in ("get", "post", "options", "head", "put", "post")]
    assert [response.status_code for response in answers] == [200, 200, 200, 200, 429, 200]
    assert ["RateLimit" in response for response in answers] == [True, False, False, True, True, False]


def test_one_method_of_a_class_is_limited_alone():
    with limit(1):
        assert statuses("/method/", 2) == [200, 429]
        assert statuses("/method/", 2, method="post") == [200, 200]


@pytest.mark.parametrize("url", ["team", "team-async"])
def test_identifier_and_cost_may_be_functions_of_the_call(url):
    with limit(6, by=["team"]):
        assert statuses(f"/{url}/abc/") == [200, 200, 429]
        assert statuses(f"/{url}/abcd/", 2) == [200, 429]


def test_nested_views_of_one_limiter_count_once():
    with limit(2):
        assert statuses("/outer/") == [200, 200, 429]


def test_two_limiters_each_count_and_the_headers_are_one_list():
    """Report 17."""
    with limit(10), override_ruleset("other", [Rule("slow", limit=5, period=60, characteristics=["ip"])]):
        response = Client().get("/two/")
    assert response["RateLimit-Policy"] == '"slow";q=5;w=60, "rule";q=10;w=60'
    assert response["RateLimit"] == '"slow";r=4;t=60'
    assert set(response.wsgi_request.rate_limits) == {"api", "other"}


def test_error_of_the_view_passes_through_and_is_counted():
    client = Client(raise_request_exception=False)
    with limit(2):
        assert statuses("/raises/", 3, client) == [500, 500, 429]
        with pytest.raises(LookupError, match="own error"):
            Client(REMOTE_ADDR="203.0.113.1").get("/raises/")


def test_put_straight_on_a_method_it_says_what_to_write():
    with limit(), pytest.raises(TypeError, match=r"got a Straight instead of the request.*@method_decorator"):
        Client().get("/straight/")


def test_on_a_class_or_on_no_view_the_error_shows_the_right_form():
    with pytest.raises(
        TypeError, match=r'for a class write @method_decorator\(rate_limited\(\'api\'\), name="dispatch"\)'
    ):
        rate_limited("api")(type("V", (View,), {}))
    with pytest.raises(TypeError, match="takes a view function"):
        rate_limited("api")(None)
    with pytest.raises(TypeError, match="must be a list"):
        rate_limited("api", methods="POST")


@pytest.mark.parametrize("cost", [-1, "5", None, float("inf"), True])
def test_a_cost_that_no_limiter_takes_is_refused_when_the_view_is_decorated(cost):
    with pytest.raises((TypeError, ValueError), match="cost must be"):
        rate_limited("api", cost=cost)


@pytest.mark.parametrize("methods", [["ALL"], ["*"], ["GET, POST"], [""], [None], []])
def test_methods_that_no_request_has_are_rejected_because_they_would_limit_nothing(methods):
    with pytest.raises(ValueError, match="omit methods"):
        rate_limited("api", methods=methods)


def test_limiter_object_is_the_same_checkpoint_as_its_name():
    view = rate_limited(Limiter("api"))(answer)
    with limit(1):
        request = RequestFactory().get("/")
        assert view(request).status_code == 200
        assert plain(RequestFactory().get("/")).status_code == 429
    assert request.rate_limits["api"].evaluations[0].remaining == 0


def test_switched_off_everything_passes_untouched(settings, keys):
    """Report 35: override_settings has no effect."""
    with limit(1):
        settings.RATELIMIT_RULES_ENABLED = False
        assert statuses("/plain/", 2) == [200, 200]
        assert keys() == []
        assert "RateLimit" not in Client().get("/plain/")
        settings.RATELIMIT_RULES_ENABLED = True
        assert statuses("/plain/", 2) == [200, 429]


def test_attributes_of_the_view_are_kept():
    assert (plain.__name__, plain.__module__) == ("plain", __name__)
    assert exempt_inside.csrf_exempt is True


def test_request_that_frameworks_wrap_is_limited_as_the_one_inside():
    class Wrapped:
        def __init__(self, request):
            self._request = request

    inner = RequestFactory().get("/")
    seen = []
    view = rate_limited("api")(lambda request: seen.append(request) or HttpResponse())
    wrapped = Wrapped(inner)
    with limit(1):
        assert view(wrapped)["RateLimit"] == '"rule";r=0;t=60'
    assert seen == [wrapped]
    assert "api" in inner.rate_limits


@pytest.mark.django_db(transaction=True)
async def test_async_view_counts_by_user():
    user = await get_user_model().objects.acreate_user("ann")
    client, stranger = AsyncClient(), AsyncClient()
    await client.aforce_login(user)
    with limit(1, by=["user"]):
        assert [(await client.get("/async/")).status_code for _ in range(2)] == [200, 429]
        assert [(await stranger.get("/async/")).status_code for _ in range(2)] == [200, 429]


def by_standing(request, *args, **kwargs):
    return 3 if request.user.is_staff else 1


STANDINGS = {
    "limit": (rate_limited("api"), by_standing),
    "cost": (rate_limited("api", cost=lambda request: 4 - by_standing(request)), 3),
    "identifier": (rate_limited("api", identifier=lambda request: {"ip": f"{by_standing(request)}"}), 3),
    "lazy": (rate_limited("api", identifier=lambda request: {"ip": request.user}), 3),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asked", STANDINGS)
@pytest.mark.parametrize("url", ["/standing/", "/standing-async/"])
async def test_computed_values_may_read_the_user_under_asgi(settings, asked, url):
    """Report 28: in async code the check failed, and the failure mode allowed each request."""
    decorator, number = STANDINGS[asked]

    async def on_the_loop(request):
        return HttpResponse()

    views = {"standing/": decorator(lambda request: HttpResponse()), "standing-async/": decorator(on_the_loop)}
    settings.ROOT_URLCONF = type("Urls", (), {"urlpatterns": [path(*view) for view in views.items()]})
    client = AsyncClient()
    await client.aforce_login(await get_user_model().objects.acreate(username="ann", is_staff=True))
    with override_ruleset(
        "api", [Rule("rule", limit=number, period=60, characteristics=["ip"])], failure_mode="closed"
    ):
        answers = [(await client.get(url)).status_code for _ in range(4)]
    assert answers == [200, 200, 200, 429]


@pytest.mark.django_db
def test_rule_by_user_varies_by_cookie_and_rule_by_address_does_not(django_assert_num_queries):
    """Report 31."""
    client = Client()
    client.force_login(get_user_model().objects.create_user("ann"))
    skip_first = [
        Rule("health", action="skip", match={"path": "/plain/"}),
        Rule("user", limit=1, period=60, characteristics=["user"]),
    ]
    for rules in ([Rule("ip", limit=9, period=60, characteristics=["ip"])], skip_first):
        with override_ruleset("api", rules), django_assert_num_queries(0):
            response = client.get("/plain/")
        assert "Cookie" not in response.get("Vary", "")
        assert response.wsgi_request.session.accessed is False
    with limit(1, by=["user"]):
        assert "Cookie" in client.get("/plain/")["Vary"]


@pytest.mark.parametrize("enabled", [True, False])
@override_ruleset("api", [Rule("r", limit=9, period=60)])
def test_a_view_finds_its_results_whether_or_not_anything_was_checked(rf, settings, enabled):
    settings.RATELIMIT_RULES_ENABLED = enabled
    view = rate_limited("api", methods=["POST"])(lambda request: HttpResponse(str(len(request.rate_limits))))
    assert [view(rf.get("/")).content, view(rf.post("/")).content] == [b"0", b"1" if enabled else b"0"]
