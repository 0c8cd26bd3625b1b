"""Editing a ruleset with mouse and keyboard, with JavaScript and without."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from django_ratelimit_rules import Limiter
from django_ratelimit_rules.models import Rule, Ruleset

COUNTING: dict[str, Any] = {"characteristics": ["ip"], "limit": 5, "period": 60}
NO_SCRIPT = pytest.mark.parametrize("context", [{"java_script_enabled": False}], indirect=True)


@pytest.fixture
def ruleset(transactional_db) -> Ruleset:
    Limiter("search")
    ruleset = Ruleset.objects.create(name="search")
    for number, name in enumerate(["first", "second", "third"], 1):
        Rule.objects.create(ruleset=ruleset, name=name, position=number, **COUNTING | {"limit": number})
    return ruleset


@pytest.fixture
def editor(page, ruleset):
    page.goto(reverse("admin:django_ratelimit_rules_ruleset_change", args=[ruleset.pk]))
    if page.locator(".ratelimit-handle").count():
        # Scripts run: wait for the last of what they do to the page.
        page.locator("#rules-group[data-ready]").wait_for()
    return page


def row(page: Any, name: str) -> Any:
    return page.locator(f'.ratelimit-rule[data-name="{name}"]')


def opened(page: Any, name: str) -> Any:
    found = row(page, name)
    found.locator(".ratelimit-fields > summary").click()
    found.locator("[name$='-name']").wait_for()
    return found


def save(page: Any, errors: bool = False) -> None:
    with page.expect_navigation():
        page.locator("input[name=_save]").click()
    assert (page.locator(".errornote").count() > 0) is errors, page.locator(".errorlist").all_inner_texts()


def order() -> list[str]:
    return list(Rule.objects.order_by("position").values_list("name", flat=True))


def test_rules_are_reordered_by_dragging(editor):
    handle = row(editor, "third").locator(".ratelimit-handle")
    handle.hover()
    editor.mouse.down()
    target = row(editor, "first").bounding_box()
    editor.mouse.move(target["x"] + 20, target["y"] + 40, steps=8)
    editor.mouse.move(target["x"] + 20, target["y"] + 4, steps=8)
    editor.wait_for_function("document.querySelector('.ratelimit-rule').dataset.name === 'third'")
    editor.mouse.up()
    editor.get_by_text("third is now rule 1 of 3, once you save.").wait_for(state="attached")
    save(editor)
    assert order() == ["third", "first", "second"]


def test_rules_are_reordered_by_keyboard_and_the_move_is_announced(editor):
    editor.get_by_role("button", name="Move first down").focus()
    editor.keyboard.press("Enter")
    editor.keyboard.press("Enter")
    status = editor.get_by_role("status").filter(has_text="first is now rule 3 of 3")
    status.wait_for(state="attached")
    assert editor.evaluate("document.activeElement.getAttribute('aria-label')") == "Move first up"
    save(editor)
    assert order() == ["second", "third", "first"]


def test_the_order_survives_an_error(editor):
    editor.get_by_role("button", name="Move third up").click()
    opened(editor, "first").locator("[name$='-limit']").fill("-1")
    save(editor, errors=True)
    editor.locator("#rules-group[data-ready]").wait_for()
    assert editor.locator(".errorlist").first.is_visible()
    names = editor.locator(".ratelimit-rule:not(.empty-form)").evaluate_all("rows => rows.map(r => r.dataset.name)")
    assert names == ["first", "third", "second"]
    row(editor, "first").locator("[name$='-limit']").fill("7")
    save(editor)
    assert order() == ["first", "third", "second"]


def test_the_builder_writes_json_and_follows_it(editor):
    first = opened(editor, "first")
    json, builder = first.locator("[name$='-match']"), first.locator(".field-match .ratelimit-builder")
    builder.get_by_role("button", name="When …").click()
    builder.get_by_label("Property").fill("method")
    assert builder.get_by_label("Value").get_attribute("list") == "ratelimit-match-method"
    builder.get_by_label("Operator").select_option("is one of")
    builder.get_by_label("Value").fill("POST, PUT")
    assert json.input_value() == '{"method": ["POST", "PUT"]}'
    json.fill('{"path": {"prefix": "/api/", "not": {"suffix": ".json"}}, "user": null}')
    texts = [
        builder.get_by_label(label).evaluate_all("all => all.map(e => e.value)") for label in ("Property", "Value")
    ]
    assert texts == [["path", "path", "user"], ["/api/", ".json", ""]]
    operators = builder.get_by_label("Operator").evaluate_all("all => all.map(e => e.selectedOptions[0].text)")
    assert operators == ["starts with", "does not end with", "is missing"]
    builder.get_by_label("Value").nth(0).fill("/v1/")
    builder.get_by_role("button", name="Or …").click()
    builder.get_by_label("Property").last.fill("bypass")
    builder.get_by_label("Value").last.fill("1")
    save(editor)
    assert Rule.objects.get(name="first").match == [
        {"path": {"prefix": "/v1/", "not": {"suffix": ".json"}}, "user": None},
        {"bypass": 1},
    ]


@pytest.mark.parametrize(
    ("json", "words"),
    [
        ('{"path": ', "no JSON yet"),
        ('{"path": {"not": {"prefix": "/a", "suffix": "b"}}}', "more than the builder can show"),
        ('{"plan": ["a,b"]}', "more than the builder can show"),
        ('{"header.x": 1.0}', "otherwise than it stands"),
        ('{"ip": "::1", "ip": "::2"}', "stands twice"),
        ("[]", "no match"),
    ],
)
def test_the_builder_says_so_when_it_cannot_show_the_json(editor, json, words):
    first = opened(editor, "first")
    first.locator("[name$='-match']").fill(json)
    assert words in first.locator(".field-match .ratelimit-note").inner_text()
    assert first.locator(".field-match .ratelimit-condition").count() == 0
    assert first.locator("[name$='-match']").input_value() == json


def test_a_bad_pattern_is_answered_beside_the_builder_and_nothing_is_lost(editor):
    first = opened(editor, "first")
    first.get_by_role("button", name="When …").click()
    builder = first.locator(".field-match .ratelimit-builder")
    builder.get_by_label("Property").fill("path")
    builder.get_by_label("Operator").select_option("matches (regex)")
    builder.get_by_label("Value").fill("(")
    save(editor, errors=True)
    assert "does not compile" in row(editor, "first").locator(".field-match .errorlist").inner_text()
    assert row(editor, "first").locator(".field-match .ratelimit-condition input").last.input_value() == "("
    row(editor, "first").locator(".field-match").get_by_label("Value").fill("^/a")
    save(editor)
    assert Rule.objects.get(name="first").match == {"path": {"regex": "^/a"}}


def test_characteristics_are_picked_in_order(editor):
    first = opened(editor, "first")
    picks = first.locator(".field-characteristics .ratelimit-picker")
    picks.get_by_label("Property to count by").fill("user")
    picks.get_by_label("Property to count by").press("Enter")
    picks.get_by_role("button", name="Earlier: user").click()
    assert first.locator("[name$='-characteristics']").input_value() == "user, ip"
    picks.get_by_role("button", name="Remove: ip").click()
    save(editor)
    assert Rule.objects.get(name="first").characteristics == ["user"]


def test_fields_that_a_skip_does_not_use_are_hidden_and_sent_empty(editor):
    first = opened(editor, "first")
    first.locator("[name$='-action']").select_option("skip")
    assert not first.locator("[name$='-limit']").is_visible()
    assert not first.locator("[name$='-characteristics']").is_visible()
    first.locator("[name$='-action']").select_option("log")
    assert first.locator("[name$='-limit']").input_value() == "1"
    first.locator("[name$='-action']").select_option("skip")
    save(editor)
    assert Rule.objects.filter(name="first", action="skip", limit=None).exists()


def test_a_rule_is_added_and_one_is_copied(editor):
    editor.get_by_role("link", name="Copy first").click()
    copied = editor.locator("#rules-3")
    assert copied.locator("[name$='-name']").input_value() == "first_copy"
    assert copied.locator("[name$='-period']").input_value() == "1m"
    editor.locator(".add-row a").click()
    added = editor.locator("#rules-4")
    added.locator("[name$='-name']").fill("welcome")
    added.locator("[name$='-action']").select_option("skip")
    added.get_by_role("button", name="Move the new rule up").click()
    save(editor)
    assert order() == ["first", "second", "third", "welcome", "first_copy"]


def test_a_new_rule_dragged_up_can_be_taken_back(editor):
    for _ in range(2):
        editor.locator(".add-row a").click()
    up = editor.locator("#rules-4").get_by_role("button", name="Move the new rule up")
    for _ in range(4):
        up.click()
    editor.locator("#rules-4 [name$='-name']").fill("top")
    editor.locator("#rules-4 [name$='-limit']").fill("9")
    editor.locator("#rules-4 [name$='-period']").fill("1m")
    editor.locator("#rules-3 .inline-deletelink").click()
    save(editor)
    assert order() == ["top", "first", "second", "third"]
    assert Rule.objects.get(name="first").limit == 1


def test_the_fields_of_a_rule_in_a_long_ruleset_come_when_it_is_opened(editor, ruleset):
    Rule.objects.bulk_create(
        Rule(ruleset=ruleset, name=f"r{number}", position=number + 10, **COUNTING) for number in range(100)
    )
    editor.reload()
    editor.locator("#rules-group[data-ready]").wait_for()
    assert editor.locator(".has_original [name$='-limit']").count() == 0
    opened(editor, "r50").locator("[name$='-limit']").fill("77")
    for _ in range(2):
        editor.get_by_role("button", name="Move r99 up").click()
    save(editor)
    assert Rule.objects.get(name="r50").limit == 77
    assert order()[-3:] == ["r99", "r97", "r98"]


@NO_SCRIPT
def test_without_javascript_rules_are_edited_moved_added_and_deleted(editor):
    opened(editor, "first").locator("[name$='-limit']").fill("50")
    row(editor, "first").locator("[name$='-position']").fill("9")
    row(editor, "second").locator("[name$='-DELETE']").check()
    new = editor.locator("#rules-3")
    new.locator("[name$='-name']").fill("second")
    new.locator("[name$='-limit']").fill("2")
    new.locator("[name$='-period']").fill("2h")
    save(editor)
    assert order() == ["third", "first", "second"]
    assert list(Rule.objects.order_by("position").values_list("limit", "period")) == [(3, 60), (50, 60), (2, 7200)]


@NO_SCRIPT
def test_without_javascript_a_rule_is_copied_and_one_of_many_opened(editor, ruleset):
    editor.get_by_role("link", name="Copy first").click()
    assert editor.locator("#rules-3 [name$='-name']").input_value() == "first_copy"
    save(editor)
    assert Rule.objects.get(name="first_copy").limit == 1
    for number in range(20):
        Rule.objects.create(ruleset=ruleset, name=f"r{number}", position=50, **COUNTING)
    editor.goto(reverse("admin:django_ratelimit_rules_ruleset_change", args=[ruleset.pk]))
    row(editor, "r7").locator(".ratelimit-fields > summary").click()
    row(editor, "r7").get_by_role("link", name="Open the fields of r7").click()
    row(editor, "r7").locator("[name$='-limit']").fill("42")
    save(editor)
    assert Rule.objects.get(name="r7").limit == 42


@pytest.mark.parametrize("context", [{"color_scheme": "dark"}], indirect=True)
def test_in_dark_mode_our_parts_are_dark_as_well(editor):
    colours = row(opened(editor, "first").page, "first").evaluate(
        "row => [row, row.querySelector('h3')].map(e => getComputedStyle(e))"
        ".flatMap(style => [style.backgroundColor, style.color])"
    )
    dark, light = (sum(map(int, colours[place][4:-1].split(","))) for place in (0, 3))
    assert dark < 200 < 500 < light


@pytest.mark.parametrize("context", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_axe_finds_no_serious_fault_in_an_opened_page(editor):
    opened(editor, "first").get_by_role("button", name="When …").click()
    for summary in row(editor, "first").locator("fieldset details > summary").all():
        summary.click()
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    found = axe.Axe().run(editor).response["violations"]
    grave = [
        (fault["id"], [node["html"] for node in fault["nodes"]])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
    assert grave == []
