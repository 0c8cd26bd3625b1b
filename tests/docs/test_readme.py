"""The README's commands and examples work as described."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pkgutil import iter_modules

import pytest
from django.conf import settings as django_settings

import django_ratelimit_rules
from django_ratelimit_rules import Limiter
from django_ratelimit_rules.counters import Counters
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.testing import override_ruleset
from tests.acceptance import test_demo
from tests.docs.pages import ROOT, take

DEMO, TESTS = (command.strip() for command in take("README.md#see-it"))
SETTINGS, VIEWS, URLS = take("README.md#five-minute-installation")
(FIRST_RULE,) = take("README.md#a-first-rule")
(SEVEN_LINES,) = take("README.md#how-it-works")


def steps(command: str) -> tuple[str, str, list[str]]:
    """Return a command's parts: the creation of the environment, the installed extra, and the program."""
    environment, install, run = command.split(" && ")
    (extra,) = re.findall(r"-e '\.\[(\w+)\]'", install)
    python, *arguments = run.split()
    assert python == ".venv/bin/python"
    return environment, extra, arguments


@pytest.mark.parametrize("command", [DEMO, TESTS])
def test_a_command_for_a_fresh_machine_makes_an_environment_with_an_extra_that_there_is(command):
    environment, extra, _ = steps(command)
    assert environment == "python3 -m venv .venv"
    assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_the_demo_s_command_is_the_tested_one():
    *_, (script, *arguments) = steps(DEMO)
    assert [sys.executable, str(ROOT / script), *arguments] == test_demo.command()


def test_the_tests_command_is_the_one_that_ci_takes_out_and_runs():
    script = (ROOT / ".ci" / "run").read_text()
    (expression,) = re.findall(r"sed -n '(.*)' README\.md", script)
    found = subprocess.run(["sed", "-n", expression, "README.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[0] == TESTS
    assert steps(TESTS)[2][:3] == ["-m", "pytest", "-q"]


SITE = """
from django.core.management import call_command
from django.test import Client
from django_ratelimit_rules.models import Rule, Ruleset

call_command("migrate", verbosity=0)
search = Ruleset.objects.create(name="search")
Rule.objects.create(ruleset=search, name="per_user", limit=30, period=60, characteristics=["user"], position=1)
client = Client()
statuses = [client.get("/search/").status_code for _ in range(31)]
assert statuses == [200] * 30 + [429], statuses
assert b"django_rate_limiter_calls_total" in client.get("/metrics").content
"""


def test_a_new_project_limits_and_measures_after_the_installation(tmp_path):
    startproject = [sys.executable, "-m", "django", "startproject", "shop", str(tmp_path)]
    subprocess.run(startproject, check=True, env={})
    folder = tmp_path / "shop"
    redis = f"{django_settings.REDIS_URL}/1"
    with (folder / "settings.py").open("a") as file:
        file.write(SETTINGS.replace("redis://127.0.0.1:6379/0", redis) + "ALLOWED_HOSTS = ['testserver']\n")
    answer = VIEWS.replace("...", "return HttpResponse()")
    (folder / "views.py").write_text("from django.http import HttpResponse\n" + answer)
    with (folder / "urls.py").open("a") as file:
        file.write(URLS + "from shop.views import search\nurlpatterns += [path('search/', search)]\n")
    shell_command = [sys.executable, "manage.py", "shell", "-c", SITE]
    done = subprocess.run(shell_command, cwd=tmp_path, capture_output=True, text=True, check=False, env={})
    assert done.returncode == 0, done.stderr


def test_the_first_rule_allows_each_user_thirty_searches_a_minute():
    limiter = Limiter("search")
    with override_ruleset("search", ruleset_text.load(FIRST_RULE, "readme.yaml")["search"].rules):
        assert [limiter.check({"user": 1}).blocked for _ in range(31)] == [False] * 30 + [True]
        assert not limiter.check({"user": 2}).blocked
        assert limiter.peek({"user": 1}).evaluations[0].period == 60


def test_the_rooms_of_the_table_are_the_packages_and_modules_that_are_there():
    table = (ROOT / "README.md").read_text("utf-8").partition("### The rooms")[2].partition("\n## ")[0]
    named = {
        name.rstrip("/")
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall("`(.*?)`", row)
    }
    rooms = {module.name for module in iter_modules(django_ratelimit_rules.__path__) if module.ispkg}
    assert rooms - {"migrations", "templatetags"} <= named
    assert all(find_spec(f"django_ratelimit_rules.{name}") for name in named)


def test_the_seven_lines_name_existing_parts_in_the_order_of_a_check():
    source = (ROOT / "django_ratelimit_rules" / "limiter.py").read_text("utf-8")
    check = re.split(r"\n    (?:async )?def ", source.partition("    def _check(")[2])[0]
    nouns = re.findall(r"─▶ (\w+)", SEVEN_LINES)
    assert nouns == ["ruleset", "identifier", "plan", "tallies", "result", "signal", "response"]
    in_order = (r"self\._ruleset\(", r"\b(engine\.|_)plan\(", r"\.(hit|counting)\(", r"engine\.decide\(", r"_finish\(")
    places = [re.search(call, check).start() for call in in_order]
    assert places == sorted(places)
    assert hasattr(Counters, "hit")
    for dotted in ("rulesets.get", "identifiers.build", "engine.plan", "engine.decide", "signals.checked"):
        module, name = dotted.split(".")
        assert dotted in SEVEN_LINES
        assert hasattr(getattr(django_ratelimit_rules, module), name)
