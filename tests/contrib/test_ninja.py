"""Ninja's operations, limited only by the throttle: counts, refusals and waiting times, sync and async."""

from __future__ import annotations

import asyncio
import threading

import pytest
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.test import AsyncClient
from django.urls import path
from ninja import NinjaAPI, Router, Schema
from ninja.decorators import decorate_view
from ninja.errors import Throttled
from ninja.security import HttpBearer, django_auth
from ninja.throttling import BaseThrottle

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.contrib.ninja import RuleThrottle, throttled
from django_ratelimit_rules.testing import override_ruleset

MIDDLEWARE = "django_ratelimit_rules.middleware.RateLimitMiddleware"


class Token(HttpBearer):
    """The token is the username. `key-…` is a credential without a user."""

    def authenticate(self, request, token):
        return token if token.startswith("key-") else get_user_model().objects.filter(username=token).first()


class Never(BaseThrottle):
    def allow_request(self, request):
        return False


class Body(Schema):
    email: str


def make_api(name):
    """Return an API with throttles in each place that Ninja supports."""
    api = NinjaAPI(urls_namespace=name)
    router = Router(throttle=[RuleThrottle("search")])

    @api.get("/search", throttle=RuleThrottle("search"))
    def search(request):
        return {"left": request.rate_limits["search"].evaluations[0].remaining}

    @api.get("/asearch", throttle=[RuleThrottle("search")])
    async def asearch(request):
        await asyncio.sleep(0)
        return {"left": request.rate_limits["search"].evaluations[0].remaining}

    @api.get("/awaited/{team}")
    @decorate_view(rate_limited("search", identifier=lambda request, team: {"team": team}))
    async def awaited(request, team: str):
        return {"team": team}

    @api.get("/by-token", auth=Token(), throttle=[RuleThrottle("search")])
    def by_token(request):
        return {}

    @api.get("/by-session", auth=django_auth, throttle=[RuleThrottle("search")])
    async def by_session(request):
        return {}

    @api.post("/body", throttle=[RuleThrottle("search")])
    def body(request, data: Body):
        return {"email": data.email}

    @api.get("/dear/{team}", throttle=[RuleThrottle("search", cost=5, identifier=lambda request: {"plan": "free"})])
    def dear(request, team: str):
        return {}

    @api.get("/both", throttle=[RuleThrottle("search"), RuleThrottle(Limiter("export"))])
    def both(request):
        return {}

    @api.get("/other", throttle=[Never()])
    def other(request):
        return {}

    @api.get("/missing", throttle=[RuleThrottle("search")])
    def missing(request):
        return api.create_response(request, {}, status=404)

    @api.get("/methods", throttle=[RuleThrottle("search")])
    def read(request):
        return {}

    @api.post("/methods", throttle=[RuleThrottle("search")])
    def write(request):
        return {}

    @router.get("/inner")
    def inner(request):
        return {}

    api.add_router("/router", router)
    return api


ours = make_api("ours")
ours.add_exception_handler(Throttled, throttled)
urlpatterns = [path("ninja/", make_api("ninjas").urls), path("api/", ours.urls)]
pytestmark = pytest.mark.urls(__name__)


def limit(name="tight", limit=2, **options):
    return Rule(name, **{"characteristics": ["user"], "period": 60, **options}, limit=limit)


@pytest.fixture
def two_a_minute():
    with override_ruleset("search", [limit()]):
        yield


@pytest.fixture
def users(db):
    return [get_user_model().objects.create_user(name, password="right") for name in ("ann", "ben")]


@pytest.mark.usefixtures("two_a_minute")
@pytest.mark.parametrize("url", ["/ninja/search", "/ninja/asearch", "/ninja/router/inner"])
def test_the_third_call_is_refused_by_ninja_with_a_waiting_time(client, url):
    answers = [client.get(url) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].json() == {"detail": "Too many requests."}
    assert 1 <= int(answers[2]["Retry-After"]) <= 60


@pytest.mark.usefixtures("two_a_minute")
async def test_async_operations_are_counted_under_asgi():
    client = AsyncClient()
    answers = [await client.get("/ninja/asearch") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.json()["left"] for answer in answers[:2]] == [1, 0]


@pytest.mark.parametrize("middleware", [False, True])
def test_operations_count_separately_by_view(client, settings, middleware):
    if middleware:
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE]
        settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["search"]
    with override_ruleset("search", [limit(characteristics=["view"], limit=1)]):
        for name in ("search", "asearch", "router/inner"):
            assert [client.get(f"/ninja/{name}").status_code for _ in range(2)] == [200, 429]
    match = {"view": f"{__name__}.search"}
    with override_ruleset("search", [limit(characteristics=[], limit=0, match=match)]):
        assert [client.get(f"/ninja/{name}").status_code for name in ("search", "router/inner")] == [429, 200]


def test_methods_of_one_path_are_operations_of_their_own(client):
    with override_ruleset("search", [limit(characteristics=["view"], limit=1)]):
        asked = [getattr(client, method)("/ninja/methods").status_code for method in ("get", "post", "get", "post")]
    assert asked == [200, 200, 429, 429]


async def test_a_rule_by_user_counts_the_session_of_an_async_operation(transactional_db):
    ann, ben = [await get_user_model().objects.acreate(username=name) for name in ("ann", "ben")]
    client = AsyncClient()
    with override_ruleset("search", [limit()]):
        await client.aforce_login(ann)
        assert [(await client.get("/ninja/by-session")).status_code for _ in range(3)] == [200, 200, 429]
        await client.aforce_login(ben)
        assert (await client.get("/ninja/by-session")).status_code == 200


async def test_decorate_view_awaits_the_limiter_of_an_async_operation_and_writes_headers():
    client = AsyncClient()
    with override_ruleset("search", [limit(characteristics=["team"], limit=1)]):
        answers = [await client.get(f"/ninja/awaited/{team}") for team in ("a", "b", "a")]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].json() == {"team": "a"}
    assert all(answer["RateLimit-Policy"] == '"tight";q=1;w=60' for answer in answers)


@pytest.mark.usefixtures("two_a_minute")
def test_the_handler_answers_a_refusal_with_headers(client):
    answers = [client.get("/api/search") for _ in range(3)]
    assert answers[2].status_code == 429
    assert answers[2].json() == {"detail": "Too many requests."}
    assert answers[2]["RateLimit"].startswith('"tight";r=0;t=')
    assert answers[2]["Cache-Control"] == "no-store"
    assert "Retry-After" in answers[2]


def test_the_handler_answers_other_throttles_as_ninja_does(client):
    ninjas, handled = client.get("/ninja/other"), client.get("/api/other")
    assert (handled.status_code, handled.json()) == (ninjas.status_code, ninjas.json())


@pytest.mark.usefixtures("two_a_minute")
@pytest.mark.parametrize("api", ["ninja", "api"])
def test_the_middleware_adds_the_headers_to_every_answer(client, settings, api):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE]
    answers = [client.get(f"/{api}/search") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer["RateLimit-Policy"] for answer in answers] == ['"tight";q=2;w=60'] * 3


def test_the_middleware_settles_rules_by_outcome(client, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE]
    with override_ruleset("search", [limit("misses", 2, response={"status": 404})]):
        statuses = [client.get("/ninja/missing").status_code for _ in range(3)]
    assert statuses == [404, 404, 429]


def test_one_limiter_in_middleware_and_throttle_counts_once(client, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE]
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["search"]
    with override_ruleset("search", [limit(limit=10)]):
        assert [client.get("/ninja/search").json()["left"] for _ in range(2)] == [9, 8]


@pytest.mark.usefixtures("two_a_minute", "users")
def test_the_user_of_a_token_counts_alone(client):
    def ask(token):
        return client.get("/ninja/by-token", headers={"Authorization": f"Bearer {token}"}).status_code

    assert [ask("ann") for _ in range(3)] == [200, 200, 429]
    assert [ask("ben"), ask("nobody")] == [200, 401]


def test_a_credential_without_a_user_counts_by_auth_and_is_never_stored_in_redis(client, db, keys):
    def ask(token):
        return client.get("/ninja/by-token", headers={"Authorization": f"Bearer {token}"}).status_code

    with override_ruleset("search", [limit(characteristics=["auth"])]):
        assert [ask("key-1"), ask("key-1"), ask("key-1"), ask("key-2")] == [200, 200, 429, 200]
    assert len(keys()) == 2
    assert not any("key-" in key for key in keys())


def test_a_body_that_a_rule_has_read_is_still_there_for_the_operation(client):
    with override_ruleset("search", [limit(characteristics=["json.email"], limit=1)]):
        answers = [client.post("/ninja/body", {"email": "a"}, content_type="application/json") for _ in range(2)]
    assert answers[0].json() == {"email": "a"}
    assert answers[1].status_code == 429


def test_cost_facts_and_the_paths_arguments_are_counted(client):
    rule = limit(limit=12, match={"plan": "free"}, characteristics=["kwarg.team"])
    with override_ruleset("search", [rule]):
        statuses = [client.get(f"/ninja/dear/{team}").status_code for team in ("a", "a", "a", "b")]
    assert statuses == [200, 200, 429, 200]


def test_the_longest_wait_of_several_limiters_is_sent(client):
    long, short = limit("long", 1, period=3600), limit("short", 1, period=60)
    with override_ruleset("search", [long]), override_ruleset("export", [short]):
        answers = [client.get("/ninja/both") for _ in range(2)]
    assert answers[1].status_code == 429
    assert int(answers[1]["Retry-After"]) > 3500


def test_a_call_that_can_never_pass_gets_no_waiting_time(client):
    with override_ruleset("search", [limit(limit=0)]):
        answer = client.get("/ninja/search")
    assert answer.status_code == 429
    assert "Retry-After" not in answer


def test_failing_closed_is_503_through_the_handler_and_429_by_ninja_itself(client, settings):
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    with override_ruleset("search", [limit()], failure_mode="closed"):
        ninjas, handled = client.get("/ninja/search"), client.get("/api/search")
    assert (ninjas.status_code, handled.status_code) == (429, 503)
    assert handled.json() == {"detail": "This service cannot take requests at the moment."}
    assert int(handled["Retry-After"]) >= 1
    assert "RateLimit" not in handled


def test_threads_that_share_a_throttle_get_their_own_waits(rf):
    throttle = RuleThrottle("search")
    asked = threading.Barrier(2, timeout=5)
    waits = {}

    def ask(plan):
        request: HttpRequest = rf.get("/", headers={"X-Plan": plan})
        throttle.allow_request(request)
        asked.wait()
        waits[plan] = throttle.wait()

    rules = [
        limit(name, 1, match={"header.x-plan": name}, characteristics=[], period=period)
        for name, period in (("short", 60), ("long", 3600))
    ]
    with override_ruleset("search", rules):
        for plan in ("short", "long"):
            throttle.allow_request(rf.get("/", headers={"X-Plan": plan}))
        threads = [threading.Thread(target=ask, args=(plan,)) for plan in ("short", "long")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert waits["short"] <= 60
    assert waits["long"] > 3500
