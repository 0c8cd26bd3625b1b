"""The public pages: start page, search, status, and the published pages.

No view contains a limit. A view names its limiter, and the rules are in the database.
"""

import asyncio
from uuid import uuid4

from accounts.tokens import token_for
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from django_ratelimit_rules import rate_limited

TOPICS = (
    "dynamic DNS",
    "feeds",
    "keyboard navigation",
    "log files",
    "puppet",
    "redis",
    "ssh",
    "window automation",
    "X11",
)


def home(request: HttpRequest) -> HttpResponse:
    """Show the start page, with the API token of a signed-in user."""
    token = token_for(request.user) if request.user.is_authenticated else None
    return render(request, "pages/home.html", {"token": token})


@rate_limited("search")
def search(request: HttpRequest) -> HttpResponse:
    """Find topics that contain the words of ``?q=``."""
    return _results(request, request.GET.get("q", "").strip())


@rate_limited("feeds")
@rate_limited("search")
def tag(request: HttpRequest, tag: str) -> HttpResponse:
    """Find topics by tag. Uses the limiter of the search, and a limiter in dry run for the feeds."""
    return _results(request, tag)


def _results(request: HttpRequest, query: str) -> HttpResponse:
    topics = [topic for topic in TOPICS if query and query.casefold() in topic.casefold()]
    return render(request, "pages/search.html", {"query": query, "topics": topics})


def page(request: HttpRequest, path: str) -> HttpResponse:
    """Show a published page. Only its path is real."""
    return render(request, "pages/page.html", {"path": path})


@rate_limited("status")
async def status(request: HttpRequest) -> HttpResponse:
    """Report whether database and store answer. Queries both at the same time."""
    users, stored = await asyncio.gather(get_user_model().objects.acount(), _store_keeps_a_value())
    return JsonResponse({"database": f"ok, {users} users", "store": "ok" if stored else "lost a value"})


async def _store_keeps_a_value() -> bool:
    value = uuid4().hex
    await cache.aset(f"status:{value}", value, timeout=5)
    return await cache.aget(f"status:{value}") == value
