"""A blocked request gets a response even if the project's own view or template for it fails."""

from __future__ import annotations

import asyncio
import logging

import pytest
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import path

from django_ratelimit_rules import Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset
from tests.servers import free_port

OURS = "django_ratelimit_rules.middleware.RateLimitMiddleware"


def plain(request):
    return HttpResponse("fine")


async def asynchronous(request):
    return HttpResponse("fine")


limited = rate_limited("refusing")
urlpatterns = [path("wsgi/", limited(plain)), path("asgi/", limited(asynchronous)), path("plain/", plain)]
pytestmark = pytest.mark.urls(__name__)


def raising_view(request, result):
    raise RuntimeError("no answer")


async def raising_async_view(request, result):
    raise RuntimeError("no answer")


def forgetful_view(request, result):
    pass


def denying_view(request, result):
    raise PermissionDenied


def statuses(**headers) -> set[int]:
    """Return the statuses of sync and async code for a blocked request."""

    async def ask():
        return await AsyncClient(raise_request_exception=False).get("/asgi/", **headers)

    return {Client(raise_request_exception=False).get("/wsgi/", **headers).status_code, asyncio.run(ask()).status_code}


NOTHING = [Rule("nothing", limit=0, period=60)]


@pytest.mark.parametrize(
    "view",
    [f"{__name__}.{name}" for name in ("raising_view", "raising_async_view", "forgetful_view", "missing")]
    + ["nowhere.view", "nonsense"],
)
def test_a_view_that_fails_leaves_a_line_of_text(settings, caplog, view):
    settings.RATELIMIT_RULES_BLOCKED_VIEW = view
    with override_ruleset("refusing", NOTHING):
        assert statuses() == {429}
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.name for record in errors] == ["django_ratelimit_rules.http.responses"]


def test_a_view_may_return_any_object_that_django_accepts_as_a_response(settings):
    settings.RATELIMIT_RULES_BLOCKED_VIEW = f"{__name__}.denying_view"
    with override_ruleset("refusing", NOTHING):
        assert statuses() == {403}


@pytest.mark.parametrize("template", ["{% nonsense %}", "{% include 'nowhere.html' %}", "{{ request.user.pk }}"])
def test_a_template_that_fails_leaves_a_line_of_text(settings, tmp_path, template):
    # The last view loads a session, which is stored in the unavailable Redis.
    (tmp_path / "503.html").write_text(template)
    (tmp_path / "429.html").write_text(template)
    settings.TEMPLATES = [settings.TEMPLATES[0] | {"DIRS": [tmp_path]}]
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.cache"
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"redis://127.0.0.1:{free_port()}/0"}}
    cookies = {"HTTP_COOKIE": "sessionid=" + "a" * 32}
    with override_ruleset("refusing", NOTHING, failure_mode="closed"):
        answer = Client(raise_request_exception=False).get("/wsgi/", HTTP_ACCEPT="text/html", **cookies)
        assert answer.status_code == 503
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, OURS]
        settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["refusing"]
        answer = Client(raise_request_exception=False).get("/plain/", HTTP_ACCEPT="text/html", **cookies)
        assert answer.status_code == 503
