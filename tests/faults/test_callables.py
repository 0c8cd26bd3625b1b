"""If a project's own code fails during a check, the failure mode answers, and our code raises no error."""

from __future__ import annotations

import asyncio
import logging

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.test import AsyncClient, Client
from django.urls import path
from ninja import NinjaAPI
from ninja.errors import Throttled as NinjaThrottled
from rest_framework.exceptions import NotFound
from rest_framework.views import APIView

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.contrib import ninja
from django_ratelimit_rules.contrib.rest_framework import RuleThrottle, rule_throttle
from django_ratelimit_rules.identifiers import property_provider, registry
from django_ratelimit_rules.testing import override_ruleset


class Unspeakable:
    """A value that cannot be converted to a string."""

    def __str__(self) -> str:
        raise LookupError("no text")

    __repr__ = __str__


class Mute(Exception):
    """An error that has no message."""

    def __str__(self) -> str:
        raise LookupError("no text")

    __repr__ = __str__


def returning(value):
    return lambda: value


def raising(error):
    def function(*_, **__):
        raise error

    return function


def araising(error):
    async def function(*_, **__):
        raise error

    return function


RAISED = [RuntimeError("line one\nERROR forged line"), Mute(), RecursionError(), MemoryError(), AssertionError()]
LIMITS = [
    *map(raising, RAISED),
    *map(returning, [None, -1, True, "5", 5.0, float("nan"), 10**13, [], Unspeakable(), 1j]),
    lambda context: context.user.profile.limit,
    lambda one, two: 5,
]
PERIODS = [*map(raising, RAISED[:2]), *map(returning, [0, -1, None, "never", 10**9, 1.5, Unspeakable()])]
STATUSES = {"open": 200, "closed": 503, "local": 200}
modes = pytest.mark.parametrize("mode", STATUSES)


def plain(request):
    return HttpResponse("fine")


async def asynchronous(request):
    return HttpResponse("fine")


limited = rate_limited("asked")
urlpatterns = [path("wsgi/", limited(plain)), path("asgi/", limited(asynchronous))]
said: dict[str, object] = {}


def telling(request, **kwargs):
    """Raise or return the value that a test set."""
    if isinstance(said["told"], BaseException):
        raise said["told"]
    return said["told"]


async def atelling(request, **kwargs):
    return telling(request)


urlpatterns += [
    path("facts/wsgi/", rate_limited("asked", identifier=telling)(plain)),
    path("facts/asgi/", rate_limited("asked", identifier=atelling)(asynchronous)),
    path("cost/wsgi/", rate_limited("asked", cost=telling)(plain)),
    path("cost/asgi/", rate_limited("asked", cost=atelling)(asynchronous)),
]
pytestmark = pytest.mark.urls(__name__)


def both(mode: str, *rules: Rule, at: str = "") -> list:
    """Check once in sync and once in async code, and return the responses."""

    async def ask():
        return await AsyncClient(raise_request_exception=False).get(f"/{at}asgi/")

    with override_ruleset("asked", rules, failure_mode=mode):
        return [Client(raise_request_exception=False).get(f"/{at}wsgi/"), asyncio.run(ask())]


def assert_answered(caplog, mode: str, *rules: Rule, at: str = "") -> None:
    found = both(mode, *rules, at=at)
    assert [answer.status_code for answer in found] == [STATUSES[mode]] * 2
    assert not any("ratelimit" in name.lower() for answer in found for name in answer.headers)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    ours = [line for line in lines if "Service Unavailable" not in line]
    assert len(ours) == 1
    assert ours[0].startswith("Limiter asked cannot decide")
    assert ours[0].isprintable()


@modes
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_that_cannot_be_computed_is_answered_by_the_failure_mode(caplog, mode, limit):
    assert_answered(caplog, mode, Rule("computed", limit=limit, period=60))


@modes
@pytest.mark.parametrize("period", PERIODS)
def test_a_period_that_cannot_be_computed_is_answered_by_the_failure_mode(caplog, mode, period):
    assert_answered(caplog, mode, Rule("computed", limit=5, period=period))


@pytest.fixture
def provider():
    with registry.isolated():
        yield property_provider("odd")


@modes
@pytest.mark.parametrize("colour", [raising, araising])
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_provider_that_raises_is_answered_by_the_failure_mode(caplog, provider, mode, colour, error):
    provider(colour(error))
    assert_answered(caplog, mode, Rule("by_odd", characteristics=["odd"], limit=5, period=60))


@modes
@pytest.mark.parametrize(
    "value", [["a"], {"a": 1}, {1}, Unspeakable(), 10**5000], ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize("use", ["characteristics", "match", "count_distinct"])
def test_a_provider_with_a_value_that_has_no_string_is_answered_by_the_failure_mode(caplog, provider, mode, value, use):
    provider(lambda request: value)
    how = {"characteristics": ["odd"], "match": {"odd|lower": "x"}, "count_distinct": "odd"}[use]
    assert_answered(caplog, mode, Rule("by_odd", **{use: how}, limit=5, period=60))


def test_a_provider_that_fails_for_one_limiter_lets_the_others_count(provider):
    provider(raising(RuntimeError()))
    with override_ruleset("other", [Rule("r", limit=1, period=60)]):
        both("open", Rule("by_odd", characteristics=["odd"], limit=5, period=60))
        assert [Limiter("other").check({}).blocked for _ in range(2)] == [False, True]


@modes
@pytest.mark.parametrize("asked", ["facts/", "cost/"])
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_decorators_identifier_or_cost_that_raises_is_answered_by_the_failure_mode(caplog, mode, asked, error):
    said["told"] = error
    assert_answered(caplog, mode, Rule("all", limit=5, period=60), at=asked)


UNFIT_FACTS = [[1], {"k": [1]}, {1: 2}, {"k": Unspeakable()}]
UNFIT_COSTS = [-1, "5", None, float("nan"), True]
UNFIT = [*(("facts", value) for value in UNFIT_FACTS), *(("cost", value) for value in UNFIT_COSTS)]


@pytest.mark.parametrize("mode", ["open", "closed"])
@pytest.mark.parametrize(("asked", "value"), UNFIT)
def test_a_decorators_identifier_or_cost_that_no_limiter_takes_is_answered_by_the_failure_mode(
    caplog, mode, asked, value
):
    said["told"] = value
    assert_answered(caplog, mode, Rule("all", limit=5, period=60), at=f"{asked}/")


@pytest.mark.parametrize(("error", "status"), [(Http404(), 404), (PermissionDenied(), 403)])
def test_an_identifier_may_find_that_there_is_nothing_to_view(error, status):
    said["told"] = error
    found = both("closed", Rule("all", limit=5, period=60), at="facts/")
    assert [answer.status_code for answer in found] == [status] * 2


class Failing(RuleThrottle):
    limiter = Limiter("asked")

    def get_identifier(self, request, view):
        return telling(request)


class Throttled(APIView):
    throttle_classes = [Failing]

    def get(self, request):
        return HttpResponse("fine")


api = NinjaAPI(urls_namespace="failing")


@api.get("/", throttle=[ninja.RuleThrottle("asked", identifier=telling)])
def operation(request):
    return {}


api.add_exception_handler(NinjaThrottled, ninja.throttled)
urlpatterns += [path("drf/", Throttled.as_view()), path("ninja/", api.urls)]


@modes
@pytest.mark.parametrize("url", ["/drf/", "/ninja/"])
@pytest.mark.parametrize("error", RAISED[:2])
def test_a_throttles_identifier_that_raises_is_answered_by_the_failure_mode(mode, url, error):
    said["told"] = error
    with override_ruleset("asked", [Rule("all", limit=5, period=60)], failure_mode=mode):
        assert Client(raise_request_exception=False).get(url).status_code == STATUSES[mode]


@modes
@pytest.mark.parametrize("url", ["/drf/", "/ninja/"])
@pytest.mark.parametrize("value", UNFIT_FACTS)
def test_a_throttles_identifier_that_no_limiter_takes_is_answered_by_the_failure_mode(mode, url, value):
    said["told"] = value
    with override_ruleset("asked", [Rule("all", limit=5, period=60)], failure_mode=mode):
        assert Client(raise_request_exception=False).get(url).status_code == STATUSES[mode]


@pytest.mark.parametrize("throttle", [ninja.RuleThrottle, rule_throttle])
def test_a_throttles_cost_that_no_limiter_takes_is_refused_when_it_is_made(throttle):
    with pytest.raises(ValueError, match="cost must be"):
        throttle("asked", cost=-1)


@pytest.mark.parametrize(
    ("url", "error", "status"),
    [("/drf/", NotFound(), 404), ("/drf/", Http404(), 404), ("/ninja/", Http404(), 404)],
)
def test_a_throttles_identifier_may_find_that_there_is_nothing_to_view(url, error, status):
    said["told"] = error
    with override_ruleset("asked", [Rule("all", limit=5, period=60)]):
        assert Client().get(url).status_code == status
