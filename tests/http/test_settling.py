"""Decorator and middleware settle rules by outcome in sync and async code, once and by the final response."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import iscoroutinefunction, sync_to_async
from django.contrib.auth import aauthenticate, authenticate, get_user_model, login
from django.contrib.auth.signals import user_login_failed
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.multipartparser import MultiPartParserError
from django.test import AsyncClient, AsyncRequestFactory, Client, RequestFactory
from django.urls import path

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.http.settling import Settling, settle, status_of_error
from django_ratelimit_rules.identifiers.current import current_request
from django_ratelimit_rules.testing import override_ruleset

MIDDLEWARE = "django_ratelimit_rules.middleware.RateLimitMiddleware"
CLIENT = {"ip": "127.0.0.1"}
ERRORS = {"404": Http404, "403": PermissionDenied, "400": BadRequest, "500": LookupError}


def answer(request, status):
    if status in ERRORS and "raise" in request.GET:
        raise ERRORS[status]("the view's own error")
    response = HttpResponse(status=int(status), headers={"X-Verdict": request.GET.get("verdict", "none")})
    if "cookie" in request.GET:
        response.set_cookie("seen", "1")
    return response


@rate_limited("api")
def decorated(request, status):
    return answer(request, status)


@rate_limited("api")
async def decorated_async(request, status):
    return answer(request, status)


def undecorated(request, status):
    return answer(request, status)


@rate_limited("api")
def streams(request):
    return StreamingHttpResponse(iter([b"a", b"b"]), status=401)


@rate_limited("api")
async def streams_async(request):
    async def parts():
        yield b"a"

    return StreamingHttpResponse(parts(), status=401)


@rate_limited("api")
def outer(request):
    inner = decorated(request, "401")
    return HttpResponse(status=200) if "mend" in request.GET else inner


@rate_limited("api")
@rate_limited("other")
def two_limiters(request):
    return HttpResponse(status=401)


@rate_limited("api")
def sign_in(request):
    given = {"username": request.POST["username"], "password": request.POST["password"]}
    user = authenticate(**given) if "silent" in request.GET else authenticate(request, **given)
    if user is not None:
        login(request, user)
    return HttpResponse(status=200)


@rate_limited("api")
async def sign_in_async(request):
    user = await aauthenticate(username=request.POST["username"], password=request.POST["password"])
    if user is not None:
        await sync_to_async(login)(request, user)
    return HttpResponse(status=200)


@rate_limited("api")
def tries_two_names(request):
    authenticate(request, username="ann@example.com", password="right")
    login(request, authenticate(request, username="ann", password="right"))
    return HttpResponse()


@rate_limited("api")
def returns_nothing(request):
    return None


urlpatterns = [
    path("decorated/<str:status>/", decorated),
    path("async/<str:status>/", decorated_async),
    path("undecorated/<str:status>/", undecorated),
    path("streams/", streams),
    path("streams-async/", streams_async),
    path("outer/", outer),
    path("two/", two_limiters),
    path("sign-in/", sign_in),
    path("sign-in-async/", sign_in_async),
    path("two-names/", tries_two_names),
    path("nothing/", returns_nothing),
    path("tight/", rate_limited("tight")(lambda request: HttpResponse())),
]


def forgiving(get_response):
    """A middleware inside RateLimitMiddleware that replaces a view's response."""

    def middleware(request):
        response = get_response(request)
        return HttpResponse("mended") if response.status_code == 401 else response

    return middleware


@pytest.fixture(autouse=True)
def _urls(settings):
    settings.ROOT_URLCONF = __name__


@pytest.fixture(params=["decorator", "middleware", "middleware twice"])
def placed(request, settings):
    """Choose the code that settles: the decorator, our middleware around it, or two middlewares."""
    twice = {"decorator": 0, "middleware": 1, "middleware twice": 2}[request.param]
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, *[MIDDLEWARE] * twice]


@pytest.fixture
def by_middleware(settings):
    """Make our middleware check the limiter itself."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE]
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["api"]


def outcome(response, number=3, **options):
    rule = Rule("rule", limit=number, period=60, characteristics=["ip"], response=response, **options)
    return override_ruleset("api", [rule])


def used(limiter="api"):
    return Limiter(limiter).peek(CLIENT).evaluations[0].used


def statuses(url, times, client=None, **options):
    client = client or Client(raise_request_exception=False)
    return [client.get(url, **options).status_code for _ in range(times)]


async def astatuses(url, times):
    client = AsyncClient(raise_request_exception=False)
    return [(await client.get(url)).status_code for _ in range(times)]


@pytest.mark.usefixtures("placed")
@pytest.mark.parametrize("view", ["decorated", "async"])
def test_answers_that_match_are_charged_and_others_cost_nothing(view):
    with outcome({"status": 401}, 2):
        assert statuses(f"/{view}/200/", 5) == [200] * 5
        assert used() == 0
        assert statuses(f"/{view}/401/", 3) == [401, 401, 429]
        assert statuses(f"/{view}/200/", 1) == [429]
        assert used() == 2


@pytest.mark.usefixtures("placed")
@pytest.mark.parametrize("view", ["decorated", "async"])
async def test_answers_are_charged_under_asgi(view):
    with outcome({"status": 401}, 2):
        assert await astatuses(f"/{view}/200/", 3) == [200] * 3
        assert await astatuses(f"/{view}/401/", 3) == [401, 401, 429]


def left(response):
    return response["RateLimit"].split(";")[1]


@pytest.mark.usefixtures("placed")
@pytest.mark.parametrize("view", ["decorated", "async"])
def test_headers_show_the_rest_after_the_response_is_charged(view):
    wide = Rule("wide", limit=4, period=60, characteristics=["ip"])
    narrow = Rule("narrow", limit=2, period=60, characteristics=["ip"], response={"status": 401})
    with override_ruleset("api", [wide, narrow]):
        answers = [Client().get(f"/{view}/{status}/") for status in ("200", "401", "200", "401", "401")]
    assert [answer["RateLimit"].split(";")[:2] for answer in answers] == [
        ['"wide"', "r=3"],
        ['"wide"', "r=2"],
        ['"wide"', "r=1"],
        ['"wide"', "r=0"],
        ['"wide"', "r=0"],
    ]
    with outcome({"status": 401}, 2):
        Limiter("api").reset(CLIENT)
        answers = [Client().get(f"/{view}/{status}/") for status in ("200", "401", "200", "401", "401")]
    assert [(answer.status_code, left(answer)) for answer in answers] == [
        (200, "r=2"),
        (401, "r=1"),
        (200, "r=1"),
        (401, "r=0"),
        (429, "r=0"),
    ]


async def test_headers_show_the_rest_after_the_response_is_charged_under_asgi():
    with outcome({"status": 401}, 2):
        answers = [await AsyncClient().get(f"/async/{status}/") for status in ("200", "401", "401")]
    assert [left(answer) for answer in answers] == ["r=2", "r=1", "r=0"]


def test_result_has_the_values_of_its_counters_once_it_is_settled():
    by_outcome = {"period": 60, "characteristics": ["ip"], "response": {"status": {"gte": 400}}}
    rules = [Rule("many", limit=9, **by_outcome), Rule("few", limit=2, **by_outcome)]
    with override_ruleset("api", rules):
        result = Limiter("api").check(CLIENT)
        Limiter("api").settle(result, {"status": 401})
        assert [(one.used, one.remaining) for one in result.evaluations] == [(1, 8), (1, 1)]
        assert result.most_restrictive == result.evaluations[1]
        assert Limiter("api").peek(CLIENT).evaluations[1].reset_after <= result.evaluations[1].reset_after <= 60


@pytest.mark.usefixtures("by_middleware")
@pytest.mark.parametrize("status", ["404", "500"])
def test_middleware_alone_settles_by_the_answer(status):
    with outcome({"status": int(status)}, 1):
        assert statuses("/undecorated/200/", 2) == [200, 200]
        assert statuses(f"/undecorated/{status}/?raise", 2) == [int(status), 429]


@pytest.mark.usefixtures("by_middleware")
async def test_middleware_alone_settles_by_the_answer_under_asgi():
    with outcome({"status": {"gte": 400}}, 1):
        assert await astatuses("/undecorated/200/", 2) == [200, 200]
        assert await astatuses("/undecorated/500/?raise", 2) == [500, 429]


@pytest.mark.usefixtures("by_middleware")
def test_probing_for_paths_that_nothing_answers_is_charged_by_its_404():
    with outcome({"status": 404}, 2):
        assert [Client().get(f"/wp-{n}.php").status_code for n in range(3)] == [404, 404, 429]


@pytest.mark.usefixtures("placed")
@pytest.mark.parametrize("view", ["decorated", "async"])
@pytest.mark.parametrize("status", sorted(ERRORS))
def test_view_that_raises_is_charged_as_the_status_that_django_answers(view, status):
    with outcome({"status": int(status)}, 1):
        assert statuses(f"/{view}/{status}/?raise", 2) == [int(status), 429]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Http404(), 404),
        (PermissionDenied(), 403),
        (BadRequest(), 400),
        (SuspiciousOperation(), 400),
        (MultiPartParserError(), 400),
        (ValueError(), 500),
        (asyncio.CancelledError(), 500),
    ],
)
def test_status_of_an_error_is_that_of_djangos_own_handler(error, status):
    assert status_of_error(error) == status


@pytest.mark.usefixtures("placed")
@pytest.mark.parametrize("view", ["streams", "streams-async"])
def test_streaming_answer_is_charged_by_the_status_it_begins_with(view):
    with outcome({"status": 401}, 1):
        response = Client().get(f"/{view}/")
        assert used() == 1
        assert response.streaming
        assert statuses(f"/{view}/", 1) == [429]


@pytest.mark.usefixtures("placed")
def test_headers_and_cookies_of_the_answer_can_be_counted():
    with outcome([{"header.X-Verdict": "spam"}, {"header.set-cookie": {"prefix": "seen="}}], 9):
        for query, expected in (("", 0), ("?verdict=spam", 1), ("?verdict=ham", 1), ("?cookie", 2)):
            Client().get(f"/decorated/200/{query}")
            assert used() == expected


@pytest.mark.usefixtures("placed")
def test_limiter_reached_twice_settles_once_with_the_outermost_answer():
    with outcome({"status": 401}, 9):
        Client().get("/outer/")
        assert used() == 1
        Client().get("/outer/?mend")
        assert used() == 1


def test_with_our_middleware_the_answer_that_leaves_it_counts(settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE, f"{__name__}.forgiving"]
    with outcome({"status": 401}, 1):
        assert statuses("/decorated/401/", 3) == [200] * 3
        assert used() == 0


@pytest.mark.usefixtures("placed")
def test_each_limiter_settles_its_own_rules():
    other = Rule("other", limit=9, period=60, characteristics=["ip"], response={"status": 401})
    with outcome({"status": 403}, 9), override_ruleset("other", [other]):
        Client().get("/two/")
        assert (used(), used("other")) == (0, 1)


@pytest.mark.usefixtures("placed")
def test_all_rules_by_outcome_of_a_limiter_are_charged_in_one_call(redis_client):
    rules = [Rule(name, limit=9, period=60, response={"status": 401}) for name in ("a", "b", "c")]
    with override_ruleset("api", rules):
        Client().get("/decorated/200/")

        def calls():
            stats = redis_client.info("commandstats")
            return stats["cmdstat_evalsha"]["calls"] if "cmdstat_evalsha" in stats else 0

        before = calls()
        Client().get("/decorated/200/")
        assert calls() - before == 1
        Client().get("/decorated/401/")
        assert calls() - before == 3
        assert [one.used for one in Limiter("api").peek({}).evaluations] == [1, 1, 1]


@pytest.mark.usefixtures("placed")
def test_refused_request_settles_nothing():
    with outcome({"status": {"gte": 400}}, 2):
        assert statuses("/decorated/401/", 6) == [401, 401, 429, 429, 429, 429]
        assert used() == 2


@pytest.mark.usefixtures("by_middleware")
def test_refusal_by_one_limiter_is_an_answer_to_another():
    tight = Rule("tight", limit=1, period=60, characteristics=["ip"])
    with outcome({"status": 429}, 2), override_ruleset("tight", [tight]):
        responses = [Client().get("/tight/") for _ in range(4)]
    assert [one.status_code for one in responses] == [200, 429, 429, 429]
    blocking = [[name for name, result in one.wsgi_request.rate_limits.items() if result.blocked] for one in responses]
    assert blocking == [[], ["tight"], ["tight"], ["api"]]


@pytest.mark.usefixtures("placed")
def test_log_rule_by_outcome_is_charged_and_never_blocks():
    with outcome({"status": 401}, 1, action="log"):
        assert statuses("/decorated/401/", 3) == [401] * 3
        assert used() == 1


def test_the_response_is_charged_with_the_cost():
    view = rate_limited("api", cost=4)(lambda request: HttpResponse(status=401))
    with outcome({"status": 401}, 9):
        assert [view(RequestFactory().get("/")).status_code for _ in range(4)] == [401, 401, 429, 429]
        assert used() == 8


def test_result_that_code_settled_itself_is_not_settled_again(settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE]
    with outcome({"status": 401}, 9):
        request = RequestFactory().get("/")
        with Settling(request) as settling:
            limiter = Limiter("api")
            limiter.settle(limiter.check_request(request), {"status": 401})
            settling.response = HttpResponse(status=401)
        assert used() == 1


def test_framework_settles_by_itself_unless_our_decorator_or_middleware_is_around_it():
    with outcome({"status": 401}, 9):
        request = RequestFactory().get("/")
        with Settling(request):
            Limiter("api").check_request(request)
            settle(request, HttpResponse(status=401))
            assert used() == 0
        request = RequestFactory().get("/")
        Limiter("api").check_request(request)
        settle(request, error=LookupError())
        assert used() == 0
        request = RequestFactory().get("/")
        Limiter("api").check_request(request)
        settle(request, HttpResponse(status=401))
        assert used() == 1


def test_an_object_that_is_no_response_has_no_status():
    with outcome({"status": {"exists": True}}, 9):
        Client(raise_request_exception=False).get("/nothing/")
        assert used() == 0


async def test_client_that_hangs_up_is_charged_for_the_answer_it_did_not_wait_for():
    started = asyncio.Event()

    @rate_limited("api")
    async def slow(request):
        started.set()
        await asyncio.Event().wait()

    with outcome({"status": 500}, 9):
        task = asyncio.create_task(slow(AsyncRequestFactory().get("/")))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await Limiter("api").apeek(CLIENT)).evaluations[0].used == 1


def test_process_that_is_ended_settles_nothing():
    with outcome({}, 9):
        request = RequestFactory().get("/")
        Limiter("api").check_request(request)
        with pytest.raises(KeyboardInterrupt), Settling(request):
            raise KeyboardInterrupt
        assert used() == 0


def test_request_being_answered_is_the_current_one_and_no_longer():
    first, second = RequestFactory().get("/1"), RequestFactory().get("/2")
    with Settling(first):
        with Settling(second):
            assert current_request() is second
        assert current_request() is first
    assert current_request() is None


# --- sign-in


def attempt(url, password, client=None, username="ann"):
    client = client or Client()
    return client.post(url, {"username": username, "password": password}).status_code


@pytest.fixture
def ann(db):
    return get_user_model().objects.create_user("ann", password="right")


@pytest.mark.usefixtures("placed", "ann")
@pytest.mark.parametrize("url", ["/sign-in/", "/sign-in/?silent", "/sign-in-async/"])
def test_failed_sign_ins_are_charged_for_any_form_of_the_request(url):
    with outcome({"login": "failed"}, 2):
        assert [attempt(url, "right") for _ in range(4)] == [200] * 4
        assert used() == 0
        assert [attempt(url, "wrong") for _ in range(3)] == [200, 200, 429]
        assert attempt(url, "right") == 429


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("placed")
@pytest.mark.parametrize("url", ["/sign-in/?silent", "/sign-in-async/"])
async def test_failed_sign_ins_are_charged_under_asgi(url):
    await get_user_model().objects.acreate_user("ann", password="right")
    client = AsyncClient()
    with outcome({"login": "failed"}, 2):
        for password, expected in (("right", 200), ("wrong", 200), ("right", 200), ("wrong", 200), ("right", 429)):
            response = await client.post(url, {"username": "ann", "password": password})
            assert response.status_code == expected


@pytest.mark.usefixtures("placed", "ann")
def test_successful_sign_ins_can_be_charged_too():
    with outcome({"login": "ok"}, 2):
        assert [attempt("/sign-in/", password) for password in ("wrong", "right", "wrong", "right", "right")] == [
            200,
            200,
            200,
            200,
            429,
        ]


@pytest.mark.usefixtures("placed", "ann")
def test_request_that_neither_signs_in_nor_fails_has_no_login():
    with outcome({"login": {"exists": False}}, 9):
        Client().get("/decorated/200/")
        assert used() == 1
        attempt("/sign-in/", "wrong")
        assert used() == 1


@pytest.mark.usefixtures("placed", "ann")
def test_of_several_attempts_in_one_request_the_last_counts():
    with outcome({"login": "failed"}, 9):
        assert Client().get("/two-names/").status_code == 200
        assert used() == 0


@pytest.mark.usefixtures("ann")
def test_sign_in_outside_of_requests_is_no_outcome():
    assert authenticate(username="ann", password="wrong") is None
    user_login_failed.send(sender=None, credentials={}, request=HttpRequest())
    assert Client().login(username="ann", password="right")


def test_wrapper_around_a_request_is_the_request_inside():
    class Wrapper:
        _request = RequestFactory().get("/")

    with outcome({"login": "failed"}, 9):
        with Settling(Wrapper._request):
            Limiter("api").check_request(Wrapper._request)
            user_login_failed.send(sender=None, credentials={}, request=Wrapper())
        assert used() == 1


def test_decorated_views_keep_their_colour():
    assert iscoroutinefunction(decorated_async)
    assert not iscoroutinefunction(decorated)
