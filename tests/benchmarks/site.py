"""The site that gunicorn and uvicorn serve: one trivial view, limited by the contestant in BENCHMARK_SITE.

It has two limits by the client's address, of a minute and an hour, that no client reaches. It sends rate limit
headers if the contestant supports them. A contestant without async views serves a sync view under uvicorn, as Django
runs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import django
from django.http import HttpRequest, HttpResponse
from django.urls import path

NEVER_REACHED = 500_000
MINUTE, HOUR = 60, 3600
ANSWER = b"Hello\n"

View = Callable[..., Any]


def trivial(request: HttpRequest) -> HttpResponse:
    return HttpResponse(ANSWER)


async def atrivial(request: HttpRequest) -> HttpResponse:
    return HttpResponse(ANSWER)


def evalsha(asynchronous: bool) -> View:
    """The floor: one EVALSHA of the minimal script on two keys, and no header."""
    from django.conf import settings
    from django_redis import get_redis_connection
    from redis.asyncio import Redis

    from tests.benchmarks.contestants import MINIMAL

    client = get_redis_connection("default")
    aclient = Redis.from_url(settings.REDIS_URL, max_connections=1000)
    sha = client.script_load(MINIMAL)
    arguments = [NEVER_REACHED, MINUTE * 1000, NEVER_REACHED, HOUR * 1000]

    def counted(request: HttpRequest) -> HttpResponse:
        address = request.META["HTTP_X_FORWARDED_FOR"]
        client.evalsha(sha, 2, f":1:bare:0:{address}", f":1:bare:1:{address}", *arguments)
        return HttpResponse(ANSWER)

    async def acounted(request: HttpRequest) -> HttpResponse:
        address = request.META["HTTP_X_FORWARDED_FOR"]
        await aclient.evalsha(sha, 2, f":1:bare:0:{address}", f":1:bare:1:{address}", *arguments)
        return HttpResponse(ANSWER)

    return acounted if asynchronous else counted


def this_app(asynchronous: bool) -> View:
    from django_ratelimit_rules import Limiter, Rule, rate_limited

    limiter = Limiter(
        "search",
        rules=[
            Rule("per_minute", characteristics=["ip"], limit=NEVER_REACHED, period=MINUTE),
            Rule("per_hour", characteristics=["ip"], limit=NEVER_REACHED, period=HOUR),
        ],
    )
    return rate_limited(limiter)(atrivial if asynchronous else trivial)


def django_ratelimit(asynchronous: bool) -> View:
    """Without headers or async views."""
    from django_ratelimit.decorators import ratelimit

    limited: View = ratelimit(key="ip", rate=f"{NEVER_REACHED}/h")(trivial)
    return ratelimit(group="per_minute", key="ip", rate=f"{NEVER_REACHED}/m")(limited)  # type: ignore[no-any-return]


def rest_framework(asynchronous: bool) -> View:
    """Without headers, except on refusals, and without async views."""
    from rest_framework.decorators import api_view, throttle_classes
    from rest_framework.throttling import AnonRateThrottle

    minute = type("Minute", (AnonRateThrottle,), {"scope": "minute", "rate": f"{NEVER_REACHED}/min"})
    hour = type("Hour", (AnonRateThrottle,), {"scope": "hour", "rate": f"{NEVER_REACHED}/hour"})
    limited: View = api_view(["GET"])(throttle_classes([minute, hour])(trivial))
    return limited


def limits(asynchronous: bool) -> View:
    """Without its own decorators: two calls in the view, and no headers."""
    from django.conf import settings
    from limits import RateLimitItemPerHour, RateLimitItemPerMinute, aio, storage, strategies

    items = RateLimitItemPerMinute(NEVER_REACHED), RateLimitItemPerHour(NEVER_REACHED)
    hit = strategies.FixedWindowRateLimiter(storage.RedisStorage(settings.REDIS_URL)).hit
    redis = aio.storage.RedisStorage("async+" + settings.REDIS_URL, implementation="redispy", max_connections=1000)
    ahit = aio.strategies.FixedWindowRateLimiter(redis).hit

    def limited(request: HttpRequest) -> HttpResponse:
        address = request.META["HTTP_X_FORWARDED_FOR"]
        passed = all(hit(item, "search", address) for item in items)
        return HttpResponse(ANSWER, status=200 if passed else 429)

    async def alimited(request: HttpRequest) -> HttpResponse:
        address = request.META["HTTP_X_FORWARDED_FOR"]
        passed = await ahit(items[0], "search", address) and await ahit(items[1], "search", address)
        return HttpResponse(ANSWER, status=200 if passed else 429)

    return alimited if asynchronous else limited


def smart_ratelimit(asynchronous: bool) -> View:
    from django_smart_ratelimit import aratelimit, ratelimit

    decorate: Any = aratelimit if asynchronous else ratelimit
    by_hour = decorate(key="ip", rate=f"{NEVER_REACHED}/h")(atrivial if asynchronous else trivial)
    limited: View = decorate(key="ip", rate=f"{NEVER_REACHED}/m")(by_hour)
    return limited


def bare(asynchronous: bool) -> View:
    """The bare view. trafficwatch limits by its middleware, which the settings add."""
    return atrivial if asynchronous else trivial


VIEWS: dict[str, Callable[[bool], View]] = {
    "bare view": bare,
    "bare EVALSHA": evalsha,
    "this app": this_app,
    "django-ratelimit": django_ratelimit,
    "DRF throttling": rest_framework,
    "limits": limits,
    "smart-ratelimit": smart_ratelimit,
    "trafficwatch": bare,
}

urlpatterns: list[Any] = []


def serve(asynchronous: bool) -> Any:
    """Return the application."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.benchmarks.settings")
    django.setup(set_prefix=False)
    from django.core.handlers.asgi import ASGIHandler
    from django.core.handlers.wsgi import WSGIHandler

    urlpatterns.append(path("", VIEWS[os.environ["BENCHMARK_SITE"]](asynchronous)))
    return ASGIHandler() if asynchronous else WSGIHandler()


def wsgi() -> Any:
    """gunicorn's application factory."""
    return serve(asynchronous=False)


def asgi() -> Any:
    """uvicorn's application factory."""
    return serve(asynchronous=True)
