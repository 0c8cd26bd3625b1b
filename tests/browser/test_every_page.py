"""On all of our pages axe finds no serious fault, light or dark, and no page is wider than a phone."""

from __future__ import annotations

import pytest

from django_ratelimit_rules import Limiter
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from tests.browser.conftest import COUNTING, address, opened, ready, row, save

CLIENT = "203.0.113.7"


@pytest.fixture
def rich(ruleset) -> Ruleset:
    """Create a ruleset with all that pages show: findings, and rules of each action, expired, disabled, unreadable."""
    add = {"ruleset": ruleset, "position": 9}
    Rule.objects.create(name="shadow", action="log", **COUNTING | {"limit": 1}, **add)
    Rule.objects.create(name="vip", action="skip", match={"path": {"prefix": "/a", "not": {"suffix": "b"}}}, **add)
    Rule.objects.create(name="by_header", **COUNTING | {"characteristics": ["header.x-key"]}, **add)
    Rule.objects.create(name="asleep", enabled=False, owner="ops@example.org", **COUNTING, **add)
    Rule.objects.create(name="unreadable", match={"path": {"like": "x"}}, **COUNTING, **add)
    Ruleset.objects.create(name="quiet", mode="dry_run")
    for number in (1, 2):
        content = {"rules": [{"name": "first", "limit": number, "period": "1m"}]}
        RulesetVersion.objects.create(
            ruleset="search", number=number, user="ada", action="saved", reason="x", content=content
        )
    for number, content in ((1, {"mode": "off"}), (2, None)):
        RulesetVersion.objects.create(ruleset="gone", number=number, user="ada", content=content)
    ruleset.decision = [Limiter("search").check({"ip": CLIENT}) for _ in range(3)][1].decision
    return ruleset


def test_the_rulesets_page_with_everything_open_is_accessible(page, rich, faults):
    page.goto(address("change", rich.pk))
    first = opened(ready(page), "first")
    first.get_by_role("button", name="When …").click()
    first.locator(".field-match").get_by_label("Operator").select_option("is not all of")
    # Open only one rule, because the others hide the same fields and a check of eight rules is slow.
    page.locator("#rules-0 details, .ratelimit-finding details, #ruleset_form > div > fieldset details").evaluate_all(
        "all => all.forEach((each) => { each.open = true; })"
    )
    assert faults() == []


def test_the_page_of_a_new_ruleset_and_one_with_errors_are_accessible(page, rich, faults):
    page.goto(address("add"))
    ready(page)
    assert faults() == []
    page.goto(address("change", rich.pk))
    opened(ready(page), "first").locator("[name$='-limit']").fill("-1")
    page.locator("input[name=_save]").click()
    ready(page)
    row(page, "first").locator(".errorlist").wait_for()
    assert faults() == []


PAGES = {
    "list": lambda ruleset: address("changelist"),
    "live": lambda ruleset: address("live", "search"),
    "explain": lambda ruleset: address("explain"),
    "import": lambda ruleset: address("import"),
    "history": lambda ruleset: address("history", ruleset.pk),
    "restore": lambda ruleset: address("restore", ruleset.pk, 1),
    "switch": lambda ruleset: address("switch", ruleset.pk, "off"),
    "promote": lambda ruleset: address("turn", ruleset.pk, ruleset.rules.get(name="shadow").pk, "promote"),
    "delete": lambda ruleset: address("delete", ruleset.pk),
    "deleted": lambda ruleset: address("deleted"),
    "past": lambda ruleset: address("past", "gone"),
    "replay": lambda ruleset: address("replay"),
    "suggest": lambda ruleset: address("suggest"),
    "decision": lambda ruleset: address("explain") + f"?decision={ruleset.decision}",
}


def test_every_other_page_is_accessible_and_has_one_title(page, rich, faults):
    found = {}
    for name, of in PAGES.items():
        page.goto(of(rich))
        found[name] = faults() + ["no title"] * (page.locator("h1").count() != 1)
    assert {name: said for name, said in found.items() if said} == {}


def test_responses_of_forms_are_accessible(page, rich, faults):
    page.goto(address("explain") + f"?limiter=search&ip={CLIENT}")
    page.get_by_role("button", name="Explain").click()
    page.locator(".ratelimit-explanation tbody tr").nth(3).wait_for()
    assert faults() == []
    page.goto(address("import"))
    page.get_by_label("Text").fill("search:\n  rules:\n    - {name: first, limit: 9, period: 1m}\n")
    page.get_by_role("button", name="Show the changes").click()
    page.locator(".ratelimit-changes li").nth(3).wait_for()
    assert faults() == []


def test_rules_of_file_and_code_are_shown_in_order_and_lead_to_an_override(page, faults, settings, tmp_path):
    settings.RATELIMIT_RULES_FILE = tmp_path / "rules.yaml"
    (tmp_path / "rules.yaml").write_text("layered:\n  rules:\n    - {name: above, limit: 0, period: 1m}\n")
    Limiter("layered", rules=[{"name": "below", "limit": 5, "period": "1m"}])
    ruleset = Ruleset.objects.create(name="layered")
    page.goto(address("change", ruleset.pk))
    panels = ready(page).locator(".ratelimit-tier")
    assert [panels.nth(number).locator("strong").inner_text() for number in (0, 1)] == ["above", "below"]
    assert faults() == []
    page.get_by_role("link", name="Override here").click()
    assert ready(page).locator("[name='rules-0-name']").input_value() == "below"
    save(page)
    assert Rule.objects.get().limit == 5


def test_in_dark_mode_our_parts_are_dark_as_well(page, ruleset):
    page.emulate_media(color_scheme="dark")
    page.goto(address("change", ruleset.pk))
    opened(ready(page), "first").get_by_role("button", name="When …").click()
    for part in (".ratelimit-rule", ".ratelimit-submit", ".ratelimit-condition input", ".ratelimit-rule h3"):
        colours = page.locator(part).first.evaluate(
            """part => {
                const style = getComputedStyle(part);
                let behind = part;
                while (/, 0\\)$/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
                return [getComputedStyle(behind).backgroundColor, style.color];
            }"""
        )
        dark, light = (sum(map(int, colour[4:-1].split(","))) for colour in colours)
        assert dark < 200 < 500 < light, (part, colours)
    page.emulate_media(color_scheme="light")
