"""A sync function of a project that raises in its thread fails the task that waits for it, whatever it raises."""

from __future__ import annotations

import asyncio

import pytest
from django.http import HttpResponse
from django.utils.functional import SimpleLazyObject

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset

RULE = Rule("each", characteristics=["ip"], limit=5, period=60)


def exhausted(*_args: object, **_kwargs: object) -> object:
    return next(iter(()))


async def view(request):
    return HttpResponse("answered")


def within_seconds(coroutine):
    async def answer():
        return await asyncio.wait_for(coroutine, 30)

    return asyncio.run(answer())


@pytest.mark.parametrize("identifier", [exhausted, lambda _request: {"team": SimpleLazyObject(exhausted)}])
def test_an_identifier_that_raises_stop_iteration_is_answered_by_the_failure_mode(rf, identifier):
    with override_ruleset("search", [RULE], failure_mode="closed"):
        answer = within_seconds(rate_limited("search", identifier=identifier)(view)(rf.get("/")))
    assert answer.status_code == 503


def test_a_user_that_raises_stop_iteration_is_answered_by_the_failure_mode(rf):
    request = rf.get("/")
    request.user = SimpleLazyObject(exhausted)
    with override_ruleset("search", [RULE, Rule("user", characteristics=["user"], limit=5, period=60)]):
        result = within_seconds(Limiter("search").acheck_request(request))
    assert result.error


def test_a_legacy_limiter_that_raises_stop_iteration_raises_in_its_task():
    with override_ruleset("search", [RULE], mode="dry_run"), pytest.raises(RuntimeError, match="StopIteration"):
        within_seconds(Limiter("search").acompare({"ip": "203.0.113.7"}, exhausted))
