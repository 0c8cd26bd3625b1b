"""The peers, each with its smallest public call that decides, and Redis configured as its documentation recommends.

- A peer with several algorithms uses the fixed window, like this app's rules here, because it costs least.
- A peer without a call for several limits checks them in turn, as stacked decorators do.
- A peer without an async call runs by ``sync_to_async``, as Django would run it.

``settings.py`` has the peers' settings.
"""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async

from tests.benchmarks.contestants import FIRST_PERSON, HOUR, NEVER_REACHED, ACall, Contestant
from tests.benchmarks.timing import Call


class Person:
    """A signed-in user."""

    is_authenticated = True
    pk = id = FIRST_PERSON


def request() -> tuple[Any, Person]:
    """Return a request and its user. A test changes the user's number to change the client."""
    from django.test import RequestFactory

    made: Any = RequestFactory().get("/search/")
    made.user = Person()
    return made, made.user


def django_ratelimit_check(limits: int, limit: int) -> Call:
    from django_ratelimit.core import is_ratelimited

    made, user = request()
    groups, rate = [f"search_{number}" for number in range(limits)], f"{limit}/h"

    def passed(person: int) -> bool:
        user.pk = FIRST_PERSON + person
        return not any(is_ratelimited(made, group=group, key="user", rate=rate, increment=True) for group in groups)

    return passed


def rest_framework_check(limits: int, limit: int) -> Call:
    from rest_framework.throttling import UserRateThrottle

    made, user = request()
    throttles = [
        type("Throttle", (UserRateThrottle,), {"scope": f"search_{number}", "rate": f"{limit}/hour"})
        for number in range(limits)
    ]

    def passed(person: int) -> bool:
        user.pk = FIRST_PERSON + person
        # A view creates the throttles for each request, and checks all of them, even after a refusal.
        return False not in [throttle().allow_request(made, None) for throttle in throttles]

    return passed


def limits_items(limits: int, limit: int) -> list[Any]:
    from limits import RateLimitItemPerHour

    return [RateLimitItemPerHour(limit, namespace=f"search_{number}") for number in range(limits)]


def limits_check(limits: int, limit: int) -> Call:
    from django.conf import settings
    from limits.storage import RedisStorage
    from limits.strategies import FixedWindowRateLimiter

    hit, items = FixedWindowRateLimiter(RedisStorage(settings.REDIS_URL)).hit, limits_items(limits, limit)

    def passed(person: int) -> bool:
        return all(hit(item, "user", str(FIRST_PERSON + person)) for item in items)

    return passed


def limits_acheck() -> ACall:
    from django.conf import settings
    from limits.aio.storage import RedisStorage
    from limits.aio.strategies import FixedWindowRateLimiter

    storage = RedisStorage("async+" + settings.REDIS_URL, implementation="redispy", max_connections=1000)
    hit, [item] = FixedWindowRateLimiter(storage).hit, limits_items(1, NEVER_REACHED)

    async def passed(person: int) -> bool:
        return await hit(item, "user", str(FIRST_PERSON + person))

    return passed


def smart_ratelimit_check(limits: int, limit: int) -> Call:
    from django_smart_ratelimit.backends import get_backend

    backend: Any = get_backend("redis")
    if limits == 1:
        return lambda person: backend.check_rate_limit(f"search_0:user:{FIRST_PERSON + person}", limit, HOUR)[0]

    def passed(person: int) -> bool:
        keys = [f"search_{number}:user:{FIRST_PERSON + person}" for number in range(limits)]
        checks = [{"key": key, "limit": limit, "period": HOUR} for key in keys]
        return all(allowed for allowed, _ in backend.check_batch(checks))

    return passed


def smart_ratelimit_acheck() -> ACall:
    from django_smart_ratelimit.backends import get_async_backend

    check: Any = get_async_backend("redis").acheck_rate_limit

    async def passed(person: int) -> bool:
        allowed: bool = (await check(f"search_0:user:{FIRST_PERSON + person}", NEVER_REACHED, HOUR))[0]
        return allowed

    return passed


def trafficwatch_check(limits: int, limit: int) -> Call:
    from django_trafficwatch.core import TrafficWatch
    from django_trafficwatch.rules import Rule

    made, user = request()
    check = TrafficWatch().check
    rules = tuple(Rule(name=f"search_{number}", window=HOUR, limit=limit) for number in range(limits))

    def passed(person: int) -> bool:
        user.pk = FIRST_PERSON + person
        return not check(made, rules).blocked

    return passed


PEERS = [
    Contestant(
        "django-ratelimit",
        django_ratelimit_check,
        lambda: sync_to_async(django_ratelimit_check(1, NEVER_REACHED)),
        "django_ratelimit",
    ),
    Contestant(
        "DRF throttling",
        rest_framework_check,
        lambda: sync_to_async(rest_framework_check(1, NEVER_REACHED)),
        "rest_framework",
    ),
    Contestant("limits", limits_check, limits_acheck, "limits"),
    Contestant("smart-ratelimit", smart_ratelimit_check, smart_ratelimit_acheck, "django_smart_ratelimit"),
    Contestant(
        "trafficwatch",
        trafficwatch_check,
        lambda: sync_to_async(trafficwatch_check(1, NEVER_REACHED)),
        "django_trafficwatch",
    ),
]
