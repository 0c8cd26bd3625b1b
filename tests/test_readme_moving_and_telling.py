"""The README's examples of moving over and of telling clients about their limits do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.cache import cache
from django.test import Client

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
pytestmark = pytest.mark.django_db


def example(heading: str) -> str:
    """The only Python block under a heading."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return block


def test_the_old_decorator_decides_until_the_ruleset_enforces(settings):
    from django.http import HttpResponse
    from django.urls import path

    cache.clear()
    names = {"__name__": "readme", "rate_limited": rate_limited, "HttpResponse": HttpResponse}
    exec(example("Moving over from another limiter").replace("...", "return HttpResponse()"), names)
    settings.ROOT_URLCONF = type("Urls", (), {"urlpatterns": [path("", names["search"])]})
    with override_ruleset("search", [], mode="off"):
        assert [Client().get("/").status_code for _ in range(6)] == [200] * 5 + [403]
    with override_ruleset("search", [Rule("none", limit=0, period=60)]):
        assert Client().get("/").status_code == 429


def test_the_signed_in_user_sees_what_is_used(settings, client, django_user_model):
    from django.urls import path

    names = {"path": path, "urlpatterns": []}
    exec(example("Telling clients about their limits"), names)
    settings.ROOT_URLCONF = type("Urls", (), {"urlpatterns": names["urlpatterns"]})
    user = django_user_model.objects.create_user("ada")
    client.force_login(user)
    with override_ruleset("search", [Rule("per_user", characteristics=["user"], limit=30, period="1m")]):
        for _ in range(3):
            Limiter("search").check({"user": user})
        (limit,) = client.get("/limits/").json()["limits"]
    assert (limit["limiter"], limit["rule"], limit["remaining"]) == ("search", "per_user", 27)
