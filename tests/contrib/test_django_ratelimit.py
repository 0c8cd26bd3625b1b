"""The real django-ratelimit together with this app: the same counters and refusals, until the ruleset enforces."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View
from django_ratelimit.decorators import ratelimit as old_ratelimit

from django_ratelimit_rules import Rule, rate_limited
from django_ratelimit_rules.contrib.django_ratelimit import ratelimit, several
from django_ratelimit_rules.testing import override_ruleset

HOUR = {"characteristics": ["ip"], "period": "1h"}


def view(request, name="view"):
    return HttpResponse("limited" if getattr(request, "limited", False) else "fine")


def named_view(name):
    """Return a function that makes a view with its own name, because django-ratelimit counts by the name."""

    def made(request):
        return view(request)

    made.__name__ = made.__qualname__ = name
    return made


def class_view(decorator):
    """Return a class-based view with a decorator on its method, as projects have it."""

    class Search(View):
        @method_decorator(decorator)
        def get(self, request):
            return view(request)

    return Search.as_view()


def by_plan(group, request):
    return None if request.headers.get("X-Plan") == "pro" else "2/h"


urlpatterns = [
    path("old/", old_ratelimit(key="ip", rate="2/h")(named_view("search"))),
    path("new/", rate_limited("moved", legacy=ratelimit(key="ip", rate="2/h"))(named_view("search"))),
    path("soft/", rate_limited("moved", legacy=ratelimit(key="ip", rate="1/h", block=False))(named_view("soft"))),
    path("posts/", rate_limited("moved", legacy=ratelimit(key="ip", rate="1/h", method="POST"))(named_view("posts"))),
    path("plan/", rate_limited("moved", legacy=ratelimit(key="ip", rate=by_plan))(named_view("plan"))),
    path(
        "both/",
        rate_limited("moved", legacy=several(ratelimit(key="ip", rate="3/h"), ratelimit(key="user_or_ip", rate="2/h")))(
            named_view("both")
        ),
    ),
    path("class/old/", class_view(old_ratelimit(key="ip", rate="2/h"))),
    path("class/new/", class_view(rate_limited("moved", legacy=ratelimit(key="ip", rate="2/h")))),
]
pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db]


@pytest.fixture(autouse=True)
def _fresh_cache():
    cache.clear()


def statuses(url: str, times: int, method: str = "get", **headers: str) -> list[int]:
    return [getattr(Client(), method)(url, headers=headers).status_code for _ in range(times)]


@pytest.mark.parametrize("mode", ["off", "dry_run"])
@pytest.mark.parametrize(("old", "new"), [("/old/", "/new/"), ("/class/old/", "/class/new/")])
def test_a_client_at_the_old_decorator_s_limit_still_gets_the_same_403(mode, old, new):
    with override_ruleset("moved", [Rule("hundred", limit=100, **HOUR)], mode=mode):
        assert statuses(old, 2) == [200, 200]
        assert statuses(new, 2) == [403, 403]


def test_enforced_django_ratelimit_is_not_called():
    with override_ruleset("moved", [Rule("three", limit=3, **HOUR)]):
        assert statuses("/new/", 4) == [200, 200, 200, 429]
    with override_ruleset("moved", [], mode="off"):
        assert statuses("/new/", 3) == [200, 200, 403]


def test_a_view_that_reads_request_limited_still_works(compared):
    with override_ruleset("moved", [Rule("one", limit=1, **HOUR)], mode="dry_run"):
        assert [Client().get("/soft/").content for _ in range(2)] == [b"fine", b"limited"]
    assert compared() == {"match": 2}


def test_calls_that_the_old_decorator_allows_are_compared_too(compared):
    with override_ruleset("moved", [Rule("one", limit=1, **HOUR)], mode="dry_run"):
        assert statuses("/posts/", 2) == [200, 200]
        assert statuses("/plan/", 1, **{"X-Plan": "pro"}) == [200]
    assert compared() == {"match": 1, "diverge": 2}


def test_several_decorators_refuse_as_they_did():
    with override_ruleset("moved", [], mode="off"):
        assert statuses("/both/", 3) == [200, 200, 403]


def test_the_project_s_own_exception_is_raised(settings):
    settings.RATELIMIT_EXCEPTION_CLASS = "django.http.Http404"
    with override_ruleset("moved", [], mode="off"):
        assert statuses("/new/", 3) == [200, 200, 404]


def test_switched_off_by_its_own_setting_it_lets_all_pass(settings):
    settings.RATELIMIT_ENABLE = False
    with override_ruleset("moved", [], mode="off"):
        assert statuses("/new/", 3) == [200] * 3


@pytest.fixture
def compared():
    """Return a function that returns the numbers of comparisons that agreed and disagreed."""
    from django_ratelimit_rules import signals

    found: dict[str, int] = {}

    def count(agreement, **_):
        found[agreement] = found.get(agreement, 0) + 1

    signals.compared.connect(count, weak=False)
    yield lambda: found
    signals.compared.disconnect(count)
