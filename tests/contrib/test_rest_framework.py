"""REST framework's views, limited only by the throttle: counts, refusals, waiting times, settling."""

from __future__ import annotations

import http_sf
import pytest
from django.contrib.auth import authenticate, get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse, StreamingHttpResponse
from django.test import AsyncClient, Client
from django.urls import include, path
from django.utils.decorators import method_decorator
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.decorators import action, api_view, throttle_classes
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.test import APIClient
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.contrib.rest_framework import RuleThrottle, rule_throttle
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.counters.transport.breaker import Breaker
from django_ratelimit_rules.identifiers import known_properties
from django_ratelimit_rules.identifiers.state import results_of
from django_ratelimit_rules.testing import override_ruleset

MIDDLEWARE = "django_ratelimit_rules.middleware.RateLimitMiddleware"


class TokenAuthentication(BaseAuthentication):
    """The token is the username. `key-…` is a credential without a user."""

    def authenticate(self, request):
        scheme, _, token = get_authorization_header(request).decode().partition(" ")
        if scheme != "Token":
            return None
        if token.startswith("key-"):
            from django.contrib.auth.models import AnonymousUser

            return AnonymousUser(), token
        user = get_user_model().objects.filter(username=token).first()
        if user is None:
            raise AuthenticationFailed
        return user, token

    def authenticate_header(self, request):
        return "Token"


class Search(APIView):
    authentication_classes = [TokenAuthentication]
    throttle_classes = [RuleThrottle]
    throttle_limiter = "search"

    def get(self, request, **kwargs):
        return Response({"user": str(request.user), "left": request.rate_limits["search"].evaluations[0].remaining})

    def post(self, request):
        return Response(request.data)


class LateAuthentication(Search):
    def perform_authentication(self, request):
        """Skip it, so that the first access to the user authenticates."""


class Nobody(BasePermission):
    def has_permission(self, request, view):
        return False


class Forbidden(Search):
    permission_classes = [Nobody]


@api_view(["GET"])
@throttle_classes([rule_throttle("export", cost=5), rule_throttle(Limiter("search"))])
def export(request):
    return Response("exported")


@api_view(["GET"])
@throttle_classes([RuleThrottle])
def nameless(request):
    return Response("never")


class ByTeam(RuleThrottle):
    def get_identifier(self, request, view):
        return {"team": view.kwargs["team"].lower(), "ip": "192.0.2.1"}


class Team(Search):
    throttle_classes = [ByTeam]


class Reports(ViewSet):
    throttle_classes = [RuleThrottle]
    throttle_limiter = "search"

    def list(self, request):
        return Response([])

    @action(detail=False, throttle_limiter="export")
    def summary(self, request):
        return Response({})


class Papers(Reports):
    """Another class, which must count separately from the first."""


class Never(BaseThrottle):
    def allow_request(self, request, view):
        return False


class TwoThrottles(Search):
    throttle_classes = [RuleThrottle, Never]


class SignIn(APIView):
    throttle_classes = [RuleThrottle]
    throttle_limiter = "login"

    def post(self, request):
        user = authenticate(request, username=request.data["username"], password=request.data["password"])
        return Response(status=200 if user else 401)


class Answers(APIView):
    throttle_classes = [RuleThrottle]
    throttle_limiter = "search"

    def get(self, request, how):
        if how == "crash":
            raise ZeroDivisionError
        if how == "stream":
            return StreamingHttpResponse([b"a", b"b"])
        return HttpResponse("plain", headers={"X-Result": how})


@method_decorator(rate_limited("search"), name="dispatch")
class Both(Search):
    pass


class FromDefault(APIView):
    def get(self, request):
        return Response("free")


router = SimpleRouter()
router.register("reports", Reports, basename="reports")
router.register("papers", Papers, basename="papers")
urlpatterns = [
    path("search/", Search.as_view()),
    path("late/", LateAuthentication.as_view()),
    path("forbidden/", Forbidden.as_view()),
    path("export/", export),
    path("nameless/", nameless),
    path("team/<team>/", Team.as_view()),
    path("two/", TwoThrottles.as_view()),
    path("login/", SignIn.as_view()),
    path("answers/<how>/", Answers.as_view()),
    path("both/", Both.as_view()),
    path("default/", FromDefault.as_view()),
    path("", include(router.urls)),
]
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


def token(name):
    return {"Authorization": f"Token {name}"}


@pytest.mark.usefixtures("two_a_minute")
def test_the_third_call_is_refused_by_rest_framework_with_a_waiting_time(client):
    answers = [client.get("/search/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.json()["left"] for answer in answers[:2]] == [1, 0]
    refused = answers[2]
    assert refused["Content-Type"] == "application/json"
    wait = int(refused["Retry-After"])
    assert 1 <= wait <= 60
    assert refused.json() == {"detail": f"Request was throttled. Expected available in {wait} seconds."}
    assert refused["Cache-Control"] == "no-store"


@pytest.mark.usefixtures("two_a_minute")
def test_every_answer_carries_the_headers_without_any_middleware(client):
    answers = [client.get("/search/") for _ in range(3)]
    for answer, left in zip(answers, (1, 0, 0), strict=True):
        (policy,) = http_sf.parse(answer["RateLimit-Policy"].encode(), tltype="list")
        assert policy == ("tight", {"q": 2, "w": 60})
        (limit,) = http_sf.parse(answer["RateLimit"].encode(), tltype="list")
        assert (limit[0], limit[1]["r"]) == ("tight", left)


@pytest.mark.usefixtures("two_a_minute")
def test_headers_are_the_same_and_written_once_when_the_middleware_is_there_too(client, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE]
    answers = [client.get("/search/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0]["RateLimit-Policy"] == '"tight";q=2;w=60'


def test_no_header_is_sent_in_a_dry_run_or_without_a_check(client):
    with override_ruleset("search", [limit(limit=0)], mode="dry_run"):
        answer = client.get("/search/")
        assert answer.status_code == 200
        assert "RateLimit" not in answer
    with override_ruleset("search", [limit()]):
        answer = client.get("/forbidden/")
        assert answer.status_code in (401, 403)
        assert "RateLimit" not in answer


def test_one_limiter_in_middleware_decorator_and_throttle_counts_once(client, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE]
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["search"]
    with override_ruleset("search", [limit(limit=10, characteristics=["ip"])]):
        assert client.get("/both/").json()["left"] == 9
        assert client.get("/both/").json()["left"] == 8


@pytest.mark.usefixtures("two_a_minute")
@pytest.mark.parametrize("url", ["/search/", "/late/"])
def test_the_user_of_a_token_counts_alone_with_any_session(client, users, url):
    client.force_login(users[1])
    assert [client.get(url, headers=token("ann")).status_code for _ in range(3)] == [200, 200, 429]
    assert client.get(url, headers=token("ben")).status_code == 200
    assert client.get(url).json()["user"] == "AnonymousUser"


def test_rules_see_whether_the_user_of_a_token_is_staff(client, users):
    get_user_model().objects.filter(username="ann").update(is_staff=True)
    rules = [Rule("staff", action="skip", match={"is_staff": True, "is_authenticated": True}), limit(limit=0)]
    with override_ruleset("search", rules):
        answers = [client.post("/search/", {}, headers=token(name)) for name in ("ann", "ben")]
        assert [answer.status_code for answer in answers] == [200, 429]


@pytest.mark.usefixtures("two_a_minute")
@pytest.mark.parametrize("url", ["/search/", "/late/"])
def test_a_wrong_token_is_rest_frameworks_401_and_not_counted(client, db, keys, url):
    answer = client.get(url, headers=token("nobody"))
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Token")
    assert keys() == []


@pytest.mark.usefixtures("two_a_minute")
def test_force_authenticate_of_rest_frameworks_test_client_counts_as_that_user(users):
    client = APIClient()
    client.force_authenticate(users[0])
    assert [client.get("/search/").status_code for _ in range(3)] == [200, 200, 429]
    client.force_authenticate(users[1])
    assert client.get("/search/").status_code == 200


def test_a_credential_without_a_user_counts_by_auth_and_is_never_stored_in_redis(client, keys):
    with override_ruleset("search", [limit(characteristics=["auth"])]):
        assert [client.get("/search/", headers=token("key-1")).status_code for _ in range(3)] == [200, 200, 429]
        assert client.get("/search/", headers=token("key-2")).status_code == 200
    assert len(keys()) == 2
    assert not any("key-" in key for key in keys())
    assert "auth" in known_properties()


def test_a_call_that_can_never_pass_gets_no_waiting_time(client):
    with override_ruleset("search", [limit(limit=0)]):
        answer = client.get("/search/")
    assert answer.status_code == 429
    assert "Retry-After" not in answer
    assert answer.json() == {"detail": "Request was throttled."}


def test_a_wait_of_less_than_a_second_is_sent_as_one(client):
    with override_ruleset("search", [limit(limit=1, period=1)]):
        answers = [client.get("/search/") for _ in range(2)]
    assert answers[1]["Retry-After"] == "1"


def test_failing_closed_is_503_with_the_breakers_pause(client, settings):
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    with override_ruleset("search", [limit()], failure_mode="closed"):
        answer = client.get("/search/")
    assert answer.status_code == 503
    assert answer.json() == {"detail": "This service cannot take requests at the moment."}
    assert int(answer["Retry-After"]) >= 1
    assert answer["Cache-Control"] == "no-store"
    assert "RateLimit" not in answer


def test_a_pause_of_the_breaker_is_sent_in_whole_seconds_rounded_up(client, settings):
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    current().breaker = Breaker()
    current().breaker._pause = 0.8  # the next failure doubles it
    with override_ruleset("search", [limit()], failure_mode="closed"):
        answer = client.get("/search/")
    assert 1.5 < results_of(answer.wsgi_request)["search"].retry_after <= 1.6
    assert answer["Retry-After"] == "2"


def test_failing_open_lets_the_call_through(client, settings):
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    with override_ruleset("search", [limit()], failure_mode="open"):
        assert client.post("/search/", {"q": "1"}).status_code == 200


def test_a_function_view_with_two_limiters_names_both_in_its_headers_and_charges_its_cost(client):
    with override_ruleset("export", [limit(limit=12)]), override_ruleset("search", [limit("wide", 100)]):
        answers = [client.get("/export/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[1]["RateLimit-Policy"] == '"tight";q=12;w=60, "wide";q=100;w=60'
    assert answers[1]["RateLimit"].startswith('"tight";r=2;')


def test_a_subclass_adds_facts_that_win_over_the_requests_own(client):
    rules = [limit(characteristics=["team"]), limit("by_ip", 100, match={"ip": "192.0.2.1"}, characteristics=["ip"])]
    with override_ruleset("search", rules):
        assert [client.get(f"/team/{name}/").status_code for name in ("A", "a", "A")] == [200, 200, 429]
        answer = client.get("/team/b/")
    assert answer.status_code == 200
    assert "by_ip" in answer["RateLimit-Policy"]


def test_a_rule_sees_the_views_arguments(client):
    with override_ruleset("search", [limit(characteristics=["kwarg.how"], limit=1)]):
        assert [client.get(f"/answers/{how}/").status_code for how in ("a", "b", "a")] == [200, 200, 429]


def test_actions_of_a_viewset_may_name_a_limiter_of_their_own(client):
    with override_ruleset("search", [limit(limit=1)]), override_ruleset("export", [limit("big", 5)]):
        assert [client.get("/reports/").status_code for _ in range(2)] == [200, 429]
        assert client.get("/reports/summary/")["RateLimit-Policy"] == '"big";q=5;w=60'


@pytest.mark.parametrize("middleware", [False, True])
def test_viewsets_count_separately_by_view(client, settings, middleware):
    if middleware:
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, MIDDLEWARE]
        settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["search"]
    with override_ruleset("search", [limit(characteristics=["view"], limit=1)]):
        assert [client.get(f"/{name}/").status_code for name in ("reports", "papers", "reports")] == [200, 200, 429]
    match = {"view": f"{__name__}.Reports"}
    with override_ruleset("search", [limit(characteristics=[], limit=0, match=match)]):
        assert [client.get(f"/{name}/").status_code for name in ("reports", "papers")] == [429, 200]


def test_a_view_with_the_throttle_and_without_a_limiter_raises(client):
    with pytest.raises(ImproperlyConfigured, match=r"names no limiter.*rule_throttle"):
        client.get("/nameless/")


def test_as_the_projects_default_it_passes_views_over_that_name_no_limiter(client, settings, monkeypatch):
    settings.REST_FRAMEWORK = {
        "DEFAULT_THROTTLE_CLASSES": ["django_ratelimit_rules.contrib.rest_framework.RuleThrottle"]
    }
    # REST framework reads its default at the definition of APIView.
    monkeypatch.setattr(APIView, "throttle_classes", [RuleThrottle])
    answer = client.get("/default/")
    assert answer.status_code == 200
    assert "RateLimit" not in answer


@pytest.mark.usefixtures("two_a_minute")
def test_a_refusal_by_another_throttle_still_carries_the_headers(client):
    answer = client.get("/two/")
    assert answer.status_code == 429
    assert answer["RateLimit"].startswith('"tight";r=1;')


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        ('{"email": "a@example.org"}', "application/json"),
        ("email=a%40example.org", "application/x-www-form-urlencoded"),
        ({"email": "a@example.org"}, None),
    ],
    ids=["json", "form", "multipart"],
)
def test_a_body_that_a_rule_has_read_is_still_there_for_the_view(client, data, content_type):
    rules = [limit("json", 1, characteristics=["json.email"]), limit("form", 1, characteristics=["post.email"])]
    with override_ruleset("search", rules):
        options = {"content_type": content_type} if content_type else {}
        answers = [client.post("/search/", data, **options) for _ in range(2)]
    assert answers[0].json()["email"] in ("a@example.org", ["a@example.org"])
    assert answers[1].status_code == 429


@pytest.mark.usefixtures("two_a_minute")
def test_streaming_and_plain_answers_get_the_headers_and_nothing_else(client):
    stream = client.get("/answers/stream/")
    assert b"".join(stream.streaming_content) == b"ab"
    assert stream["RateLimit"].startswith('"tight";r=1;')
    assert client.get("/answers/found/")["RateLimit"].startswith('"tight";r=0;')


@pytest.mark.usefixtures("users")
def test_failed_sign_ins_are_counted_by_status_and_a_success_costs_nothing(client):
    rule = limit("failures", 2, characteristics=["ip", "json.username|lower"], response={"status": 401})
    with override_ruleset("login", [rule]):
        tries = ["wrong", "right", "right", "WRONG", "right"]
        answers = [
            client.post("/login/", {"username": "Ann".lower(), "password": word}, content_type="application/json")
            for word in tries
        ]
    assert [answer.status_code for answer in answers] == [401, 200, 200, 401, 429]


@pytest.mark.usefixtures("users")
def test_failed_sign_ins_are_counted_by_djangos_own_signals(client):
    with override_ruleset("login", [limit("failures", 1, characteristics=["ip"], response={"login": "failed"})]):
        answers = [client.post("/login/", {"username": "ann", "password": word}) for word in ("wrong", "right")]
    assert [answer.status_code for answer in answers] == [401, 429]


def test_answers_are_counted_by_a_header_of_theirs(client):
    rule = limit("misses", 1, characteristics=["ip"], response={"header.x-result": "miss"})
    with override_ruleset("search", [rule]):
        statuses = [client.get(f"/answers/{how}/").status_code for how in ("hit", "miss", "hit")]
    assert statuses == [200, 200, 429]


@pytest.mark.parametrize("middleware", [[], [MIDDLEWARE]], ids=["alone", "with_middleware"])
def test_an_exception_that_rest_framework_does_not_answer_counts_as_500_once(settings, middleware):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, *middleware]
    client = Client(raise_request_exception=False)
    with override_ruleset("search", [limit("crashes", 2, characteristics=["ip"], response={"status": 500})]):
        statuses = [client.get("/answers/crash/").status_code for _ in range(3)]
    assert statuses == [500, 500, 429]


@pytest.mark.usefixtures("two_a_minute")
async def test_views_work_under_asgi_as_well(transactional_db):
    client = AsyncClient()
    answers = [await client.get("/answers/found/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert "RateLimit" in answers[2]


@pytest.mark.usefixtures("two_a_minute")
def test_the_throttle_called_directly_answers_as_rest_framework_expects(rf):
    view = Search()
    view.setup(rf.get("/search/"))
    request = view.initialize_request(view.request)
    throttle = RuleThrottle()
    assert throttle.wait() is None
    assert throttle.allow_request(request, view)
    assert throttle.wait() is None
    assert list(results_of(request._request)) == ["search"]
