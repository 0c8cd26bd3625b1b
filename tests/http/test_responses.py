"""Responses on the wire: the refusal by Accept, Retry-After, and the headers, read by an independent parser."""

from __future__ import annotations

import json

import http_sf
import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules.engine import Action, Evaluation, Mode, Outcome, Result
from django_ratelimit_rules.engine.durations import spell_wait
from django_ratelimit_rules.http.responses import (
    ablocked_response,
    add_headers,
    blocked_response,
    preferred_type,
)

rf = RequestFactory()
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


def evaluation(rule="user", used=7, limit=10, *, blocked=False, **changes):
    values = {"count": used, "used": used, "limit": limit, "period": 60, "remaining": max(0, limit - used)}
    values |= {"exceeded": blocked, "banned": False, "reset_after": 20.1, "action": Action.LIMIT}
    return Evaluation(rule=rule, result=Outcome.BLOCK if blocked else Outcome.ALLOW, **(values | changes))


def result(*evaluations, limiter="search", retry_after=20.1, **changes):
    blocked = any(one.result is Outcome.BLOCK for one in evaluations)
    values = {"action": Outcome.BLOCK if blocked else Outcome.ALLOW, "matched": True, "evaluations": evaluations}
    values |= {"rule": evaluations[-1].rule if evaluations else None, "retry_after": retry_after if blocked else None}
    return Result(limiter, **(values | changes))


BLOCKED = result(evaluation(used=10, blocked=True))
FAILED_CLOSED = Result("search", action=Outcome.BLOCK, error=True, retry_after=0.4)


def refuse(accept=None, answer=BLOCKED, **meta):
    return blocked_response(rf.get("/", **({} if accept is None else {"HTTP_ACCEPT": accept}), **meta), answer)


def headers(*results, response=None):
    """Return the raw rate limit headers of a response, with lower-case names."""
    request = rf.get("/")
    request.rate_limits = {one.limiter: one for one in results}
    response = HttpResponse() if response is None else response
    for _ in range(2):
        add_headers(request, response)
    return {name.lower(): value for name, value in response.headers.items() if "ratelimit" in name.lower()}


def parsed(found):
    policy = http_sf.parse(found["ratelimit-policy"].encode(), tltype="list")
    return policy, http_sf.parse(found["ratelimit"].encode(), tltype="list")


# --- the refusal


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "text/plain"),
        ("*/*", "text/plain"),
        ("", "text/plain"),
        ("image/png", "text/plain"),
        ("garbage", "text/plain"),
        ("text/plain", "text/plain"),
        (BROWSER, "text/html"),
        ("text/html", "text/html"),
        ("application/json", "application/problem+json"),
        ("application/problem+json", "application/problem+json"),
        ("application/json, text/plain, */*", "application/problem+json"),
        ("application/json, text/javascript, */*; q=0.01", "application/problem+json"),
        ("application/*", "application/problem+json"),
        ("text/html;q=0.5, application/json", "application/problem+json"),
        ("text/html, application/json;q=0.5", "text/html"),
        ("text/html;q=0, */*", "text/plain"),
        ("application/json;q=0", "text/plain"),
    ],
)
def test_refusal_has_the_type_that_the_client_accepts_by_name(accept, expected):
    response = refuse(accept)
    assert response.status_code == 429
    assert response["Content-Type"].partition(";")[0] == expected
    assert response["Cache-Control"] == "no-store"
    assert response["Retry-After"] == "21"


@given(st.text(max_size=60))
def test_any_accept_header_is_answered(accept):
    assert preferred_type(rf.get("/", HTTP_ACCEPT=accept)) in ("application/problem+json", "text/html", "text/plain")


def test_problem_names_the_violated_policy():
    assert json.loads(refuse("application/json").content) == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Too many requests",
        "status": 429,
        "violated-policies": ["user"],
    }


def test_failing_closed_is_unavailable_for_the_pause():
    response = refuse("application/json", FAILED_CLOSED)
    assert response.status_code == 503
    assert response["Retry-After"] == "1"
    assert json.loads(response.content) == {
        "type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
        "title": "Service unavailable",
        "status": 503,
        "violated-policies": [],
    }
    assert "cannot take requests" in refuse(BROWSER, FAILED_CLOSED).content.decode()


def test_block_by_the_counters_of_this_process_is_a_limit_reached():
    local = result(evaluation(used=10, blocked=True), error=True)
    assert refuse(answer=local).status_code == 429


@pytest.mark.parametrize(("wait", "expected"), [(0.0, "1"), (0.001, "1"), (1.0, "1"), (1.001, "2"), (12345.6, "12346")])
def test_retry_after_is_whole_seconds_rounded_up_and_at_least_one(wait, expected):
    """Report 16: too early, then 0, then a large negative number."""
    answer = result(evaluation(used=10, blocked=True), retry_after=wait)
    assert refuse(answer=answer)["Retry-After"] == expected


def test_retry_after_is_absent_when_waiting_would_not_help():
    answer = result(evaluation(limit=0, used=0, blocked=True), retry_after=None)
    response = refuse(BROWSER, answer)
    assert "Retry-After" not in response
    assert "try again" not in response.content.decode()


def test_page_shows_the_reason_and_the_waiting_time(settings):
    settings.USE_THOUSAND_SEPARATOR = True
    settings.LANGUAGE_CODE = "de"
    page = refuse(BROWSER, result(evaluation(used=10, blocked=True), retry_after=5000)).content.decode()
    assert '<html lang="de">' in page
    assert "<h1>Zu viele Anfragen</h1>" in page
    assert "Sie haben zu viele Anfragen gesendet. Bitte versuchen Sie es in 84 Minuten erneut." in page
    settings.LANGUAGE_CODE = "en"
    assert refuse(answer=BLOCKED).content == b"You have sent too many requests. Please try again in 21 seconds.\n"


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (1, "1 second"),
        (119, "119 seconds"),
        (121, "3 minutes"),
        (7200, "2 hours"),
        (200_000, "3 days"),
        (7199, "120 minutes"),
    ],
)
def test_wait_is_in_words(wait, expected):
    assert spell_wait(wait) == expected


@pytest.fixture
def own_page(settings, tmp_path):
    (tmp_path / "429.html").write_text("own {{ status }}{{ result.rule }} {{ advice }} {{ request.path }}")
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]


@pytest.mark.usefixtures("own_page")
def test_page_of_the_project_wins():
    response = refuse(BROWSER)
    assert response.status_code == 429
    assert response.content == b"own user Please try again in 21 seconds. /"
    assert b"own" not in refuse(BROWSER, FAILED_CLOSED).content


@pytest.mark.usefixtures("own_page")
async def test_page_of_the_project_is_rendered_for_async_code():
    request = rf.get("/", HTTP_ACCEPT=BROWSER)
    assert (await ablocked_response(request, BLOCKED)).content.startswith(b"own user")


def test_project_without_our_templates_gets_text(settings):
    settings.TEMPLATES = []
    response = refuse(BROWSER)
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response.content.startswith(b"You have sent")


def own_view(request, result):
    return TemplateResponse(request, [], status=420, headers={"X-Rule": result.rule, "Retry-After": "7"})


async def own_async_view(request, result):
    return HttpResponse(f"{request.path} {result.rule}", status=420)


def test_view_of_the_project_answers_and_its_own_headers_stay(settings):
    settings.RATELIMIT_RULES_BLOCKED_VIEW = "tests.http.test_responses.own_view"
    response = refuse()
    assert (response.status_code, response["X-Rule"], response["Retry-After"]) == (420, "user", "7")
    assert response["Cache-Control"] == "no-store"


def test_async_view_of_the_project_answers_sync_code(settings):
    settings.RATELIMIT_RULES_BLOCKED_VIEW = "tests.http.test_responses.own_async_view"
    response = refuse()
    assert (response.content, response["Retry-After"]) == (b"/ user", "21")


@pytest.mark.parametrize("view", ["own_view", "own_async_view"])
async def test_view_of_the_project_answers_async_code(settings, view):
    settings.RATELIMIT_RULES_BLOCKED_VIEW = f"tests.http.test_responses.{view}"
    assert (await ablocked_response(rf.get("/"), BLOCKED)).status_code == 420


@pytest.mark.parametrize("accept", ["*/*", "application/json", BROWSER])
async def test_async_code_gets_the_same_refusal(accept):
    request = rf.get("/", HTTP_ACCEPT=accept)
    assert (await ablocked_response(request, BLOCKED)).content == blocked_response(request, BLOCKED).content


# --- the headers of each response


def test_draft_headers_list_all_limits_and_the_most_restrictive():
    found = headers(result(evaluation("org", 10, 100), evaluation("user", 7, 10)))
    assert found == {"ratelimit-policy": '"org";q=100;w=60, "user";q=10;w=60', "ratelimit": '"user";r=3;t=21'}
    policy, rest = parsed(found)
    assert policy == [("org", {"q": 100, "w": 60}), ("user", {"q": 10, "w": 60})]
    assert rest == [("user", {"r": 3, "t": 21})]


def test_headers_of_several_limiters_are_one_list_and_the_most_restrictive_of_all():
    """Report 17: written twice."""
    found = headers(result(evaluation("site", 5, 10)), result(evaluation("view", 4, 5), limiter="b"))
    policy, rest = parsed(found)
    assert [name for name, _ in policy] == ["site", "view"]
    assert rest == [("view", {"r": 1, "t": 21})]


def test_policies_of_one_name_in_two_limiters_get_different_names():
    blocked = result(evaluation("user", 10, blocked=True), limiter="b")
    found = headers(result(evaluation("user"), evaluation("ip")), blocked)
    policy, rest = parsed(found)
    assert [name for name, _ in policy] == ["search:user", "ip", "b:user"]
    assert rest == [("b:user", {"r": 0, "t": 21})]
    request = rf.get("/", HTTP_ACCEPT="application/json")
    request.rate_limits = {"search": result(evaluation("user")), "b": blocked}
    assert json.loads(blocked_response(request, blocked).content)["violated-policies"] == ["b:user"]


def test_block_is_nearer_than_a_limit_used_up():
    found = headers(result(evaluation("full", 10, 10), evaluation("over", 5, 10, blocked=True)))
    assert parsed(found)[1] == [("over", {"r": 5, "t": 21})]


def test_of_equally_near_limits_the_first_is_shown():
    assert parsed(headers(result(evaluation("a", 5, 10), evaluation("b", 50, 100))))[1][0][0] == "a"


def test_log_rules_take_no_part():
    logged = evaluation("shadow", 9, 10, action=Action.LOG)
    assert parsed(headers(result(logged, evaluation("user"))))[0] == [("user", {"q": 10, "w": 60})]
    assert headers(result(logged)) == {}


@pytest.mark.parametrize(
    "silent",
    [
        Result("search"),
        Result("search", mode=Mode.OFF),
        result(evaluation(), mode=Mode.DRY_RUN),
        result(evaluation(), error=True),
        FAILED_CLOSED,
    ],
)
def test_nothing_counted_a_failure_and_a_dry_run_send_no_headers(silent):
    assert headers(silent) == {}
    assert parsed(headers(silent, result(evaluation(), limiter="b")))[1][0][0] == "user"


def test_request_that_met_no_limiter_gets_no_headers():
    response = HttpResponse()
    add_headers(rf.get("/"), response)
    assert list(response.headers) == ["Content-Type"]


def test_legacy_headers_are_delta_seconds_rounded_up(settings):
    settings.RATELIMIT_RULES_HEADERS = "legacy"
    found = headers(result(evaluation("org", 10, 100), evaluation("user", 7, 10)))
    assert found == {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "3", "x-ratelimit-reset": "21"}


def test_headers_can_be_switched_off(settings):
    settings.RATELIMIT_RULES_HEADERS = "off"
    assert headers(result(evaluation())) == {}


@pytest.mark.parametrize("mode", ["draft", "legacy"])
def test_numbers_are_whole_and_never_localised(settings, mode):
    settings.RATELIMIT_RULES_HEADERS = mode
    settings.USE_THOUSAND_SEPARATOR = True
    settings.LANGUAGE_CODE = "de"
    found = headers(result(evaluation("user", 0.5, 10**12, remaining=10**12 - 0.5, reset_after=31_535_999.2)))
    assert all(word in " ".join(found.values()) for word in ("1000000000000", "999999999999", "31536000"))


def test_reset_is_never_negative():
    assert parsed(headers(result(evaluation(reset_after=-0.5))))[1] == [("user", {"r": 3, "t": 0})]


def test_headers_are_written_on_streaming_answers_and_nothing_else_is_touched():
    response = StreamingHttpResponse(iter([b"a"]), headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})
    assert parsed(headers(result(evaluation()), response=response))
    assert response["Retry-After"] == "Wed, 21 Oct 2026 07:28:00 GMT"
    assert b"".join(response.streaming_content) == b"a"


def test_an_object_that_is_no_response_is_left_to_django():
    request = rf.get("/")
    request.rate_limits = {"search": result(evaluation())}
    add_headers(request, None)
