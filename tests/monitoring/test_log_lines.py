"""Sampled log lines of decisions, each on one line, and the filter that adds limits to the site's own lines."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
from django.http import HttpResponse
from django.test import AsyncClient, Client, RequestFactory
from django.urls import path

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.engine import FailureMode
from django_ratelimit_rules.engine.keys import prefixes
from django_ratelimit_rules.exceptions import CountersUnavailable
from django_ratelimit_rules.logs import RateLimitsFilter
from django_ratelimit_rules.monitoring.log_lines import log_failure
from django_ratelimit_rules.signals import FailureEvent
from django_ratelimit_rules.testing import override_ruleset, reset_counters
from tests.servers import free_port

site_log = logging.getLogger("tests.site")


@rate_limited("api")
def view(request):
    site_log.warning("inside the view")
    return HttpResponse(status=int(request.GET.get("status", 200)))


@rate_limited("api")
async def async_view(request):
    site_log.warning("inside the view")
    return HttpResponse()


urlpatterns = [path("view/", view), path("async/", async_view)]


@pytest.fixture(autouse=True)
def _urls(settings):
    settings.ROOT_URLCONF = __name__


@pytest.fixture
def lines(caplog):
    """Return a function that returns the lines so far, of the given level and above."""
    caplog.set_level(logging.INFO, "django_ratelimit_rules")

    def written(level=logging.INFO):
        return [r.getMessage() for r in caplog.records if r.name == "django_ratelimit_rules" and r.levelno >= level]

    return written


@pytest.fixture
def filtered(caplog):
    """Record log lines as a site with our filter writes them: logger, ``rate_limits``."""
    ours = RateLimitsFilter()
    caplog.handler.addFilter(ours)
    yield lambda name: [record.rate_limits for record in caplog.records if record.name == name]
    caplog.handler.removeFilter(ours)


def check(rules, identifier, times=1, **options):
    with override_ruleset("api", rules):
        for _ in range(times):
            Limiter("api").check(identifier, **options)


def limit(**options):
    return Rule("rule", **({"limit": 1, "period": 60, "characteristics": ["ip"]} | options))


IP = {"ip": "203.0.113.7"}


def test_block_is_a_warning_that_names_limiter_rule_counter_and_numbers(lines, settings):
    settings.RATELIMIT_RULES_DECISIONS = False
    check([limit()], IP, 2)
    assert lines() == [
        "Rate limit exceeded: limiter=api rule=rule action=limit result=block count=2 used=1 limit=1 period=60s"
        f" counter={prefixes('api', [limit()])[0]}203.0.113.7"
    ]
    assert lines(logging.WARNING) == lines()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ban_for": 60},
        {"algorithm": "sliding_window", "period": 3600},
        {"algorithm": "token_bucket", "period": 3600},
        {"limit": 0},
        {"limit": 0, "response": {}},
    ],
)
def test_refused_calls_of_a_counter_are_logged_the_1st_2nd_4th_8th_and_so_on(lines, options):
    rule = limit(**options)
    allowed = rule.limit
    for refused in range(1, 18):
        check([rule], IP, 1 + (allowed if refused == 1 else 0))
        assert len(lines()) == refused.bit_length()
    check([rule], {"ip": "203.0.113.8"}, 1 + allowed)
    assert len(lines()) == 6


@pytest.mark.parametrize("cost", [5, 0.5])
def test_calls_are_sampled_at_any_cost(lines, cost):
    for refused in range(1, 9):
        check([limit(limit=0)], IP, cost=cost)
        assert len(lines()) == refused.bit_length()


def test_refused_calls_that_cost_nothing_are_sampled(lines):
    check([limit(limit=0)], IP, 8, cost=0)
    assert len(lines()) == 4


def test_each_call_over_a_log_rules_limit_is_a_line(lines):
    # Report 25: a log rule leaves no trace.
    check([limit(action="log")], IP, 3)
    assert len(lines()) == 2
    assert all("rule=rule action=log result=allow" in line for line in lines())
    assert lines(logging.WARNING) == []


def test_bypasses_are_named_sampled_and_no_warning(lines):
    check([Rule("welcome", action="skip"), limit(limit=0)], IP, 9)
    assert lines() == ["Rate limit bypassed: limiter=api rule=welcome action=skip"] * 4
    assert lines(logging.WARNING) == []


HOSTILE = "s3cret\nERROR forged\r\x1b[31m\u2028line"


def test_a_call_without_the_property_that_is_counted_by_its_values_is_a_warning_of_that_rule(lines):
    rules = [limit(count_distinct="header.x-item"), Rule("behind", limit=9, period=60)]
    check(rules, IP | {"header.x-item": None}, times=5)
    said = lines(logging.WARNING)
    assert len(said) == 3  # the 1st, 2nd and 4th
    assert "limiter=api rule=rule count_distinct=header.x-item" in said[0]
    assert said[0].isprintable()


@pytest.mark.parametrize("name", ["header.authorization", "cookie.sid", "post.password", "json.token", "query.key"])
def test_client_written_values_never_enter_a_line(lines, name):
    check([limit(characteristics=[name], limit=0)], {name: HOSTILE})
    check([limit(characteristics=[name], limit=0)], {name: "s3cret"})
    assert len(lines()) == 2
    assert not any("s3cret" in line or "forged" in line for line in lines())


@pytest.mark.parametrize("name", ["user", "path", "kwarg.slug", "team"])
def test_values_of_other_kinds_stay_on_one_physical_line(lines, name):
    Limiter("api", properties=[name])
    check([limit(characteristics=[name], limit=0)], {name: HOSTILE})
    (line,) = lines()
    assert line.isprintable()
    assert len(line.splitlines()) == 1


def test_failure_is_one_line_for_any_error_message(lines):
    for _ in range(3):
        log_failure(FailureEvent("api", CountersUnavailable("a\nb\u2028c\x00" + "d" * 10_000), FailureMode.OPEN))
    (line,) = lines()
    assert line.startswith(r"Limiter api cannot decide, failure mode open answers: a\nb\u2028c\x00ddd")
    assert line.isprintable()
    assert len(line) < 1000


def test_failure_of_another_redis_than_before_is_a_line_of_its_own(lines, settings):
    cache = settings.CACHES["default"]
    for _ in range(2):
        settings.CACHES = {"default": {**cache, "LOCATION": f"redis://127.0.0.1:{free_port()}/0"}}
        check([limit()], IP, times=3)
    assert len(lines()) == 2


def test_reset_counters_restarts_the_log_sampling(lines):
    for _ in range(2):
        log_failure(FailureEvent("api", CountersUnavailable("gone"), FailureMode.OPEN))
        reset_counters()
    assert len(lines()) == 2


# --- the filter


RULES = [
    Rule("shadow", action="log", limit=0, period=60),
    limit(),
]


@pytest.mark.parametrize("url", ["/view/", "/async/"])
def test_lines_inside_a_request_carry_the_results_of_its_limiters(filtered, url):
    with override_ruleset("api", RULES):
        Client().get(url)
    assert filtered("tests.site") == ["api:shadow:exceeded,api:rule:allow"]


async def test_lines_inside_a_request_carry_it_under_asgi(filtered):
    with override_ruleset("api", RULES):
        await AsyncClient().get("/async/")
        reset_counters("api")
        await AsyncClient().get("/view/")
    assert filtered("tests.site") == ["api:shadow:exceeded,api:rule:allow"] * 2


def test_djangos_own_request_line_names_the_rule_that_blocked(filtered):
    with override_ruleset("api", RULES):
        Client().get("/view/")
        Client().get("/view/")
    assert filtered("django.request") == ["api:shadow:exceeded,api:rule:block"]


def test_skips_and_failures_are_outcomes_too(filtered, settings):
    with override_ruleset("api", [limit(), Rule("welcome", action="skip")]):
        Client().get("/view/?status=404")
    with override_ruleset("api", [limit(limit=lambda: 1 // 0)]):
        Client().get("/view/?status=404")
    assert filtered("django.request") == ["api:rule:allow,api:welcome:skip", "api:-:error"]


def test_lines_outside_of_requests_carry_an_empty_text(filtered):
    with override_ruleset("api", RULES):
        Client().get("/view/")
    site_log.warning("outside")
    site_log.warning("of a request that met no limiter", extra={"request": RequestFactory().get("/")})
    site_log.warning("of what is no request", extra={"request": object()})
    assert filtered("tests.site") == ["api:shadow:exceeded,api:rule:allow", "", "", ""]


def test_filter_works_in_the_logging_setting():
    """Django creates the filter before the apps are ready."""
    program = """
import django, logging
from django.conf import settings
from tests import settings as tests
names = [name for name in dir(tests) if name.isupper()]
settings.configure(**{name: getattr(tests, name) for name in names}, LOGGING={
    "version": 1,
    "filters": {"rate_limits": {"()": "django_ratelimit_rules.logs.RateLimitsFilter"}},
    "formatters": {"line": {"format": "%(message)s [%(rate_limits)s]"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "filters": ["rate_limits"], "formatter": "line"}},
    "root": {"handlers": ["out"]},
})
django.setup()
logging.warning("started")
"""
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, check=False)
    assert done.stderr == "started []\n"
