"""The README's commands and examples do what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest
from django.conf import settings as django_settings
from django.core.cache import cache
from django.test import Client, RequestFactory
from django.urls import path
from django.utils.decorators import method_decorator
from django.views.generic import ListView

import django_ratelimit_rules
from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.counters import Counters
from django_ratelimit_rules.identifiers import build, known_properties, registry
from django_ratelimit_rules.testing import override_ruleset
from tests.acceptance import test_demo
from tests.docs.pages import ROOT, take
from tests.docs.running import define, serve, shell
from tests.replay.test_logs import LOG

DEMO, TESTS = (command.strip() for command in take("README.md#see-it"))
SETTINGS, VIEWS, URLS = take("README.md#sixty-seconds-to-add-it-to-a-site")
CHECKPOINTS, PIPELINES = take("README.md#where-a-checkpoint-fits")
(BY_OUTCOME,) = take("README.md#by-outcome")
(PLAN,) = take("README.md#properties-of-a-request")
REPLAY, SUGGEST = take("README.md#in-the-admin")
(SEVEN_LINES,) = take("README.md#how-it-works")
(HEADERS,) = take("README.md#answers-and-headers")
(MOVING,) = take("README.md#moving-over-from-another-limiter")
(TELLING,) = take("README.md#telling-clients-about-their-limits")
(OWN_TESTS,) = take("README.md#tests-of-your-own")

PER_USER = Rule("per_user", characteristics=["user"], limit=30, period="1m")


def steps(command: str) -> tuple[str, str, list[str]]:
    """A command's parts: what makes the environment, the extra it installs, and what is run in it."""
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


def test_the_demo_s_command_is_the_one_whose_promises_are_tested():
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


def test_a_new_project_limits_and_measures_with_what_is_shown_for_sixty_seconds(tmp_path):
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


def test_checkpoints_stand_on_functions_classes_and_in_the_middleware(settings):
    middleware = list(settings.MIDDLEWARE)
    names = define(
        CHECKPOINTS.replace("(ListView): ...", "(ListView):\n    def get(self, request): return HttpResponse()"),
        **{"rate_limited": rate_limited, "method_decorator": method_decorator, "ListView": ListView},
        MIDDLEWARE=middleware,
    )
    settings.MIDDLEWARE = middleware
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = names["RATELIMIT_RULES_MIDDLEWARE_LIMITERS"]

    async def export(request):
        return await names["export"](request, team="red")

    client = serve(settings, export=export, reports=names["Reports"].as_view())
    by_team = [Rule("team", characteristics=["team"], limit=9, period=60)]
    one = [Rule("one", limit=1, period=60)]
    many = [Rule("many", limit=4, period=60)]
    with override_ruleset("export", by_team), override_ruleset("reports", one), override_ruleset("site", many):
        assert client.get("/export/").status_code == 200
        assert [client.post("/export/").status_code for _ in range(2)] == [200, 429]
        assert client.get("/reports/").status_code == 200
        # The fifth call: the whole site's limit.
        assert set(client.get("/reports/")["RateLimit-Policy"].split(";")) >= {'"many"'}


def test_code_without_a_request_is_refused_by_its_own_rules(capsys):
    for _ in range(11):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("django_ratelimit_rules.rulesets.snapshot._code", {})
            define(PIPELINES)
    rule, wait = capsys.readouterr().out.split()
    assert rule == "user_pipeline_limit"
    assert 0 < float(wait) <= 60


def test_five_failed_sign_ins_are_refused_and_a_right_password_pays_nothing():
    limiter, who = Limiter("login"), {"ip": "192.0.2.1", "post.username|strip|lower": "ada"}
    with override_ruleset("login", [eval(BY_OUTCOME, {"Rule": Rule})]):
        for login in ["ok", *["failed"] * 5]:
            result = limiter.check(who)
            assert not result.blocked
            limiter.settle(result, {"login": login})
        assert limiter.check(who).blocked


def test_a_property_of_the_project_is_asked(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    define(PLAN)
    request = RequestFactory().get("/")
    request.user = SimpleNamespace(profile=SimpleNamespace(plan="pro"))
    assert build(request).text("plan") == "pro"
    assert known_properties()["plan"].choices == ("free", "pro")


@pytest.mark.django_db
def test_recorded_traffic_is_replayed_and_a_limit_suggested(tmp_path):
    draft = "site: {rules: [{name: clients, characteristics: [ip], limit: 9, period: 1h}]}"
    (tmp_path / "draft.yaml").write_text(draft)
    shutil.copy(LOG, tmp_path / "access.log")
    replayed, suggested = shell(REPLAY + SUGGEST, tmp_path)
    assert re.search(r"clients +[\d,]+ +[\d,]+ +[\d,]+", replayed.said)
    assert all(word in suggested.said for word in ("p50", "p95", "p99", "max", "limit:"))


def test_the_seven_lines_name_what_there_is_in_the_order_of_a_check():
    source = (ROOT / "django_ratelimit_rules" / "limiter.py").read_text("utf-8")
    check = source.partition("    def _check(")[2].partition("    async def")[0]
    nouns = re.findall(r"─▶ (\w+)", SEVEN_LINES)
    assert nouns == ["ruleset", "identifier", "plan", "tallies", "result", "signal", "response"]
    in_order = ("self._ruleset()", "engine.plan(", ".hit(", "engine.decide(", "_finish(")
    places = [check.index(text) for text in in_order]
    assert places == sorted(places)
    assert hasattr(Counters, "hit")
    for dotted in ("rulesets.get", "identifiers.build", "engine.plan", "engine.decide", "signals.checked"):
        module, name = dotted.split(".")
        assert dotted in SEVEN_LINES
        assert hasattr(getattr(django_ratelimit_rules, module), name)


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


def test_the_old_decorator_decides_until_the_ruleset_enforces(settings):
    cache.clear()
    client = serve(settings, search=define(MOVING, rate_limited=rate_limited)["search"])
    with override_ruleset("search", [], mode="off"):
        assert [client.get("/search/").status_code for _ in range(6)] == [200] * 5 + [403]
    with override_ruleset("search", [Rule("none", limit=0, period=60)]):
        assert client.get("/search/").status_code == 429


@pytest.mark.django_db
def test_the_signed_in_user_sees_what_is_used(settings, client, django_user_model):
    serve(settings, *define(TELLING, path=path, urlpatterns=[])["urlpatterns"])
    user = django_user_model.objects.create_user("ada")
    client.force_login(user)
    with override_ruleset("search", [PER_USER]):
        for _ in range(3):
            Limiter("search").check({"user": user})
        (limit,) = client.get("/limits/").json()["limits"]
    assert (limit["limiter"], limit["rule"], limit["remaining"]) == ("search", "per_user", 27)


def test_the_example_of_a_project_s_own_test_passes(settings):
    serve(settings, search=define(VIEWS)["search"])
    define(OWN_TESTS)["test_the_second_search_is_refused"](Client())
