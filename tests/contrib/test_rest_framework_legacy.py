"""REST framework's own throttles together with this app's, until the ruleset enforces."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.urls import path
from rest_framework.decorators import api_view, throttle_classes
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.throttling import AnonRateThrottle, ScopedRateThrottle, UserRateThrottle
from rest_framework.views import APIView

from django_ratelimit_rules import Rule, signals
from django_ratelimit_rules.contrib.rest_framework import RuleThrottle, rule_throttle
from django_ratelimit_rules.testing import override_ruleset

HOUR = {"characteristics": ["user"], "period": "1h"}


class Twice(UserRateThrottle):
    rate = "2/hour"


class Scoped(ScopedRateThrottle):
    THROTTLE_RATES = {"search": "1/min"}


class Strangers(AnonRateThrottle):
    rate = "5/hour"


class Search(APIView):
    throttle_classes = [RuleThrottle]
    throttle_limiter = "moved"
    throttle_legacy = [Scoped, Twice]
    throttle_scope = "search"

    def get(self, request):
        return Response([])


@api_view(["GET"])
@throttle_classes([rule_throttle("moved", legacy=[Twice, Strangers])])
def export(request):
    return Response([])


urlpatterns = [path("search/", Search.as_view()), path("export/", export)]
pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db]


@pytest.fixture(autouse=True)
def _fresh_cache():
    cache.clear()


@pytest.fixture
def compared():
    """Record the comparisons of this test: the legacy throttles' verdict, and the agreement."""
    found = []

    def note(legacy_blocked, agreement, **_):
        found.append((legacy_blocked, agreement))

    signals.compared.connect(note, weak=False)
    yield found
    signals.compared.disconnect(note)


@pytest.mark.parametrize("mode", ["off", "dry_run"])
def test_the_old_throttles_refuse_with_their_own_wait(mode):
    with override_ruleset("moved", [Rule("hundred", limit=100, **HOUR)], mode=mode):
        answers = [APIClient().get("/export/") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        # At two calls an hour, REST framework reports the time until the first of them is an hour old.
        assert 3500 < int(answers[2]["Retry-After"]) <= 3600
        scoped = [APIClient().get("/search/") for _ in range(2)]
        assert scoped[0].status_code == 429
        assert int(scoped[0]["Retry-After"]) > 60


def test_without_any_rule_the_old_throttles_decide():
    assert [APIClient().get("/export/").status_code for _ in range(3)] == [200, 200, 429]


def test_in_a_dry_run_both_are_called_and_compared(compared):
    with override_ruleset("moved", [Rule("one", limit=1, **HOUR)], mode="dry_run"):
        assert [APIClient().get("/export/").status_code for _ in range(3)] == [200, 200, 429]
    assert compared == [(False, "match"), (False, "diverge"), (True, "match")]


def test_off_calls_only_the_old_ones(compared, keys):
    with override_ruleset("moved", [Rule("one", limit=1, **HOUR)], mode="off"):
        assert [APIClient().get("/export/").status_code for _ in range(3)] == [200, 200, 429]
    assert (compared, keys()) == ([], [])


def test_enforced_this_app_decides_and_the_old_throttles_count_nothing(compared):
    with override_ruleset("moved", [Rule("three", limit=3, **HOUR)]):
        assert [APIClient().get("/export/").status_code for _ in range(4)] == [200] * 3 + [429]
    with override_ruleset("moved", [], mode="off"):
        assert APIClient().get("/export/").status_code == 200
    assert compared == []


def test_clients_that_the_old_throttle_ignores_are_compared_too(compared, django_user_model):
    client = APIClient()
    client.force_authenticate(django_user_model.objects.create_user("ada"))
    with override_ruleset("moved", [Rule("staff", action="skip")], mode="dry_run"):
        assert client.get("/export/").status_code == 200
    assert compared == [(False, "match")]
