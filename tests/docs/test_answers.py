"""Responses and headers: the shown lines are sent, and clients see their limits."""

from __future__ import annotations

import re

import pytest
from django.urls import path

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take
from tests.docs.running import define, serve

(HEADERS,) = take("docs/answers.md#limit-headers")
(TELLING,) = take("docs/answers.md#telling-clients-about-their-limits")

PER_USER = Rule("per_user", characteristics=["user"], limit=30, period="1m")


def test_the_headers_shown_are_those_that_are_sent(settings):
    @rate_limited("api")
    def view(request):
        return define("")["HttpResponse"]()

    rules = [Rule("org", limit=100, period=60), Rule("user", characteristics=["ip"], limit=10, period=60)]
    client = serve(settings, api=view)
    with override_ruleset("api", rules):
        for _ in range(7):
            response = client.get("/api/")
    shown = dict(line.split(": ", 1) for line in HEADERS.splitlines())
    assert response["RateLimit-Policy"] == shown["RateLimit-Policy"]
    assert re.sub("t=.*", "", response["RateLimit"]) == re.sub("t=.*", "", shown["RateLimit"])


@pytest.mark.django_db
def test_the_signed_in_user_sees_the_usage(settings, client, django_user_model):
    serve(settings, *define(TELLING, path=path, urlpatterns=[])["urlpatterns"])
    user = django_user_model.objects.create_user("ada")
    client.force_login(user)
    with override_ruleset("search", [PER_USER]):
        for _ in range(3):
            Limiter("search").check({"user": user})
        (limit,) = client.get("/limits/").json()["limits"]
    assert (limit["limiter"], limit["rule"], limit["remaining"]) == ("search", "per_user", 27)
