"""The guide for moving over: its commands run, its examples limit as they say, with the real libraries."""

from __future__ import annotations

import ast
import re
import shlex
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.urls import path

from django_ratelimit_rules import Limiter, Rule, rulestext
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.testing import override_ruleset

GUIDE = (Path(__file__).parents[1] / "docs" / "migrating.md").read_text("utf-8")
pytestmark = pytest.mark.django_db


def section(heading: str) -> str:
    """What stands under a heading."""
    _, _, rest = GUIDE.partition(f"\n{heading}\n")
    assert rest, heading
    return re.split(r"\n##+ ", rest)[0]


def blocks(heading: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section(heading), re.DOTALL)


def define(*sources: str) -> dict:
    """What examples define, in this order; their views, which the guide leaves open, answer."""
    names: dict = {"__name__": "guide"}
    for source in sources:
        body = source.replace(
            "(request): ...", "(request):\n    from django.http import HttpResponse\n    return HttpResponse()"
        )
        exec(compile(body, "docs/migrating.md", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def _fresh_cache():
    cache.clear()


@pytest.fixture
def served(settings):
    """A function that serves a view, and returns the statuses of some calls."""

    def serve(view, times: int, **options) -> list[int]:
        settings.ROOT_URLCONF = type("Urls", (), {"urlpatterns": [path("", view)]})
        return [Client().generic(options.get("method", "GET"), "/").status_code for _ in range(times)]

    return serve


def test_every_python_example_compiles():
    found = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(found) == 8
    for source in found:
        ast.parse(source)


@pytest.mark.urls("tests.contrib.old_site")
def test_the_commands_read_plan_and_apply_drafts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = "".join(blocks("## 1. Read", "console")).splitlines()
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "manage.py"
        # What `ratelimit_plan` ends with when something would change.
        ends = pytest.raises(SystemExit, match="2") if words[1] == "ratelimit_plan" else nullcontext()
        with ends:
            call_command(*words[1:], stdout=StringIO())
    assert Ruleset.objects.get(name="search").mode == "dry_run"
    assert "--from drf" in section("## 1. Read")


@pytest.mark.parametrize("mode", ["off", "dry_run"])
def test_django_ratelimit_goes_on_to_decide_with_its_own_counters(served, mode):
    before, after, _ = blocks("### From django-ratelimit", "python")
    with override_ruleset("search", [], mode=mode):
        old, new = define(before)["search"], define(after)["search"]
        assert served(old, 3) == [200] * 3
        assert served(new, 3) == [200, 200, 403]
    with override_ruleset("search", [Rule("one", characteristics=["ip"], limit=1, period=60)]):
        assert served(new, 2) == [200, 429]


def test_several_decorators_of_one_view_become_one(served):
    _, after, several = blocks("### From django-ratelimit", "python")
    with override_ruleset("sign_up", [], mode="off"):
        # All without an address share a counter of ten.
        assert served(define(after, several)["sign_up"], 11, method="POST") == [200] * 10 + [403]


@pytest.mark.parametrize("mode", ["off", "dry_run"])
def test_rest_framework_s_throttles_go_on_to_decide(served, mode, monkeypatch):
    from rest_framework.throttling import AnonRateThrottle, UserRateThrottle

    monkeypatch.setattr(UserRateThrottle, "rate", "2/hour", raising=False)
    monkeypatch.setattr(AnonRateThrottle, "rate", "3/hour", raising=False)
    before, after, function = blocks("### From Django REST framework", "python")
    answering = "\n\n    def get(self, request):\n        from rest_framework.response import Response\n"
    answering += "        return Response([])\n"
    old, new = (define(source.rstrip() + answering)["Items"].as_view() for source in (before, after))
    latest = define(function)["latest"]
    with override_ruleset("user", [], mode=mode), override_ruleset("anon", [], mode=mode):
        assert served(old, 1) == [200]
        assert served(new, 2) == [200, 429]
        cache.clear()
        assert served(latest, 3) == [200, 200, 429]
    enforced = [Rule("one", characteristics=["user"], limit=1, period=60)]
    with override_ruleset("user", enforced), override_ruleset("anon", [], mode="off"):
        assert served(new, 2) == [200, 429]


def test_django_smart_ratelimit_goes_on_to_decide_and_the_rule_says_the_same(served):
    (code,) = blocks("### From django-smart-ratelimit", "python")
    (text,) = blocks("### From django-smart-ratelimit", "yaml")
    view = define(code)["search"]
    ruleset = rulestext.load(text, "guide.yaml")["search"]
    with override_ruleset("search", ruleset.rules, mode="dry_run"):
        assert served(view, 7) == [200] * 5 + [429] * 2
        # Ours counted the refused calls too, and would have refused the same.
        assert Limiter("search").peek({"ip": "127.0.0.1"}).exceeded
    with override_ruleset("search", ruleset.rules):
        assert served(view, 1) == [429]


def test_code_without_a_request_compares():
    (code,) = blocks("### From anything else", "python")
    send = define(code)["send"]
    mail = SimpleNamespace(team=7)
    full, empty = (SimpleNamespace(is_full=lambda team, full=full: full) for full in (True, False))
    with override_ruleset("mails", [Rule("one", characteristics=["team"], limit=1, period=60)], mode="dry_run"):
        assert [send(mail, limiter) for limiter in (full, empty, empty)] == [False, True, True]
    with override_ruleset("mails", [Rule("none", characteristics=["team"], limit=0, period=60)]):
        assert not send(mail, empty)


def test_the_log_line_that_the_guide_shows_is_the_one_that_is_written(caplog):
    (shown,) = re.findall(r"^    (Rate limiters compared: .*)$", GUIDE, re.MULTILINE)
    words = re.findall(r"(\w+)=", shown)
    with override_ruleset("search", [Rule("none", limit=0, period=3600)], mode="dry_run"):
        Limiter("search").compare({}, legacy_blocked=False)
    (line,) = [record.getMessage() for record in caplog.records if "compared" in record.getMessage()]
    assert re.findall(r"(\w+)=", line) == words
