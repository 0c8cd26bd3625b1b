"""The limiters that the project's views name, and the times at which the URLs are walked again."""

from __future__ import annotations

import pytest
from django.http import HttpResponse
from django.urls import clear_url_caches, path

from django_ratelimit_rules.rulesets import limiter_names


def view(request):
    return HttpResponse()


class Patterns(list):
    """URL patterns that count the walks through them."""

    walks = 0

    def __iter__(self):
        Patterns.walks += 1
        return super().__iter__()


urlpatterns = Patterns([path("", view)])


@pytest.fixture
def named_by_function(monkeypatch):
    monkeypatch.setattr(limiter_names, "_by_framework", [])
    limiter_names.name_views_by(lambda callback: "named_by_function" if callback is view else None)
    yield
    limiter_names._named_in.cache_clear()


@pytest.mark.urls(__name__)
def test_a_framework_returns_the_limiter_of_a_view(named_by_function):
    assert "named_by_function" in limiter_names.named()


@pytest.mark.urls(__name__)
def test_the_urls_are_walked_through_once_until_the_urlconf_changes(named_by_function):
    limiter_names.named()
    walks = Patterns.walks
    assert "named_by_function" in limiter_names.named()
    assert Patterns.walks == walks
    clear_url_caches()
    limiter_names.named()
    assert Patterns.walks > walks


def test_another_urlconf_names_other_limiters(named_by_function, settings):
    settings.ROOT_URLCONF = __name__
    assert "named_by_function" in limiter_names.named()
    settings.ROOT_URLCONF = "tests.urls"
    assert "named_by_function" not in limiter_names.named()
