"""A page of the admin is a class in the tuple. Its route, permission, title and links follow from the class."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import Permission, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.test import Client
from django.urls import path

from django_ratelimit_rules.admin import RulesetAdmin, permissions
from django_ratelimit_rules.admin.pages.base import AdminPage
from django_ratelimit_rules.models import Ruleset

pytestmark = pytest.mark.django_db

LIST = "/ops/django_ratelimit_rules/ruleset/"
FORECAST = f"{LIST}forecast/"


class ForecastPage(AdminPage):
    name, route = "forecast", "forecast/"
    title = "Forecast of limits"
    template = "django_ratelimit_rules/past.html"
    needs = (permissions.RESET,)
    list_label = "Forecasts"
    ruleset_label = "Forecast"

    def context(self, request: HttpRequest) -> dict[str, Any]:
        return {"versions": []}


@pytest.fixture
def ruleset() -> Ruleset:
    return Ruleset.objects.create(name="search")


@pytest.fixture
def with_forecast(monkeypatch, settings) -> None:
    """Return a site whose rulesets have the page. Only the tuple is edited."""
    monkeypatch.setattr(RulesetAdmin, "pages", (*RulesetAdmin.pages, ForecastPage))
    site = AdminSite(name="ops")
    site.register(Ruleset, RulesetAdmin)
    settings.ROOT_URLCONF = ModuleType("urls_of_forecast")
    settings.ROOT_URLCONF.urlpatterns = [path("ops/", site.urls)]


@pytest.fixture
def reader() -> Client:
    """Return a staff user who may only view rulesets."""
    user = User.objects.create_user("reader", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_ruleset"))
    client = Client()
    client.force_login(user)
    return client


def test_a_page_in_the_tuple_is_served_with_its_title_within_its_site(with_forecast, admin_client):
    page = admin_client.get(FORECAST)
    assert page.status_code == 200
    text = page.content.decode()
    assert "<h1>Forecast of limits</h1>" in text
    assert f'<a href="{LIST}">Rulesets</a>' in text
    assert "&rsaquo; Forecast of limits" in text
    assert page.wsgi_request.current_app == "ops"


def test_it_is_linked_from_the_list_and_from_a_rulesets_page(with_forecast, admin_client, ruleset):
    assert f'<li><a href="{FORECAST}">Forecasts</a></li>' in admin_client.get(LIST).content.decode()
    page = admin_client.get(f"{LIST}{ruleset.pk}/change/").content.decode()
    assert f'<li><a href="{FORECAST}?limiter=search">Forecast</a></li>' in page


def test_users_without_its_permission_get_neither_page_nor_link(with_forecast, reader, ruleset):
    assert reader.get(FORECAST).status_code == 403
    for url in (LIST, f"{LIST}{ruleset.pk}/change/"):
        page = reader.get(url)
        assert page.status_code == 200
        assert FORECAST not in page.content.decode()


def test_strangers_are_sent_to_the_login_of_its_site(with_forecast, client):
    assert client.get(FORECAST)["Location"] == f"/ops/login/?next={FORECAST}"


def test_a_page_without_a_permission_of_its_own_needs_the_one_to_view(monkeypatch, with_forecast, reader):
    monkeypatch.setattr(ForecastPage, "needs", ())
    assert reader.get(FORECAST).status_code == 200
    reader.force_login(User.objects.create_user("stranger", is_staff=True))
    assert reader.get(FORECAST).status_code == 403


def test_a_missing_permission_is_named(with_forecast, rf, reader):
    page = ForecastPage(RulesetAdmin(Ruleset, AdminSite(name="ops")))
    request = rf.get(FORECAST)
    request.user = User.objects.get(username="reader")
    with pytest.raises(PermissionDenied, match="You may not reset counters"):
        page.serve(request)


def test_names_and_routes_of_all_pages_differ():
    for attribute in ("name", "route"):
        values = [getattr(page, attribute) for page in RulesetAdmin.pages]
        assert len(values) == len(set(values))


def test_the_admin_of_rulesets_adds_two_ancestors_to_those_of_django():
    own = [each for each in RulesetAdmin.__mro__ if each not in ModelAdmin.__mro__]
    assert [each.__name__ for each in own] == ["RulesetAdmin", "Versioned", "Guarded"]
