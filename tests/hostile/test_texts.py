"""Strings of clients that are too long, attack patterns, or look like a log line or a key."""

from __future__ import annotations

import io
import json
import logging
import re
from contextlib import contextmanager

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import path
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.engine.matching import compile_match
from django_ratelimit_rules.engine.values import MAX_TEXT
from django_ratelimit_rules.identifiers.bodies import MAX_JSON
from django_ratelimit_rules.runtime import log_sampling
from django_ratelimit_rules.testing import override_ruleset

# Patterns that take a backtracking engine longer than the age of the universe, each with its worst string.
EXPONENTIAL = [
    ({"regex": "^(a+)+$"}, "a" * 8000 + "!"),
    ({"regex": "^(a|a)*$"}, "a" * 8000 + "!"),
    ({"regex": r"^(([a-z])+.)+[A-Z]([a-z])+$"}, "a" * 8000),
    ({"regex": "(a?){100}a{100}"}, "a" * 99),
    ({"regex": r"^(.*?,){20}P"}, "," * 8000),
    ({"glob": "**a" * 100 + "b"}, "a" * 8000),
    ({"glob": "*a" * 100 + "b"}, "a" * 8000),
    ({"not": {"regex": "^(a+)+.?$"}}, "a" * 8000 + "!"),
]


@pytest.mark.parametrize(("condition", "text"), EXPONENTIAL)
@pytest.mark.parametrize("number", [1, 20])
def test_a_pattern_that_is_exponential_elsewhere_is_decided(condition, text, number):
    # Match once alone, and once among so many rules that one set contains them. The test passes if both end.
    assert not compile_match({"path": condition}).holds({"path": text}.get)
    rules = [Rule(f"r{n}", match={"path": varied(condition, n)}, limit=1, period=60) for n in range(number)]
    with override_ruleset("patterns", rules):
        assert not Limiter("patterns").peek({"path": text}).matched


def varied(condition: dict, number: int) -> dict:
    """Return the condition with a pattern that is spelled differently."""
    return {
        name: varied(said, number)
        if name == "not"
        else f"{said}{number}"
        if name == "glob"
        else f"(?:{said})|z{number}"
        for name, said in condition.items()
    }


@rate_limited("cut")
def view(request):
    return HttpResponse("fine")


urlpatterns = [path("t/", view)]
LATE = "a" * MAX_TEXT + "needle"


@pytest.mark.parametrize("name", ["header.x-long", "query.q", "post.q", "json.q", "cookie.q"])
@pytest.mark.parametrize("condition", [{"regex": "needle"}, {"suffix": "needle"}, {"glob": "**needle"}])
@pytest.mark.urls(__name__)
def test_client_values_are_cut_before_they_are_matched(settings, name, condition):
    def ask(text: str) -> bool:
        client = Client()
        if name == "cookie.q":
            client.cookies["q"] = text
        request = {
            "header.x-long": lambda: client.get("/t/", HTTP_X_LONG=text),
            "query.q": lambda: client.get("/t/", {"q": text}),
            "post.q": lambda: client.post("/t/", {"q": text}),
            "json.q": lambda: client.post("/t/", json.dumps({"q": text}), content_type="application/json"),
            "cookie.q": lambda: client.get("/t/"),
        }[name]
        return request().wsgi_request.rate_limits["cut"].matched

    with override_ruleset("cut", [Rule("r", match={name: condition}, limit=99, period=60)]):
        assert ask("a" * (MAX_TEXT - 6) + "needle")
        assert not ask(LATE)


def test_long_texts_that_differ_at_their_ends_are_different_still():
    same, other = "a" * 100_000, "a" * 99_999 + "b"
    rules = [
        Rule("counted", characteristics=["text"], limit=1, period=60),
        Rule("equal", action="log", match={"text": same}, limit=9, period=60),
    ]
    with override_ruleset("long", rules):
        assert [Limiter("long").check({"text": text}).blocked for text in (same, other, same)] == [False, False, True]
        assert [len(Limiter("long").peek({"text": text, "x": 1}, cost=0).evaluations) for text in (same, other)] == [
            2,
            1,
        ]


@pytest.mark.urls(__name__)
def test_a_json_body_that_is_too_large_is_not_parsed(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = None
    with override_ruleset("cut", [Rule("r", match={"json.a": "x"}, limit=9, period=60)]):
        for length, matched in ((10, True), (MAX_JSON + 1, False)):
            body = '{"a": "x"}'.ljust(length)
            answer = Client().post("/t/", body, content_type="application/json")
            assert answer.status_code == 200
            assert answer.wsgi_request.rate_limits["cut"].matched is matched


FORGED = "x\nERROR Rate limit exceeded: limiter=other\r\n\x1b[31m\x85\u2028\u2029\x00\v\f\x7f"
KEY = re.compile(rb":1:rl(\{[a-z][a-z0-9_]{0,63}\}[A-Za-z0-9_-]{5,15}:[!-~]{1,150}|:[a-z]+(:[a-z0-9_:]+)?)")
KINDS = [
    Rule("seen", action="log", characteristics=["who", "header.x-a"], limit=0, period=60),
    Rule("kinds", action="log", characteristics=["who"], count_distinct="what", limit=1, period=60),
    Rule("slow", action="log", characteristics=["user"], limit=1, period=60, algorithm="sliding_window"),
    Rule("banned", characteristics=["who", "path", "user", "ip"], limit=1, period=60, ban_for=60),
]
hostile = st.text(st.characters(exclude_categories=()), max_size=200)


@contextmanager
def written_log():
    """Record the app's log lines with a plain handler, as in a file."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("LINE %(message)s"))
    ours = logging.getLogger("django_ratelimit_rules")
    before = ours.level, ours.propagate
    ours.addHandler(handler)
    ours.setLevel(logging.DEBUG)
    ours.propagate = False
    try:
        yield stream
    finally:
        ours.removeHandler(handler)
        ours.level, ours.propagate = before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@example(FORGED, FORGED)
@example("}{other}a:f:", "*?[a]\\")
@example("$6\r\nFLUSHALL\r\n", "%s %(a)s {0}")
@given(hostile, hostile)
def test_no_value_forges_a_line_of_the_log_or_a_key_in_redis(redis_client, one, other):
    redis_client.flushdb()
    log_sampling.forget()
    identifier = {"who": one, "what": other, "user": one, "path": other, "header.x-a": one, "ip": other}
    with written_log() as log, override_ruleset("forged", KINDS):
        for _ in range(3):
            Limiter("forged").check(identifier)
    lines = log.getvalue().splitlines()
    assert len(lines) >= 3
    assert all(re.fullmatch(r"LINE Rate limit exceeded: limiter=forged rule=[a-z]+ [ -~]+", line) for line in lines)
    keys = redis_client.keys("*")
    assert len(keys) >= 4
    assert [key for key in keys if not KEY.fullmatch(key)] == []
    stored = [value for key in keys if redis_client.type(key) == b"set" for value in redis_client.smembers(key)]
    assert all(re.fullmatch(rb"[!-~]*", value) for value in stored)


@example(FORGED)
@given(hostile)
def test_an_error_that_quotes_a_client_stays_on_its_line(text):
    def limit(context):
        raise ValueError(text)

    log_sampling.forget()
    with written_log() as log, override_ruleset("quoted", [Rule("r", limit=limit, period=60)]):
        assert Limiter("quoted").check({}).error
    (line,) = log.getvalue().splitlines()
    assert line.startswith("LINE Limiter quoted cannot decide")
