"""A real browser against the real admin. Skipped, saying so, where there is no Chromium or no Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def _executable() -> str | None:
    """A Chromium of the system's; None leaves it to the one that ``playwright install`` brings."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    # For each module anew: Playwright keeps an event loop running, which asyncio tests of other modules cannot stand.
    api = pytest.importorskip("playwright.sync_api", reason="no browser tests: Playwright is not installed")
    with pytest.MonkeyPatch.context() as patch, api.sync_playwright() as playwright:
        # The tests, and the database's clearing after them, share a thread with that loop.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        executable = _executable()
        if executable is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no browser tests: there is no Chromium; install one, or say where in CHROMIUM")
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser, live_server, transactional_db, request) -> Iterator[Any]:
    """A browser that is signed in; ``@pytest.mark.parametrize("context", [{...}], indirect=True)`` sets options."""
    options = {"viewport": {"width": 1280, "height": 1000}, "reduced_motion": "reduce", **getattr(request, "param", {})}
    context = browser.new_context(base_url=live_server.url, **options)
    context.set_default_timeout(10_000)
    client = Client()
    client.force_login(User.objects.create_superuser("operator", password="x"))
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": live_server.url}])
    yield context
    context.close()


@pytest.fixture
def page(context) -> Iterator[Any]:
    """A page that must not complain on its console."""
    page = context.new_page()
    complaints: list[str] = []

    def listen(message: Any) -> None:
        # No site of the tests' own has an icon.
        if message.type in ("error", "warning") and "favicon" not in message.location["url"]:
            complaints.append(message.text)

    page.on("console", listen)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    assert complaints == []
