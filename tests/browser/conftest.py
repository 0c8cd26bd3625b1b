"""A real browser and the real admin. The tests are skipped with a reason if Chromium or Playwright is missing."""

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
from django.urls import reverse

from django_ratelimit_rules import Limiter
from django_ratelimit_rules.models import Rule, Ruleset

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def _executable() -> str | None:
    """Return the system's Chromium. Returns None to use the browser of ``playwright install``."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    # End it after these tests, because Playwright keeps an event loop running, which breaks asyncio tests elsewhere.
    api = pytest.importorskip("playwright.sync_api", reason="no browser tests: Playwright is not installed")
    with pytest.MonkeyPatch.context() as patch, api.sync_playwright() as playwright:
        # Allow sync code, because the tests and the flush of the database run in the thread of that loop.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        executable = _executable()
        if executable is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no browser tests: install Chromium, or set CHROMIUM to its path")
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def pages(browser) -> dict[str, Any]:
    """Keep the open pages by their options, because a reused page has scripts and styles in its cache."""
    return {}


@pytest.fixture
def page(browser, pages, live_server, transactional_db, request) -> Iterator[Any]:
    """Return a page of a signed-in superuser. An error on its console fails the test.

    ``@pytest.mark.parametrize("page", [{...}], indirect=True)`` sets options.
    """
    options = {"viewport": {"width": 1280, "height": 1000}, "reduced_motion": "reduce", **getattr(request, "param", {})}
    page = pages.get(repr(options))
    if page is None:
        context = browser.new_context(base_url=live_server.url, **options)
        context.set_default_timeout(10_000)
        page = pages[repr(options)] = context.new_page()
        # Accept the question about unsaved changes, because a test leaves the page on purpose.
        page.on("dialog", lambda dialog: dialog.accept())
    sign_in(page, User.objects.create_superuser("operator", password="x"))
    complaints: list[str] = []

    def listen(message: Any) -> None:
        # Ignore the missing icon of the test site.
        if message.type in ("error", "warning") and "favicon" not in message.location["url"]:
            complaints.append(message.text)

    def note(error: Any) -> None:
        complaints.append(str(error))

    page.on("console", listen)
    page.on("pageerror", note)
    yield page
    page.goto("about:blank")
    page.remove_listener("console", listen)
    page.remove_listener("pageerror", note)
    assert complaints == []


def sign_in(page: Any, user: User) -> None:
    """Sign the browser in as a user."""
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.clear_cookies()
    page.context.add_cookies(
        [{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "domain": "localhost", "path": "/"}]
    )


GRAVE = ("serious", "critical")
COLOURS = ["color-contrast", "link-in-text-block"]
COUNTING: dict[str, Any] = {"characteristics": ["ip"], "limit": 5, "period": 60}
NO_SCRIPT = pytest.mark.parametrize("page", [{"java_script_enabled": False}], indirect=True)


@pytest.fixture
def ruleset(transactional_db) -> Ruleset:
    Limiter("search")
    ruleset = Ruleset.objects.create(name="search")
    for number, name in enumerate(["first", "second", "third"], 1):
        Rule.objects.create(ruleset=ruleset, name=name, position=number, **COUNTING | {"limit": number})
    return ruleset


@pytest.fixture
def editor(page, ruleset) -> Any:
    """Open the ruleset's page."""
    page.goto(address("change", ruleset.pk))
    return ready(page)


@pytest.fixture
def faults(page) -> Any:
    """Return a function that lists axe's findings in both colour schemes, and reports a page that is too wide."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()

    def faults() -> list[object]:
        found: list[object] = []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            # Wait for the fade to the other scheme's colours.
            page.evaluate("Promise.all(document.getAnimations().map((each) => each.finished))")
            # Check only colours in dark mode, because axe is slow and nothing else differs.
            rules = {"runOnly": {"type": "rule", "values": COLOURS}} if scheme == "dark" else {}
            violations = axe.run(page, options={"resultTypes": ["violations"], **rules}).response["violations"]
            found += [
                (scheme, fault["id"], [node["html"] for node in fault["nodes"]])
                for fault in violations
                if fault["impact"] in GRAVE
            ]
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 380, "height": 800})
        if page.evaluate("document.documentElement.scrollWidth") > 380:
            found.append("wider than a telephone")
        page.set_viewport_size({"width": 1280, "height": 1000})
        return found

    return faults


def address(name: str, *arguments: object) -> str:
    """Return the address of a page of the rulesets' admin."""
    return reverse(f"admin:django_ratelimit_rules_ruleset_{name}", args=arguments)


def ready(page: Any) -> Any:
    """Wait until the scripts have finished their changes of the page, if scripts run."""
    if page.locator(".ratelimit-handle").count():
        page.locator("#rules-group[data-ready]").wait_for()
    return page


def row(page: Any, name: str) -> Any:
    """Return a rule on the ruleset's page."""
    return page.locator(f'.ratelimit-rule[data-name="{name}"]')


def opened(page: Any, name: str) -> Any:
    """Return a rule on the ruleset's page, with open fields."""
    found = row(page, name)
    found.locator(".ratelimit-fields > summary").click()
    found.locator("[name$='-name']").wait_for()
    return found


def save(page: Any, errors: bool = False) -> None:
    """Save the page, and check for errors."""
    with page.expect_navigation():
        page.locator("input[name=_save]").click()
    assert (page.locator(".errornote").count() > 0) is errors, page.locator(".errorlist").all_inner_texts()


def order() -> list[str]:
    """Return the names of all stored rules in order."""
    return list(Rule.objects.order_by("position").values_list("name", flat=True))
