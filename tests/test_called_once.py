"""No function of a project runs twice for one request, and none runs that the reached rules do not need."""

from __future__ import annotations

import contextvars

import pytest
from django.contrib.auth import get_user_model
from django.http import HttpResponse
from django.test import AsyncRequestFactory
from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules import Rule, engine, rate_limited
from django_ratelimit_rules.engine import Ruleset
from django_ratelimit_rules.identifiers import property_provider, registry
from django_ratelimit_rules.limiter import Limiter
from django_ratelimit_rules.testing import override_ruleset

WORD = contextvars.ContextVar("word", default="lost")
COUNTING = {"limit": 9, "period": 60}


@pytest.fixture
def calls():
    """The names of the functions that ran, in order. ``free``, ``team`` and ``size`` are async providers."""
    made: list[str] = []

    def provide(name, value):
        async def provider(request):
            made.append(name)
            return value

        property_provider(name)(provider)

    with registry.isolated(empty=True):
        for name, value in (("free", True), ("team", 7), ("size", "big")):
            provide(name, value)
        yield made


def view(**arguments):
    async def answer(request):
        return HttpResponse()

    return rate_limited("api", **arguments)(answer)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("argument", ["identifier", "cost"])
async def test_a_sync_function_with_a_query_runs_once_for_an_async_request(argument):
    made = []

    def asked(request):
        made.append(WORD.get())
        users = get_user_model().objects.count()
        return {"ip": f"{users}"} if argument == "identifier" else 1 + users

    WORD.set("kept")
    with override_ruleset("api", [Rule("r", characteristics=["ip"], **COUNTING)], failure_mode="closed"):
        answer = await view(**{argument: asked})(AsyncRequestFactory().get("/"))
    assert (answer.status_code, made) == (200, ["kept"])


@pytest.mark.django_db(transaction=True)
async def test_a_computed_limit_with_a_query_runs_once_for_an_async_check():
    made = []

    def limit():
        made.append(WORD.get())
        return 3 + get_user_model().objects.count()

    WORD.set("kept")
    with override_ruleset("api", [Rule("r", limit=limit, period=60)], failure_mode="closed"):
        result = await Limiter("api").acheck({})
    assert (result.evaluations[0].limit, made) == (3, ["kept"])


@pytest.mark.django_db(transaction=True)
async def test_a_sync_legacy_limiter_with_a_query_runs_once_beside_an_async_check():
    made = []

    def legacy():
        made.append(1)
        return get_user_model().objects.exists()

    with override_ruleset("api", [Rule("r", **COUNTING)], mode="dry_run"):
        assert not (await Limiter("api").acompare({}, legacy)).blocked
    assert made == [1]


async def test_three_async_providers_make_one_plan(calls, monkeypatch):
    plans = []
    plan = engine.plan
    monkeypatch.setattr(engine, "plan", lambda *arguments: plans.append(1) or plan(*arguments))
    with override_ruleset("api", [Rule("r", characteristics=["free", "team", "size"], **COUNTING)]):
        result = await Limiter("api").acheck_request(AsyncRequestFactory().get("/"))
    assert result.matched
    assert (calls, plans) == (["free", "team", "size"], [1])


async def test_a_provider_runs_once_for_all_limiters_of_a_request_even_when_it_fails(calls):
    @property_provider("broken")
    def broken(request):
        calls.append("broken")
        raise LookupError

    rules = [Rule("team", characteristics=["team"], **COUNTING), Rule("r", characteristics=["broken"], **COUNTING)]
    request = AsyncRequestFactory().get("/")
    with override_ruleset("one", rules), override_ruleset("two", rules):
        results = [await Limiter(name).acheck_request(request) for name in ("one", "two")]
    assert [result.error for result in results] == [True, True]
    assert calls == ["team", "broken"]


async def test_properties_of_rules_that_are_not_reached_are_not_loaded(calls):
    rules = [
        Rule("elsewhere", match={"path": "/other/", "size": "big"}, **COUNTING),
        Rule("free", action="skip", match={"free": True}),
        Rule("team", characteristics=["team"], **COUNTING),
    ]
    with override_ruleset("api", rules):
        result = await Limiter("api").acheck_request(AsyncRequestFactory().get("/"))
    assert result.skipped
    assert calls == ["free"]


async def test_properties_that_code_hands_over_are_not_loaded(calls):
    with override_ruleset("api", [Rule("r", characteristics=["team", "free"], **COUNTING)]):
        await Limiter("api").acheck_request(AsyncRequestFactory().get("/"), identifier={"team": 8})
    assert calls == ["free"]


NAMES = st.sampled_from(["path", "user", "team", "plan|lower"])
MATCH = st.dictionaries(NAMES, st.sampled_from(["a", "b", None]), max_size=2)
RULES = st.lists(
    st.tuples(MATCH, st.lists(NAMES, max_size=2, unique=True), st.sampled_from(["limit", "skip", "distinct"])),
    min_size=1,
    max_size=16,
)


@given(RULES, st.dictionaries(NAMES, st.sampled_from(["a", "b"])))
def test_a_ruleset_names_exactly_the_properties_that_its_plan_asks_for(drawn, identifier):
    rules = []
    for number, (match, characteristics, kind) in enumerate(drawn):
        if kind == "skip":
            rules.append(Rule(f"r{number}", action="skip", match=match))
        else:
            distinct = {"count_distinct": "team"} if kind == "distinct" else {}
            rules.append(Rule(f"r{number}", match=match, characteristics=characteristics, **COUNTING, **distinct))
    ruleset = Ruleset("api", tuple(rules))
    asked = []

    def value_of(name):
        asked.append(name)
        return identifier.get(name)

    engine.plan(ruleset, value_of)
    assert set(ruleset.asking(identifier.get)) == set(asked)
