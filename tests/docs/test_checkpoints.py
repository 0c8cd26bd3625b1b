"""Checkpoints on views, in the middleware and without a request work as the page describes."""

from __future__ import annotations

import inspect
import re

from django.utils.decorators import method_decorator
from django.views.generic import ListView

from django_ratelimit_rules import Limiter, Rule, rate_limited, rulesets
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take, text_of
from tests.docs.running import define, serve

(CHECKPOINTS,) = take("docs/checkpoints.md#where-a-checkpoint-fits")
(PIPELINES,) = take("docs/checkpoints.md#without-a-request")


def test_checkpoints_work_on_functions_classes_and_in_the_middleware(settings):
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
        # The fifth call exceeds the limit of the whole site.
        assert set(client.get("/reports/")["RateLimit-Policy"].split(";")) >= {'"many"'}


def test_code_without_a_request_is_refused_by_its_own_rules(capsys):
    for _ in range(11):
        with rulesets.isolated_code(empty=True):
            define(PIPELINES)
    rule, wait = capsys.readouterr().out.split()
    assert rule == "user_pipeline_limit"
    assert 0 < float(wait) <= 60


def test_the_table_of_methods_names_those_of_a_limiter():
    page = text_of("docs/checkpoints.md")
    named = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    (twins,) = re.findall(r"^(`acheck`.*?) are the async versions", page, re.MULTILINE | re.DOTALL)
    asynchronous = re.findall(r"`(\w+)`", twins)
    assert all(inspect.iscoroutinefunction(getattr(Limiter, name)) for name in asynchronous)
    assert {name.removeprefix("a") for name in asynchronous} == set(named) - {"explain"}
    assert callable(Limiter.explain)
