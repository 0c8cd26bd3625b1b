"""The guide's examples for API frameworks and for callers without a request: they compile, and those that can be run
without a worker or a socket do what it says."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import path

from django_ratelimit_rules import Rule
from django_ratelimit_rules.testing import override_ruleset

GUIDE = Path(__file__).parents[2] / "docs" / "frameworks.md"


def examples():
    """The guide's Python blocks, by a word that tells them apart."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    words = ("rest_framework", "ninja", "celery", "channels", "BaseCommand")
    return dict(zip(words, blocks, strict=True))


def run(word):
    """What an example defines."""
    names: dict[str, object] = {"__name__": f"guide_{word}"}
    exec(compile(examples()[word], f"docs/frameworks.md ({word})", "exec"), names)
    return names


@pytest.mark.parametrize("word", ["rest_framework", "ninja", "celery", "channels", "BaseCommand"])
def test_an_example_compiles_and_imports_what_there_is(word):
    block = examples()[word]
    assert word in block
    for node in ast.walk(ast.parse(block, f"docs/frameworks.md ({word})")):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("django_ratelimit_rules"):
            module = import_module(str(node.module))
            assert all(hasattr(module, imported.name) for imported in node.names)


def test_the_examples_for_rest_framework_and_ninja_limit(settings):
    rest, ninja = run("rest_framework"), run("ninja")

    class Urls:
        urlpatterns = [
            path("rest/", rest["Search"].as_view()),
            path("export/", rest["export"]),
            path("api/", ninja["api"].urls),
        ]

    settings.ROOT_URLCONF = Urls
    rule = Rule("tight", characteristics=["ip"], limit=9, period=60)
    client = Client()
    with override_ruleset("search", [rule]), override_ruleset("export", [rule]), override_ruleset("api", [rule]):
        assert client.get("/rest/")["RateLimit"].startswith('"tight";r=8;')
        assert client.post("/export/")["RateLimit"].startswith('"tight";r=4;')
        statuses = [client.get("/api/search?q=1").status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 200, 429]


def test_the_example_of_a_command_stops_when_its_quota_is_used_up():
    command = run("BaseCommand")["Command"]()
    with override_ruleset("geocoder", [Rule("per_day", characteristics=["key"], limit=2, period="1d")]):
        said = StringIO()
        with pytest.raises(CommandError, match=r"^2 of 3 done; limiter 'geocoder' blocked"):
            call_command(command, "a", "b", "c", stdout=said)
    assert said.getvalue() == "a: asked\nb: asked\n"
