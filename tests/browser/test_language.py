"""The scripts of the ruleset page show the language of the page, also in names for screen readers."""

from __future__ import annotations

from tests.browser.conftest import address, opened, ready
from tests.i18n import pseudo

# Operators and suggestions are in the page's JSON, which tests/i18n reads.
TEXTS = """(row) => [...row.querySelectorAll(":is(.ratelimit-builder, .ratelimit-picker, .ratelimit-move) *")]
    .filter((element) => !["OPTION", "CODE"].includes(element.tagName))
    .flatMap((element) => [
        ...["aria-label", "title", "placeholder"].map((name) => element.getAttribute(name)),
        ...[...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data),
    ].filter((text) => /\\p{L}{2}/u.test(text || "")))"""


def test_every_text_of_the_scripts_is_in_the_language_of_the_page(pseudo_language, page, ruleset):
    page.goto(address("change", ruleset.pk))
    first = opened(ready(page), "first")
    area, builder = first.locator("[name$='-match']"), first.locator(".field-match .ratelimit-builder")
    shown = set(first.evaluate(TEXTS))
    area.fill('[{"path": {"not": {"prefix": "/a", "suffix": "b"}}}, {"ip": "203.0.113.7"}]')
    shown |= set(first.evaluate(TEXTS))
    for match in ("{", "[]", '{"path": {"like": "/a"}}', '{"ip": "a", "ip": "b"}'):
        area.fill(match)
        shown.add(builder.locator(".ratelimit-note").text_content())
    first.locator(".ratelimit-down").click()
    shown |= {page.locator(".ratelimit-announced").text_content(), page.locator(".ratelimit-unsaved").text_content()}
    assert len(shown) > 25
    assert [text for text in shown if not (text.startswith(pseudo.OPEN) and text.endswith(pseudo.CLOSE))] == []
