"""My limits: the usage of the signed-in user, as JSON and in templates. Reading it changes no counter."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser
from django.template import Context, Template
from django.urls import path

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.identifiers import property_provider, registry
from django_ratelimit_rules.testing import override_ruleset
from django_ratelimit_rules.views import my_limits
from tests.servers import free_port

urlpatterns = [path("limits/", my_limits)]
pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]

BY_USER = {"characteristics": ["user"], "limit": 10, "period": 60}


@pytest.fixture
def user(django_user_model):
    return django_user_model.objects.create_user("ada", password="ada")


@pytest.fixture
def mine(client, user):
    """Return a function that requests the endpoint as the user and returns the limits by limiter and rule."""
    client.force_login(user)

    def ask(query: str = "") -> dict:
        limits = client.get(f"/limits/{query}").json()["limits"]
        return {f"{limit.pop('limiter')}.{limit.pop('rule')}": limit for limit in limits}

    return ask


def evaluations(redis_client) -> int:
    stats = redis_client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))


def test_a_user_sees_their_usage_nearest_to_full_first(mine, user, client):
    rules = [Rule("minute", **BY_USER), Rule("day", characteristics=["user"], limit=100, period="1d")]
    with override_ruleset("search", rules), override_ruleset("export", [Rule("few", **BY_USER | {"limit": 2})]):
        for limiter, times in (("search", 3), ("export", 2)):
            for _ in range(times):
                Limiter(limiter).check({"user": user})
        answer = client.get("/limits/")
        assert [limit["rule"] for limit in answer.json()["limits"]] == ["few", "minute", "day"]
        seen = mine()
    assert 59 <= seen["search.minute"].pop("reset_after") <= 60
    assert seen["search.minute"] == {"limit": 10, "period": 60, "used": 3, "remaining": 7, "blocked": False}
    assert (seen["export.few"]["remaining"], seen["export.few"]["blocked"]) == (0, True)
    assert "no-store" in answer["Cache-Control"]
    assert "private" in answer["Cache-Control"]


def test_looking_costs_one_redis_call_and_changes_nothing(mine, user, redis_client, keys):
    with override_ruleset("search", [Rule("minute", **BY_USER)]), override_ruleset("export", [Rule("few", **BY_USER)]):
        Limiter("search").check({"user": user})
        before, there = evaluations(redis_client), keys()
        assert len(mine()) == 2
        assert evaluations(redis_client) == before + 1
        assert keys() == there
        assert mine()["search.minute"]["used"] == 1


def test_only_limits_that_count_by_user_and_concern_them_are_shown(mine, user):
    rules = [
        Rule("shadow", action="log", **BY_USER),
        Rule("address", **BY_USER | {"characteristics": ["ip"]}),
        Rule("per_page", **BY_USER | {"characteristics": ["user", "path"]}),
        Rule("accounts", count_distinct="post.email", **BY_USER),
        Rule("staff", match={"is_staff": True}, **BY_USER),
        Rule("certain", match={"is_authenticated": True}, **BY_USER),
        Rule("friends", action="skip", match={"user": user.pk}),
        Rule("behind", **BY_USER),
    ]
    with override_ruleset("search", rules), override_ruleset("dry", [Rule("all", **BY_USER)], mode="dry_run"):
        assert sorted(mine()) == ["search.certain"]


def test_a_rule_that_may_be_made_for_others_shows_once_the_user_has_met_it(mine, user):
    rules = [
        Rule("acme", match={"header.x-org": "acme"}, **BY_USER),
        Rule("posts", match={"method": "POST"}, **BY_USER),
    ]
    with override_ruleset("search", rules):
        assert mine() == {}
        Limiter("search").check({"user": user, "method": "POST"})
        assert {name: limit["used"] for name, limit in mine().items()} == {"search.posts": 1}


@pytest.fixture
def _own_registry():
    with registry.isolated():
        yield


@pytest.mark.usefixtures("_own_registry")
def test_a_project_s_property_counts_with_the_user(mine, user):
    property_provider("plan")(lambda request: "free")
    rules = [
        Rule("free", match={"plan": "free"}, **BY_USER | {"characteristics": ["user", "plan"]}),
        Rule("pro", match={"plan": "pro"}, **BY_USER),
    ]
    with override_ruleset("search", rules):
        Limiter("search").check({"user": user, "plan": "free"})
        assert {name: limit["used"] for name, limit in mine().items()} == {"search.free": 1}


def test_a_computed_limit_gets_the_request_and_one_that_fails_is_left_out(mine):
    rules = [
        Rule("ten_each", **BY_USER | {"limit": lambda request: 10 * len(request.user.username)}),
        Rule("broken", **BY_USER | {"limit": lambda: 1 // 0}),
    ]
    with override_ruleset("search", rules):
        assert {name: limit["limit"] for name, limit in mine().items()} == {"search.ten_each": 30}


def test_a_banned_user_sees_the_ban(mine, user):
    with override_ruleset("search", [Rule("all", ban_for=600, **BY_USER | {"limit": 1})]):
        for _ in range(2):
            Limiter("search").check({"user": user})
        seen = mine()["search.all"]
    assert (seen["blocked"], seen["remaining"]) == (True, 0)
    assert 590 <= seen["reset_after"] <= 600


def test_one_limiter_may_be_asked_for_and_unknown_ones_are_nothing(mine):
    with override_ruleset("search", [Rule("all", **BY_USER)]), override_ruleset("export", [Rule("all", **BY_USER)]):
        assert list(mine("?limiter=export&limiter=nobody")) == ["export.all"]
        assert mine("?limiter=nobody") == {}


def test_strangers_are_sent_to_sign_in_and_writing_is_rejected(client):
    assert client.get("/limits/").status_code == 401
    assert client.post("/limits/").status_code == 405


def test_without_redis_the_endpoint_reports_it_and_the_tag_is_empty(client, user, settings, rf):
    client.force_login(user)
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"redis://127.0.0.1:{free_port()}/0"}}
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.db"
    with override_ruleset("search", [Rule("all", **BY_USER)]):
        assert client.get("/limits/").status_code == 503
        assert rendered(rf, user) == ""


def rendered(rf, user) -> str:
    request = rf.get("/")
    request.user = user
    template = "{% load ratelimit_rules %}{% my_limits 'search' as limits %}"
    template += "{% for limit in limits %}{{ limit.rule }}: {{ limit.remaining }} of {{ limit.limit }}{% endfor %}"
    return Template(template).render(Context({"request": request}))


def test_the_template_tag_shows_the_same_and_nothing_to_strangers(user, rf):
    with override_ruleset("search", [Rule("all", **BY_USER)]):
        Limiter("search").check({"user": user})
        assert rendered(rf, user) == "all: 9 of 10"
        assert rendered(rf, AnonymousUser()) == ""
        assert Template("{% load ratelimit_rules %}{% my_limits as l %}{{ l }}").render(Context()) == "[]"
