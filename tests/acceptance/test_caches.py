"""Page caches and all kinds of responses: no client sees another client's numbers, and page content stays unchanged."""

from __future__ import annotations

import pickle

import pytest
from django.http import FileResponse, HttpResponse, HttpResponseNotModified, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.test import AsyncClient, Client
from django.urls import path
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page
from django.views.decorators.http import condition
from django.views.generic import TemplateView

from django_ratelimit_rules import Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset

OURS = "django_ratelimit_rules.middleware.RateLimitMiddleware"
UPDATE = "django.middleware.cache.UpdateCacheMiddleware"
FETCH = "django.middleware.cache.FetchFromCacheMiddleware"
CONDITIONAL = "django.middleware.http.ConditionalGetMiddleware"
ANN, BOB = "203.0.113.1", "203.0.113.2"

ran = []


def page(request):
    ran.append(request.META["REMOTE_ADDR"])
    return HttpResponse("page", headers={"X-RateLimit-Limit": "of an upstream"})


def rendered(request):
    ran.append(request.META["REMOTE_ADDR"])
    return TemplateResponse(request, "django_ratelimit_rules/429.html", {"title": "page"})


class Generic(TemplateView):
    template_name = "django_ratelimit_rules/429.html"

    def get_context_data(self, **kwargs):
        ran.append(self.request.META["REMOTE_ADDR"])
        return super().get_context_data(title="page")


cached, limited = cache_page(60, cache="pages"), rate_limited("api")
VIEWS = {"function": page, "template": rendered}
urlpatterns = [
    *(path(f"limit-inside/{name}/", cached(limited(view))) for name, view in VIEWS.items()),
    *(path(f"limit-outside/{name}/", limited(cached(view))) for name, view in VIEWS.items()),
    path("limit-inside/generic/", method_decorator([cached, limited], name="dispatch")(Generic).as_view()),
    path(
        "limit-outside/generic/",
        method_decorator([limited, cached], name="dispatch")(type("Outside", (Generic,), {})).as_view(),
    ),
    path("plain/", page),
    path("decorated/", limited(page)),
    path("tagged/", limited(condition(etag_func=lambda request: '"tag"')(page))),
    path("not-modified/", limited(lambda request: HttpResponseNotModified())),
    path("file/", limited(lambda request: FileResponse(open(__file__, "rb")))),  # noqa: SIM115 -- Django closes it
    path("stream/", limited(lambda request: StreamingHttpResponse(iter([b"a", b"b"])))),
    path("template/", limited(rendered)),
]


@pytest.fixture(autouse=True, params=["memory", "redis"])
def _pages(settings, request):
    backend = settings.CACHES["default"] | {"KEY_PREFIX": "pages"}
    if request.param == "memory":
        backend = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "pages"}
    settings.CACHES = {**settings.CACHES, "pages": backend}
    settings.CACHE_MIDDLEWARE_ALIAS = "pages"
    settings.ROOT_URLCONF = __name__
    from django.core.cache import caches

    caches["pages"].clear()
    ran.clear()


@pytest.fixture
def middleware(settings):
    """Return a function that adds middleware outside and inside of the usual list. This app's gets a limiter."""
    usual = list(settings.MIDDLEWARE)

    def choose(*names):
        settings.MIDDLEWARE = [*names, *usual] if FETCH not in names else [*names[:-1], *usual, names[-1]]
        settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["api"]

    return choose


def limit(number=3):
    return override_ruleset("api", [Rule("rule", limit=number, period=60, characteristics=["ip"])])


def get(url, address, **headers):
    return Client(REMOTE_ADDR=address).get(url, headers=headers)


def rest(response):
    return response.get("RateLimit", "").partition(";t=")[0]


@pytest.mark.parametrize("view", ["function", "template", "generic"])
def test_cache_outside_of_the_limit_answers_without_counting_and_without_numbers(view):
    url = f"/limit-inside/{view}/"
    with limit():
        first, second, again = get(url, ANN), get(url, BOB), get(url, ANN)
    assert [rest(one) for one in (first, second, again)] == ['"rule";r=2', "", ""]
    assert "RateLimit-Policy" not in second
    assert second.content == first.content
    assert ran == [ANN]


@pytest.mark.parametrize("view", ["function", "template", "generic"])
def test_cache_inside_of_the_limit_counts_each_reader_and_shows_their_own_numbers(view):
    url = f"/limit-outside/{view}/"
    with limit(2):
        answers = [get(url, address) for address in (ANN, BOB, ANN, ANN, BOB)]
    assert [rest(one) for one in answers] == [f'"rule";r={n}' for n in (1, 1, 0, 0, 0)]
    assert [one.status_code for one in answers] == [200, 200, 200, 429, 200]
    assert ran == [ANN]


@pytest.mark.parametrize("url", ["/plain/", "/decorated/"])
@pytest.mark.parametrize("order", [(UPDATE, OURS, FETCH), (OURS, UPDATE, FETCH)])
def test_cache_middleware_in_either_order_stores_no_numbers(middleware, order, url):
    middleware(*order)
    with limit():
        first, second, third = get(url, ANN), get(url, BOB), get(url, ANN)
    assert [rest(one) for one in (first, second, third)] == ['"rule";r=2', "", ""]
    assert second["X-RateLimit-Limit"] == "of an upstream"
    assert ran == [ANN]


@pytest.mark.parametrize("order", [(UPDATE, OURS, FETCH), (OURS, UPDATE, FETCH)])
async def test_cache_middleware_in_either_order_stores_no_numbers_under_asgi(middleware, order):
    middleware(*order)
    with limit():
        first, second = [await AsyncClient().get("/plain/") for _ in range(2)]
    assert [rest(one) for one in (first, second)] == ['"rule";r=2', ""]


@pytest.mark.parametrize("order", [(UPDATE, OURS, FETCH), (OURS, UPDATE, FETCH)])
@pytest.mark.parametrize("url", ["/plain/", "/limit-inside/function/"])
def test_refusal_is_never_kept(middleware, order, url):
    middleware(*order)
    with limit(0):
        assert get(url, ANN).status_code == 429
    with limit(1):
        assert get(url, BOB).status_code == 200


def test_legacy_headers_are_not_stored_either(settings):
    settings.RATELIMIT_RULES_HEADERS = "legacy"
    with limit():
        first, second = get("/limit-inside/template/", ANN), get("/limit-inside/template/", BOB)
    assert first["X-RateLimit-Limit"] == "3"
    assert not [name for name in second.headers if "ratelimit" in name.lower()]


def test_copy_of_a_response_loses_only_our_headers():
    with limit():
        response = get("/decorated/", ANN)
    kept = pickle.loads(pickle.dumps(response.headers))
    assert set(response.headers) - set(kept) == {"RateLimit", "RateLimit-Policy"}
    assert kept["x-ratelimit-limit"] == "of an upstream"
    assert response["RateLimit"]


# --- responses of all kinds stay unchanged


def test_not_modified_answers_carry_the_numbers(middleware):
    with limit():
        first = get("/tagged/", ANN)
        second = get("/tagged/", ANN, if_none_match=first["ETag"])
        third = get("/not-modified/", ANN)
    assert [one.status_code for one in (first, second, third)] == [200, 304, 304]
    assert [rest(one) for one in (first, second, third)] == [f'"rule";r={n}' for n in (2, 1, 0)]
    assert second.content == b""


def test_middleware_above_the_conditional_one_numbers_its_not_modified_answers_too(middleware):
    middleware(OURS, CONDITIONAL)
    with limit():
        first = get("/plain/", ANN)
        second = get("/plain/", ANN, if_none_match=first["ETag"])
    assert (second.status_code, rest(second)) == (304, '"rule";r=1')


def test_head_is_answered_as_get_and_counts_with_it():
    with limit():
        answers = [getattr(Client(REMOTE_ADDR=ANN), method)("/decorated/") for method in ("head", "get", "options")]
    assert [rest(one) for one in answers] == [f'"rule";r={n}' for n in (2, 1, 0)]
    assert answers[0].content == b""


@pytest.mark.django_db  # Closing a response uses the database connections.
@pytest.mark.parametrize(("url", "content"), [("/file/", b"no client is told"), ("/stream/", b"ab")])
def test_files_and_streams_are_sent_untouched(url, content):
    with limit():
        response = get(url, ANN)
        assert content in b"".join(response.streaming_content)
        response.close()
    assert rest(response) == '"rule";r=2'
    assert response.streaming


def test_template_answer_is_left_for_template_middleware_to_change():
    with limit():
        response = get("/template/", ANN)
    assert response.context_data == {"title": "page"}
    assert b"page" in response.content
