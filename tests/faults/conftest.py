"""A site with a Redis that tests break: a view for each failure mode, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import include, path

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset
from tests.faults.rig import Proxy, Server

# Long enough for a busy machine, on which a healthy server may be slow.
TIMEOUT = 0.5
LIMIT = 5
MODES = ("open", "closed", "local")


def _view(mode: str):
    @rate_limited(f"fault_{mode}")
    def view(request):
        return HttpResponse("fine")

    return view


def _async_view(mode: str):
    @rate_limited(f"fault_{mode}")
    async def view(request):
        return HttpResponse("fine")

    return view


urlpatterns = [
    *[path(f"wsgi/{mode}/", _view(mode)) for mode in MODES],
    *[path(f"asgi/{mode}/", _async_view(mode)) for mode in MODES],
    path("", include("tests.urls")),
]


class Site:
    """The site as a client, a scrape and an operator's log see it. ``turns`` counts the turns of the event loop."""

    def __init__(self, colour: str, caplog) -> None:
        self.colour = colour
        self.turns = 0
        self._caplog = caplog
        self._runner = asyncio.Runner() if colour == "asgi" else None

    def get(self, mode: str):
        """Request the view of the limiter with this failure mode. An exception in the view is a status 500."""
        url = f"/{self.colour}/{mode}/"
        if self._runner is None:
            return Client(raise_request_exception=False).get(url)
        return self._runner.run(self._aget(url))

    async def _aget(self, url: str):
        ticking = asyncio.create_task(self._tick())
        try:
            return await AsyncClient(raise_request_exception=False).get(url)
        finally:
            ticking.cancel()

    async def _tick(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    def used(self, mode: str) -> int | None:
        """Return the used calls of the counter without a change. Returns None if the store does not answer."""
        result = Limiter(f"fault_{mode}").peek({"ip": "127.0.0.1"})
        return None if result.error else int(result.evaluations[0].used)

    def errors(self) -> Counter[str]:
        """Return the errors counted so far, by limiter."""
        text = Client().get("/metrics").content.decode()
        found = re.findall(r'^django_rate_limiter_errors_total\{rate_limiter="(.*?)"\} (\S+)$', text, re.MULTILINE)
        return Counter({limiter: int(float(number)) for limiter, number in found})

    def lines(self) -> list[str]:
        """Return the errors that this app logged."""
        return [
            record.getMessage()
            for record in self._caplog.records
            if record.name.startswith("django_ratelimit_rules") and record.levelno >= logging.ERROR
        ]

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()


@pytest.fixture(params=["wsgi", "asgi"])
def site(request, settings, caplog) -> Iterator[Site]:
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []
    site = Site(request.param, caplog)
    rules = [Rule("by_ip", characteristics=["ip"], limit=LIMIT, period=3600)]
    with (
        override_ruleset("fault_open", rules, failure_mode="open"),
        override_ruleset("fault_closed", rules, failure_mode="closed"),
        override_ruleset("fault_local", rules, failure_mode="local"),
    ):
        yield site
        site.close()


@pytest.fixture
def server() -> Iterator[Server]:
    """Run a server for one test."""
    with Server() as server:
        server.start()
        yield server


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def use(settings):
    """Return a function that uses the Redis on a port for the counters."""

    def use(port: int, **options: object) -> None:
        stated = {"SOCKET_TIMEOUT": TIMEOUT, "SOCKET_CONNECT_TIMEOUT": TIMEOUT} | options
        location = f"redis://127.0.0.1:{port}/0"
        settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": location, "OPTIONS": stated}}

    return use
