"""The examples for API frameworks and for callers without a request compile.

Examples that need no worker or socket run, and work as the page describes.
"""

from __future__ import annotations

import ast
from importlib import import_module
from io import StringIO

import pytest
from celery import Celery
from celery.exceptions import Retry
from django.core.management import CommandError, call_command
from django.urls import path

from django_ratelimit_rules import Rule
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take
from tests.docs.running import define, serve

(REST_FRAMEWORK,) = take("docs/frameworks.md#django-rest-framework")
(NINJA,) = take("docs/frameworks.md#django-ninja")
CELERY, CHANNELS, COMMAND = take("docs/frameworks.md#callers-without-a-request")


@pytest.mark.parametrize("example", [REST_FRAMEWORK, NINJA, CELERY, CHANNELS, COMMAND])
def test_an_example_imports_existing_names(example):
    for node in ast.walk(ast.parse(example)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("django_ratelimit_rules"):
            module = import_module(str(node.module))
            assert all(hasattr(module, imported.name) for imported in node.names)


def test_the_examples_for_rest_framework_and_ninja_limit(settings):
    rest, ninja = define(REST_FRAMEWORK), define(NINJA)
    rule = Rule("tight", characteristics=["ip"], limit=9, period=60)
    client = serve(settings, path("api/", ninja["api"].urls), rest=rest["Search"].as_view(), export=rest["export"])
    with override_ruleset("search", [rule]), override_ruleset("export", [rule]), override_ruleset("api", [rule]):
        assert client.get("/rest/")["RateLimit"].startswith('"tight";r=8;')
        assert client.post("/export/")["RateLimit"].startswith('"tight";r=4;')
        statuses = [client.get("/api/search?q=1").status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 200, 429]


def test_a_task_comes_back_when_it_may_and_gives_up_where_waiting_never_helps():
    with Celery("manual", broker="memory://", set_as_current=False) as app:
        task = app.task(bind=True, max_retries=None)(define(CELERY)["send_mail"].run.__func__)

        def work(address):
            """Run the task as a worker does."""
            task.push_request(args=("red", address), kwargs={}, called_directly=False, id=address)
            try:
                return task.run("red", address)
            finally:
                task.pop_request()

        with override_ruleset("mails", [Rule("per_team", characteristics=["team"], limit=1, period=60)]):
            assert work("a@example.org") is None
            with pytest.raises(Retry) as refused:
                work("b@example.org")
            assert 0 < refused.value.when <= 60
        with override_ruleset("mails", [Rule("none", limit=0, period=60)]):
            assert work("c@example.org") is None


async def test_a_consumer_answers_a_client_that_is_too_fast(monkeypatch):
    """Run the example's class without its base, so that Channels needs no server."""
    said = []

    class Consumer:
        scope = {"url_route": {"kwargs": {"room": "blue"}}, "user": type("User", (), {"pk": 1}), "client": ["::1", 1]}

        async def send_json(self, content):
            said.append(content)

    _, _, body = CHANNELS.partition("from channels.generic.websocket import AsyncJsonWebsocketConsumer\n")
    assert body
    consumer = define(body, AsyncJsonWebsocketConsumer=Consumer)["Chat"]()
    with override_ruleset("chat", [Rule("room", characteristics=["room", "user"], limit=1, period=60)]):
        await consumer.receive_json({})
        assert said == []
        await consumer.receive_json({})
    assert said[0]["error"] == "too fast"
    assert 0 < said[0]["retry_after"] <= 60


def test_a_command_stops_when_its_quota_is_used_up():
    command = define(COMMAND)["Command"]()
    with override_ruleset("geocoder", [Rule("per_day", characteristics=["key"], limit=2, period="1d")]):
        said = StringIO()
        with pytest.raises(CommandError, match=r"^2 of 3 done; limiter 'geocoder' blocked"):
            call_command(command, "a", "b", "c", stdout=said)
    assert said.getvalue() == "a: asked\nb: asked\n"
