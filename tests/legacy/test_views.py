"""Together with a legacy limiter: the deciding limiter of each mode, and comparisons with both verdicts."""

from __future__ import annotations

import logging
import re
import time

import pytest
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.legacy.verdicts import Verdict
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.testing import override_ruleset
from tests.servers import free_port, wait_until

asked = []
LIMIT_TWO = [Rule("two", characteristics=["ip"], limit=2, period=3600)]


class Legacy:
    """A limiter that returns the verdict that a test sets."""

    says: object = False

    def __call__(self, request, *args, **kwargs):
        asked.append(kwargs)
        return self.says


legacy = Legacy()


async def alegacy(request, **kwargs):
    return legacy(request, **kwargs)


@rate_limited("shadowed", legacy=legacy)
def plain(request, **kwargs):
    return HttpResponse("fine")


@rate_limited("shadowed", legacy=legacy)
async def asynchronous(request):
    return HttpResponse("fine")


@rate_limited("shadowed", legacy=legacy, methods=["POST"])
def posted_plainly(request):
    return HttpResponse("fine")


@rate_limited("shadowed", legacy=alegacy, methods=["POST"])
async def posted(request):
    return HttpResponse("fine")


@method_decorator(rate_limited("shadowed", legacy=legacy), name="dispatch")
class Classy(View):
    def get(self, request):
        return HttpResponse("fine")


@rate_limited("shadowed", legacy=legacy)
@rate_limited("inner")
def around(request):
    return HttpResponse("fine")


@rate_limited("shadowed", legacy=alegacy)
@rate_limited("inner")
async def asynchronous_around(request):
    return HttpResponse("fine")


urlpatterns = [
    path("around/", around),
    path("around/async/", asynchronous_around),
    path("plain/", plain),
    path("plain/<int:pk>/", plain),
    path("async/", asynchronous),
    path("posted/", posted),
    path("posted/plainly/", posted_plainly),
    path("class/", Classy.as_view()),
]
pytestmark = pytest.mark.urls(__name__)


@pytest.fixture(autouse=True)
def _fresh_legacy(monkeypatch):
    monkeypatch.setattr(Legacy, "says", False)
    asked.clear()
    # Load the rules first, because a test counts its queries and calls.
    Limiter("shadowed")


@pytest.fixture
def compared():
    """Return a function that returns the comparisons since the start of the test, by agreement and boundary."""

    def counted() -> dict[tuple[str, str], float]:
        from prometheus_client import generate_latest

        found = re.findall(
            r'^django_rate_limiter_shadow_total\{agreement="(\w+)",boundary="(\w+)",rate_limiter="shadowed"\} (\S+)$',
            generate_latest().decode(),
            re.MULTILINE,
        )
        return {(agreement, boundary): float(value) for agreement, boundary, value in found}

    before = counted()
    return lambda: {key: value - before.get(key, 0) for key, value in counted().items() if value != before.get(key, 0)}


@pytest.mark.parametrize("url", ["/around/", "/around/async/"])
def test_headers_with_a_legacy_limiter_include_the_charge_of_the_response(url):
    by_outcome = Rule("answered", limit=5, period=60, response={"status": 200})
    with override_ruleset("shadowed", LIMIT_TWO, mode="dry_run"), override_ruleset("inner", [by_outcome]):
        assert Client().get(url)["RateLimit"].startswith('"answered";r=4')


def status(url: str, method: str = "get", **headers: str) -> int:
    return getattr(Client(), method)(url, headers=headers).status_code


def in_mid_window() -> None:
    """Wait until the clock is not near the edge of an hour, so that no comparison is at a boundary."""
    wait_until(lambda: 5 < time.time() % 3600 < 3590, 20)


@pytest.mark.parametrize("url", ["/plain/", "/async/", "/class/"])
def test_off_the_legacy_limiter_decides_alone(url, compared, keys):
    with override_ruleset("shadowed", LIMIT_TWO, mode="off"):
        assert [status(url) for _ in range(4)] == [200] * 4
        Legacy.says = True
        assert status(url) == 429
    assert len(asked) == 5
    assert (keys(), compared()) == ([], {})


@pytest.mark.parametrize("url", ["/plain/", "/async/", "/class/"])
def test_in_a_dry_run_both_run_the_legacy_one_decides_and_all_is_counted(url, compared):
    in_mid_window()
    with override_ruleset("shadowed", LIMIT_TWO, mode="dry_run"):
        assert [status(url) for _ in range(3)] == [200] * 3
        assert compared() == {("match", "false"): 2, ("diverge", "false"): 1}
        Legacy.says = True
        assert status(url) == 429
    assert compared() == {("match", "false"): 3, ("diverge", "false"): 1}


@pytest.mark.parametrize("url", ["/plain/", "/async/", "/class/"])
def test_enforced_this_app_decides_and_the_legacy_limiter_is_not_called(url, compared):
    Legacy.says = True
    with override_ruleset("shadowed", LIMIT_TWO):
        assert [status(url) for _ in range(3)] == [200, 200, 429]
    assert (asked, compared()) == ([], {})


@pytest.mark.parametrize("url", ["/plain/", "/async/", "/class/"])
def test_without_any_rule_or_mode_the_legacy_limiter_decides(url):
    Legacy.says = True
    assert status(url) == 429
    assert Limiter("shadowed").compare({"ip": "203.0.113.1"}, legacy_blocked=True).blocked
    # A disabled rule counts as defined, and so does a mode without rules.
    with override_ruleset("shadowed", [Rule("two", limit=2, period=60, enabled=False)]):
        assert status(url) == 200
    with override_ruleset("shadowed", [], mode="enforce"):
        assert status(url) == 200


@pytest.mark.django_db(transaction=True)
def test_an_empty_ruleset_of_the_admin_leaves_the_decision_to_the_legacy_limiter():
    Legacy.says = True
    ruleset = Ruleset.objects.create(name="shadowed")
    assert status("/plain/") == 429
    ruleset.rules.create(name="many", limit=100, period=60)
    assert status("/plain/") == 200


async def test_an_async_site_is_decided_the_same_way(compared):
    in_mid_window()
    client = AsyncClient()
    Legacy.says = True
    with override_ruleset("shadowed", LIMIT_TWO, mode="dry_run"):
        assert (await client.get("/async/")).status_code == 429
        assert (await client.post("/posted/")).status_code == 429
        # The decorator does not check GET, so the legacy limiter still decides. This app's would have allowed it.
        assert (await client.get("/posted/")).status_code == 429
    assert compared() == {("diverge", "false"): 3}
    with override_ruleset("shadowed", LIMIT_TWO):
        assert (await client.post("/posted/")).status_code == 429
        assert (await client.get("/posted/")).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_the_admin_s_mode_turns_it_live():
    ruleset = Ruleset.objects.create(name="shadowed", mode="off")
    ruleset.rules.create(name="none", limit=0, period=60)
    assert (status("/plain/"), len(asked)) == (200, 1)
    Ruleset.objects.update(mode="enforce")
    assert (status("/plain/"), len(asked)) == (429, 1)
    Ruleset.objects.update(mode="dry_run")
    assert (status("/plain/"), len(asked)) == (200, 2)


def test_with_the_app_switched_off_the_legacy_limiter_decides(settings):
    settings.RATELIMIT_RULES_ENABLED = False
    Legacy.says = True
    with override_ruleset("shadowed", LIMIT_TWO):
        assert status("/plain/") == 429


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (None, 200),
        (HttpResponse("slow down", status=420), 420),
        (PermissionDenied(), 403),
        (Verdict(True, passes=True), 200),
        (Verdict(True), 429),
    ],
)
def test_the_legacy_limiter_refuses_in_its_own_way(says, expected):
    Legacy.says = says
    for mode in ("off", "dry_run"):
        with override_ruleset("shadowed", LIMIT_TWO, mode=mode):
            assert status("/plain/") == expected


def test_a_legacy_limiter_with_another_return_value_is_an_error_in_the_code():
    Legacy.says = 0
    with override_ruleset("shadowed", LIMIT_TWO, mode="off"), pytest.raises(TypeError, match="must return a bool"):
        status("/plain/")


def test_a_legacy_limiter_gets_the_view_s_arguments():
    with override_ruleset("shadowed", LIMIT_TWO, mode="off"):
        assert status("/plain/7/") == 200
    assert asked == [{"pk": 7}]


def test_a_method_that_the_decorator_does_not_check_stays_with_the_legacy_limiter_until_enforced(compared, keys):
    Legacy.says = True
    with override_ruleset("shadowed", LIMIT_TWO, mode="dry_run"):
        assert status("/posted/plainly/") == 429
    assert (compared(), keys()) == ({("diverge", "false"): 1}, [])
    with override_ruleset("shadowed", LIMIT_TWO):
        assert status("/posted/plainly/") == 200


def test_bypassed_and_unmatched_traffic_is_compared_too(compared):
    in_mid_window()
    Legacy.says = True
    rules = [Rule("bypass", action="skip", match={"header.x-bypass": "yes"}), *LIMIT_TWO]
    with override_ruleset("shadowed", rules, mode="dry_run"):
        assert status("/plain/", **{"X-Bypass": "yes"}) == 429
    with override_ruleset("shadowed", [], mode="dry_run"):
        assert status("/plain/") == 429
    assert compared() == {("diverge", "false"): 2}


def test_a_failed_check_is_no_comparison_and_the_legacy_limiter_decides(settings, compared):
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": f"redis://127.0.0.1:{free_port()}/0"}}
    for failure_mode in ("open", "closed", "local"):
        with override_ruleset("shadowed", LIMIT_TWO, mode="dry_run", failure_mode=failure_mode):
            assert status("/plain/") == 200
    assert compared() == {}


def test_within_a_second_of_a_window_s_edge_the_boundary_is_marked(compared):
    # In a window of two seconds, each moment is within a second of an edge.
    with override_ruleset("shadowed", [Rule("two", limit=2, period=2)], mode="dry_run"):
        status("/plain/")
    assert compared() == {("match", "true"): 1}


def test_comparisons_are_sampled_into_the_log_with_both_verdicts(caplog):
    in_mid_window()
    caplog.set_level(logging.INFO, "django_ratelimit_rules")
    with override_ruleset("shadowed", LIMIT_TWO, mode="dry_run"):
        for _ in range(12):
            status("/plain/")
    lines = [(each.levelname, each.getMessage()) for each in caplog.records if "compared" in each.getMessage()]
    # Both agreements, and the 1st, 2nd, 4th and 8th of ten divergences.
    assert len(lines) == 6
    assert lines[0] == (
        "INFO",
        "Rate limiters compared: limiter=shadowed agreement=match boundary=false legacy=allow ours=allow rule=two"
        " used=1 limit=2",
    )
    assert lines[2] == (
        "WARNING",
        "Rate limiters compared: limiter=shadowed agreement=diverge boundary=false legacy=allow ours=block rule=two"
        " used=2 limit=2",
    )


def test_compare_answers_as_the_one_that_decides(compared):
    in_mid_window()
    limiter = Limiter("shadowed")
    rules = [Rule("one", characteristics=["key"], limit=1, period=3600)]
    with override_ruleset("shadowed", rules, mode="off"):
        assert limiter.compare({"key": 1}, legacy_blocked=True).blocked
        assert not limiter.compare({"key": 1}, legacy_blocked=False).blocked
    with override_ruleset("shadowed", rules, mode="dry_run"):
        assert not limiter.compare({"key": 1}, legacy_blocked=False).blocked
        second = limiter.compare({"key": 1}, legacy_blocked=lambda: False)
        assert (second.blocked, second.exceeded) == (False, True)
        assert limiter.compare({"key": 2}, legacy_blocked=True).blocked
    with override_ruleset("shadowed", rules):
        assert limiter.compare({"key": 1}, legacy_blocked=lambda: pytest.fail("called")).blocked
        assert not limiter.compare({"key": 3}, legacy_blocked=True).blocked
    assert compared() == {("match", "false"): 1, ("diverge", "false"): 2}


async def test_acompare_does_the_same(compared):
    in_mid_window()
    limiter = Limiter("shadowed")

    async def blocks() -> bool:
        return True

    with override_ruleset("shadowed", LIMIT_TWO, mode="dry_run"):
        assert (await limiter.acompare({"ip": "203.0.113.7"}, legacy_blocked=blocks)).blocked
        assert not (await limiter.acompare({"ip": "203.0.113.7"}, legacy_blocked=False)).blocked
    with override_ruleset("shadowed", LIMIT_TWO):
        assert not (await limiter.acompare({"ip": "203.0.113.8"}, legacy_blocked=True)).blocked
    assert compared() == {("match", "false"): 1, ("diverge", "false"): 1}
