"""Bug reports about other limiters, repeated here with the test client: groups B to E, I and J.

Each test names its report. Reports 8, 20, 21 and 22 are also tried at the store, in tests/counters/test_redis.py.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from unittest import mock

import pytest
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.test import Client
from django.urls import include, path

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.models import Rule as RuleRow
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.testing import moved_clock, override_ruleset


@rate_limited("api")
def view(request, **kwargs):
    return HttpResponse("fine")


urlpatterns = [
    path("t/", view, name="t"),
    path("t/<str:word>/", view, name="word"),
    path("u/<int:pk>/", view, name="user"),
    path("", include("tests.urls")),
]

pytestmark = pytest.mark.urls(__name__)


def limit(number: int, period, *by: str, name: str = "limited", **options) -> Rule:
    return Rule(name, action="limit", characteristics=list(by), limit=number, period=period, **options)


@pytest.fixture
def hit(client):
    """Make a request, and return its status."""
    return lambda url="/t/", **meta: client.get(url, **meta).status_code


def remaining(response) -> dict[str, int]:
    """Return the remaining calls of each policy, from the results that the headers show."""
    return {e.rule: e.remaining for e in response.wsgi_request.rate_limits["api"].evaluations}


PAIRS = [("x:y", "z"), ("x", "y:z"), ("x:y:z", ""), ("", "x:y:z")]


@pytest.mark.parametrize("separator", [":", "|", ",", "=", "}", "{", "\x1f", "#", "%", "a", "header.a", "/"])
@override_ruleset("api", [limit(1, 60, "header.a", "header.b")])
def test_report_5_no_two_pairs_of_values_glue_together(hit, separator):
    for a, b in PAIRS:
        a, b = a.replace(":", separator), b.replace(":", separator)
        assert hit(HTTP_A=a, HTTP_B=b) == 200
        assert hit(HTTP_A=a, HTTP_B=b) == 429


def test_report_5_limiters_never_share_and_routes_only_when_counted_by_route(hit):
    for name, value in (("a", "b:x"), ("ab", "x")):
        with override_ruleset(name, [limit(1, 60, "user")]):
            assert not Limiter(name).check({"user": value}).blocked
    with override_ruleset("api", [limit(1, 60, "route")]):
        assert [hit("/u/1/"), hit("/u/2/")] == [200, 429]
    with override_ruleset("api", [limit(1, 60, "path")]):
        assert [hit("/u/1/"), hit("/u/2/"), hit("/u/1/")] == [200, 200, 429]


@override_ruleset("api", [limit(2, 20, "header.x-org", match={"header.X-User": {"regex": ".*"}})])
def test_report_6_a_rule_whose_header_is_absent_does_not_fire(hit, keys):
    assert [hit(HTTP_X_ORG="acme") for _ in range(3)] == [200] * 3
    assert keys() == []
    assert [hit(HTTP_X_ORG="acme", HTTP_X_USER="ann") for _ in range(3)] == [200, 200, 429]
    # Requests without the characteristic share one counter. `exists` excludes them from the rule.
    assert [hit(HTTP_X_USER="ann") for _ in range(2)] == [200, 200]
    assert not any("None" in key for key in keys())
    guarded = {"header.x-user": {"exists": True}, "header.x-org": {"exists": True}}
    with override_ruleset("api", [limit(2, 20, "header.x-org", match=guarded)]):
        assert [hit(HTTP_X_USER="ann", REMOTE_ADDR=f"203.0.113.{n}") for n in range(4)] == [200] * 4


@pytest.mark.parametrize("text", ["Zo\u00eb", "Zoe\u0308", "\udcff", "a" * 10_000, "\U0001f600", "\u898b", "a\x00b"])
def test_report_7_any_text_a_request_carries_has_a_counter_of_its_own(hit, keys, text):
    with override_ruleset("api", [limit(2, 60, "header.x-name")]):
        assert [hit(HTTP_X_NAME=text) for _ in range(3)] == [200, 200, 429]
        assert hit(HTTP_X_NAME=text + "!") == 200
    assert max(map(len, keys())) <= 256


@override_ruleset("api", [limit(2, 60, "path")])
def test_report_7_paths_in_other_scripts(hit):
    assert [hit("/t/\u898b/") for _ in range(3)] == [200, 200, 429]
    assert hit("/t/\u898b\u898b/") == 200


@pytest.mark.parametrize("action", ["limit", "log"])
def test_report_8_every_key_has_an_expiry_after_every_evaluation(hit, keys, redis_client, action):
    chain = [
        limit(9, 60, "ip", name="first"),
        Rule("second", action=action, characteristics=["ip"], limit=2, period=60),
        limit(9, 60, "ip", name="third"),
    ]
    with override_ruleset("api", chain):
        for _ in range(5):
            hit()
            assert all(0 < redis_client.pttl(key) <= 60_000 for key in keys())
        for key in keys():
            redis_client.persist(key)
        hit()
        assert len(keys()) == 3
        assert all(redis_client.pttl(key) > 0 for key in keys())


@override_ruleset("api", [limit(3, 2, "ip")])
def test_report_9_the_announced_end_of_a_window_does_not_move(client, hit):
    ends = []
    with moved_clock(datetime.now(UTC)) as clock:
        for _ in range(16):
            result = client.get("/t/").wsgi_request.rate_limits["api"]
            ends.append(clock.timestamp() + result.evaluations[0].reset_after)
            clock.move(0.1)
        # With the bug, each call moves the end by the time since the first call. Times are in milliseconds.
        assert max(ends) - min(ends) < 0.01
        assert hit() == 429
        clock.move(max(0, max(ends) - clock.timestamp()) + 0.01)
        assert hit() == 200


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window", "token_bucket"])
def test_report_10_no_period_ever_lets_more_than_documented_through(algorithm):
    # At most twice the limit is allowed: around the edge of a fixed window, after a full bucket, and in a sliding
    # window with all calls at its end. The share that still counts is computed from the whole window.
    passed = []
    with override_ruleset("api", [limit(5, 1, "ip", algorithm=algorithm)]):
        started = time.monotonic()
        while time.monotonic() - started < 3.5:
            if not Limiter("api").check({"ip": "203.0.113.7"}).blocked:
                passed.append(time.monotonic())
    assert len(passed) >= 15
    assert max(sum(start <= moment < start + 0.99 for moment in passed) for start in passed) <= 10


@pytest.mark.django_db(transaction=True)
@override_ruleset("api", [limit(50, 60, "ip")])
def test_report_11_exactly_the_limit_of_many_parallel_requests_passes():
    answers = []

    def twenty() -> None:
        client = Client()
        answers.extend([client.get("/t/") for _ in range(20)])

    threads = [threading.Thread(target=twenty) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed = [answer for answer in answers if answer.status_code == 200]
    assert (len(passed), len(answers)) == (50, 400)
    assert sorted(remaining(answer)["limited"] for answer in passed) == list(range(50))


@override_ruleset("api", [limit(5, 60, "ip"), limit(99, 60, "ip", name="sliding", algorithm="sliding_window")])
def test_report_12_the_clock_of_the_application_does_not_count(client):
    real = time.time
    passed = 0
    for number in range(12):
        skew = 30 if number % 2 else -30
        with mock.patch("time.time", lambda skew=skew: real() + skew):
            answer = client.get("/t/")
        passed += answer.status_code == 200
        if answer.status_code == 429:
            assert 1 <= int(answer["Retry-After"]) <= 60
    assert passed == 5


@pytest.mark.parametrize("behind", [[], [limit(5, 60, "ip", name="behind")]])
def test_report_13_a_limit_of_zero_lets_nothing_through(client, keys, redis_client, behind):
    with override_ruleset("api", [limit(0, 60, "ip"), *behind]):
        answer = client.get("/t/")
    assert answer.status_code == 429
    assert answer["RateLimit-Policy"] == '"limited";q=0;w=60'
    assert re.fullmatch(r'"limited";r=0;t=\d+', answer["RateLimit"])
    assert "Retry-After" not in answer  # because waiting would not help
    assert all(redis_client.pttl(key) > 0 for key in keys())


@pytest.mark.django_db
def test_report_13_an_empty_limit_is_refused():
    row = RuleRow(ruleset=Ruleset.objects.create(name="api"), name="r", period=60)
    with pytest.raises(ValidationError) as raised:
        row.full_clean()
    assert "limit" in raised.value.message_dict


@pytest.mark.parametrize(
    "period",
    [timedelta(seconds=600, milliseconds=1), timedelta(milliseconds=500), "1.5", 1.5, Decimal("1.5"), 0.001, "0.5s"],
)
def test_report_14_a_fraction_of_a_second_is_refused_before_it_reaches_redis(period):
    with pytest.raises((TypeError, ValueError), match="period"):
        limit(1, period)


def test_report_15_a_cost_above_the_limit_is_refused_and_leaves_the_room():
    limiter = Limiter("api")
    ask = partial(limiter.check, {"ip": "203.0.113.7"})
    with override_ruleset("api", [limit(10, 60, "ip")]):
        said = [(r.blocked, r.evaluations[0].remaining) for r in (ask(5), ask(100), ask(5), ask(1))]
        assert said == [(False, 5), (True, 5), (False, 0), (True, 0)]
        assert limiter.check({"ip": "203.0.113.8"}, 11).blocked


@pytest.mark.parametrize("order", [("header.u", "header.t"), ("header.t", "header.u")])
def test_report_23_a_refused_request_uses_up_no_quota(client, hit, order):
    with override_ruleset("api", [limit(4, 3600, by, name="by_" + by[-1]) for by in order]):
        assert [hit(HTTP_U="u1", HTTP_T="t1") for _ in range(5)] == [200] * 4 + [429]
        assert [hit(HTTP_U="u2", HTTP_T="t1") for _ in range(2)] == [429, 429]
        answers = [client.get("/t/", HTTP_U="u2", HTTP_T="t2") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 4 + [429]
    assert remaining(answers[0])["by_u"] == 3


WINDOWS = {"minute": (20, 60), "ten": (200, 600), "hour": (1200, 3600), "day": (5000, 86400)}


@override_ruleset("api", [limit(number, period, "ip", name=name) for name, (number, period) in WINDOWS.items()])
def test_report_24_four_windows_count_every_call_once_each(client):
    answers = [client.get("/t/") for _ in range(21)]
    assert [answer.status_code for answer in answers] == [200] * 20 + [429]
    assert remaining(answers[19]) == {"minute": 0, "ten": 180, "hour": 1180, "day": 4980}


@override_ruleset("api", [limit(3, 60, "ip", name="one"), limit(3, 60, "ip", name="other")])
def test_report_24_two_equal_rules_keep_a_counter_each(client, keys):
    assert [client.get("/t/").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert len(keys()) == 2


@override_ruleset("api", [Rule("seen", action="log", characteristics=["ip"], limit=1, period=60), limit(9, 60, "ip")])
def test_report_25_a_log_rule_over_its_limit_leaves_a_line_and_a_count(client, caplog):
    name = (
        'django_rate_limiter_rule_evaluations_total{action="log",exceeded="true",'
        'rate_limiter="api",result="allow",rule="seen"}'
    )

    def counted() -> float:
        found = re.search(re.escape(name) + r" (\S+)", client.get("/metrics").content.decode())
        return float(found[1]) if found else 0.0

    before = counted()
    with caplog.at_level(logging.INFO):
        answers = [client.get("/t/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert not any("Retry-After" in answer for answer in answers)
    lines = [record.getMessage() for record in caplog.records if "rule=seen" in record.getMessage()]
    assert len(lines) == 2
    assert all("limiter=api" in line for line in lines)
    assert counted() - before == 2
    assert remaining(answers[-1])["limited"] == 6


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("pattern", ["*", "(", "(?P<x>"])
def test_report_26_a_broken_pattern_is_refused_and_one_in_the_database_disables_itself(hit, client, caplog, pattern):
    ruleset = Ruleset.objects.create(name="api")
    bad = RuleRow(ruleset=ruleset, name="bad", limit=1, period=60, match={"path": {"regex": pattern}})
    with pytest.raises(ValidationError) as raised:
        bad.full_clean()
    assert "match" in raised.value.message_dict
    RuleRow.objects.create(ruleset=ruleset, name="bad", limit=1, period=60)
    RuleRow.objects.create(ruleset=ruleset, name="good", limit=2, period=60, position=1)
    RuleRow.objects.filter(name="bad").update(match={"path": {"regex": pattern}})
    assert [hit() for _ in range(3)] == [200, 200, 429]
    assert client.get("/admin/login/").status_code == 200
    assert len([r for r in caplog.records if r.levelno == logging.ERROR and "'bad'" in r.getMessage()]) == 1


@pytest.mark.parametrize("name", ["X-Test", "x-test", "X-TEST", "x_test"])
def test_report_27_a_header_is_found_in_any_case(client, hit, name):
    with override_ruleset("api", [limit(1, 60, f"header.{name}")]):
        assert [hit(HTTP_X_TEST="123"), hit(HTTP_X_TEST="123")] == [200, 429]
        assert client.get("/t/", headers={"x-TEST": "123"}).status_code == 429
    with override_ruleset("api", [limit(0, 60, match={f"header.{name}": "abc"})]):
        assert [hit(HTTP_X_TEST="ABC"), hit(HTTP_X_TEST="abc")] == [200, 429]
