"""Editing a ruleset with mouse and keyboard, with and without JavaScript."""

from __future__ import annotations

import pytest

from django_ratelimit_rules.models import Rule
from tests.browser.conftest import COUNTING, NO_SCRIPT, address, opened, order, ready, row, save


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
    ready(editor)
    editor.locator(".errorlist").first.wait_for()
    names = editor.locator(".ratelimit-rule:not(.empty-form)").evaluate_all("rows => rows.map(r => r.dataset.name)")
    assert names == ["first", "third", "second"]
    row(editor, "first").locator("[name$='-limit']").fill("7")
    save(editor)
    assert order() == ["first", "third", "second"]


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
    first.locator("[name$='-limit']").wait_for(state="hidden")
    first.locator("[name$='-characteristics']").wait_for(state="hidden")
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
        Rule(ruleset=ruleset, name=f"r{number}", position=number + 10, **COUNTING) for number in range(30)
    )
    ready(editor).reload()
    ready(editor)
    assert editor.locator(".has_original [name$='-limit']").count() == 0
    opened(editor, "r20").locator("[name$='-limit']").fill("77")
    for _ in range(2):
        editor.get_by_role("button", name="Move r29 up").click()
    save(editor)
    assert Rule.objects.get(name="r20").limit == 77
    assert order()[-3:] == ["r29", "r27", "r28"]


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
    editor.goto(address("change", ruleset.pk))
    row(editor, "r7").locator(".ratelimit-fields > summary").click()
    row(editor, "r7").get_by_role("link", name="Open the fields of r7").click()
    row(editor, "r7").locator("[name$='-limit']").fill("42")
    save(editor)
    assert Rule.objects.get(name="r7").limit == 42


def test_a_cycle_of_places_and_a_swap_of_names_are_saved_in_one_go(editor):
    editor.get_by_role("button", name="Move third up").click()
    editor.get_by_role("button", name="Move third up").click()
    opened(editor, "first").locator("[name$='-name']").fill("second")
    opened(editor, "second").locator("[name$='-name']").fill("third")
    opened(editor, "third").locator("[name$='-name']").fill("first")
    save(editor)
    # The third rule is first now and has the first name. Each of the others has moved too.
    assert list(Rule.objects.order_by("position").values_list("name", "limit")) == [
        ("first", 3),
        ("second", 1),
        ("third", 2),
    ]


def test_unsaved_changes_are_shown_and_leaving_needs_a_confirmation(editor):
    assert editor.get_by_text("Unsaved changes.").count() == 0
    editor.get_by_role("button", name="Move third up").click()
    editor.get_by_text("Unsaved changes.").wait_for()
    with editor.expect_event("dialog") as asked:
        editor.get_by_role("link", name="Demote first to log").click()
    assert asked.value.type == "beforeunload"


def test_each_rule_is_described_in_one_sentence(editor):
    said = editor.locator(".has_original .ratelimit-summary").all_inner_texts()
    assert said == [f"limit {number} per 1 min by ip" for number in (1, 2, 3)]


def test_the_links_beside_the_rules_need_no_confirmation_without_changes(editor, page):
    asked: list[object] = []

    def note(dialog):
        asked.append(dialog)

    page.on("dialog", note)
    opened(editor, "first")
    editor.get_by_role("link", name="Demote second to log").click()
    page.remove_listener("dialog", note)
    assert page.get_by_role("button", name="Demote").count() == 1
    assert asked == []


@pytest.mark.parametrize("page", [{"viewport": {"width": 390, "height": 800}, "has_touch": True}], indirect=True)
def test_a_finger_drags_a_rule_on_a_phone(editor):
    handle = row(editor, "third").locator(".ratelimit-handle")
    handle.scroll_into_view_if_needed()
    start, end = (box["y"] + box["height"] / 2 for box in (handle.bounding_box(), row(editor, "first").bounding_box()))
    x = handle.bounding_box()["x"] + 5
    devtools = editor.context.new_cdp_session(editor)

    def touch(kind: str, *points: float) -> None:
        spots = [{"x": x, "y": y} for y in points]
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": spots})

    touch("touchStart", start)
    for step in range(1, 11):
        touch("touchMove", start + (end - 20 - start) * step / 10)
    touch("touchEnd")
    editor.get_by_text("third is now rule 1 of 3, once you save.").wait_for(state="attached")
    save(editor)
    assert order() == ["third", "first", "second"]
