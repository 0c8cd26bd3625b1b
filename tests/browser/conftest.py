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
from django.urls import reverse

from django_ratelimit_rules import Limiter
from django_ratelimit_rules.models import Rule, Ruleset

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def _executable() -> str | None:
    """A Chromium of the system's; None leaves it to the one that ``playwright install`` brings."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    # No longer than these tests: Playwright keeps an event loop running, which asyncio tests elsewhere cannot stand.
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


@pytest.fixture(scope="package")
def pages(browser) -> dict[str, Any]:
    """The pages there are by their options: one that is used again has scripts and styles in its cache."""
    return {}


@pytest.fixture
def page(browser, pages, live_server, transactional_db, request) -> Iterator[Any]:
    """A page of somebody signed in who may do everything; it must not complain on its console.

    ``@pytest.mark.parametrize("page", [{...}], indirect=True)`` sets options.
    """
    options = {"viewport": {"width": 1280, "height": 1000}, "reduced_motion": "reduce", **getattr(request, "param", {})}
    page = pages.get(repr(options))
    if page is None:
        context = browser.new_context(base_url=live_server.url, **options)
        context.set_default_timeout(10_000)
        page = pages[repr(options)] = context.new_page()
        # What is left unsaved is asked about; a test that leaves means to.
        page.on("dialog", lambda dialog: dialog.accept())
    sign_in(page, User.objects.create_superuser("operator", password="x"))
    complaints: list[str] = []

    def listen(message: Any) -> None:
        # No site of the tests' own has an icon.
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
    """Let the browser be somebody from now on."""
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
    """The ruleset's page."""
    page.goto(address("change", ruleset.pk))
    return ready(page)


@pytest.fixture
def faults(page) -> Any:
    """A function that names what axe finds on the page in both colour schemes, and whether the page is too wide."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()

    def faults() -> list[object]:
        found: list[object] = []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            # Colours fade over to the other scheme's.
            page.evaluate("Promise.all(document.getAnimations().map((each) => each.finished))")
            # What axe looks at takes long; in the dark only colours are others.
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
    """The address of one of the admin's pages of rulesets."""
    return reverse(f"admin:django_ratelimit_rules_ruleset_{name}", args=arguments)


def ready(page: Any) -> Any:
    """Wait for the last of what scripts do to the page, where they run."""
    if page.locator(".ratelimit-handle").count():
        page.locator("#rules-group[data-ready]").wait_for()
    return page


def row(page: Any, name: str) -> Any:
    """A rule on the ruleset's page."""
    return page.locator(f'.ratelimit-rule[data-name="{name}"]')


def opened(page: Any, name: str) -> Any:
    """A rule on the ruleset's page, its fields open."""
    found = row(page, name)
    found.locator(".ratelimit-fields > summary").click()
    found.locator("[name$='-name']").wait_for()
    return found


def save(page: Any, errors: bool = False) -> None:
    """Save the page, and see whether that works."""
    with page.expect_navigation():
        page.locator("input[name=_save]").click()
    assert (page.locator(".errornote").count() > 0) is errors, page.locator(".errorlist").all_inner_texts()


def order() -> list[str]:
    """The names of all rules as they are stored."""
    return list(Rule.objects.order_by("position").values_list("name", flat=True))
