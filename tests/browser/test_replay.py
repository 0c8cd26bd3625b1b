"""Replay and suggest in a browser: from an edited rule to the clients that it would block, and to a draft."""

from __future__ import annotations

import pytest

from django_ratelimit_rules.models import Rule
from tests.browser.conftest import NO_SCRIPT, address, opened, ready
from tests.replay.test_logs import LOG

# The texts of all elements that wrap to several lines.
BROKEN = """all => all.filter((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return new Set([...range.getClientRects()].map((line) => line.top)).size > 1;
}).map((each) => each.textContent)"""


def test_a_rule_is_replayed_as_it_is_edited_and_the_result_is_accessible(page, editor, ruleset, faults):
    first = opened(editor, "first")
    first.locator("[name$='-limit']").fill("30")
    # A sentence that needs the whole width.
    first.locator("[name$='-match']").fill('{"path": {"not": {"prefix": ["/in/a/place/that/is/not/", "/nor/was/"]}}}')
    with page.expect_navigation():
        page.get_by_role("button", name="Replay as edited").click()
    assert "limit: 30" in page.get_by_label("Draft").input_value()
    page.get_by_label("Traffic").select_option("A file")
    page.get_by_label("File").set_input_files(LOG)
    with page.expect_navigation():
        page.get_by_role("button", name="Replay", exact=True).click()
    assert "of 9,999" in page.locator(".ratelimit-verdict").inner_text()
    # A 9,999 on two lines looks like two numbers.
    assert page.locator(".ratelimit-numbers td").evaluate_all(BROKEN) == []
    page.locator("#content-main details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
    assert faults() == []
    assert Rule.objects.get(name="first").limit == 1


@NO_SCRIPT
def test_a_suggestion_is_made_and_replayed_without_javascript(page, ruleset):
    page.goto(address("change", ruleset.pk))
    page.get_by_role("link", name="Suggest").click()
    page.get_by_label("Block").fill("5")
    page.get_by_label("Traffic").select_option("A file")
    page.get_by_label("File").set_input_files(LOG)
    page.get_by_role("button", name="Suggest").click()
    page.locator(".ratelimit-picture svg").wait_for()
    page.get_by_role("button", name="Replay this").click()
    assert "limit: 9\n" in page.get_by_label("Draft").input_value()
    page.get_by_label("Traffic").select_option("A file")
    page.get_by_label("File").set_input_files(LOG)
    page.get_by_role("button", name="Replay", exact=True).click()
    assert "1,851 of 9,999" in page.locator(".ratelimit-verdict").inner_text()


def test_the_suggest_page_with_its_result_is_accessible(page, ruleset, faults):
    page.goto(address("suggest") + "?limiter=search")
    ready(page)
    page.get_by_label("Traffic").select_option("A file")
    page.get_by_label("File").set_input_files(LOG)
    with page.expect_navigation():
        page.get_by_role("button", name="Suggest").click()
    page.locator(".ratelimit-picture svg").wait_for()
    assert faults() == []


@pytest.mark.parametrize("page", [{"viewport": {"width": 390, "height": 844}}], indirect=True)
def test_on_a_phone_numbers_are_below_their_heads_and_the_list_keeps_its_sentences(page, ruleset):
    page.goto(address("replay") + "?limiter=search")
    ready(page)
    page.get_by_label("File").set_input_files(LOG)
    with page.expect_navigation():
        page.get_by_role("button", name="Replay", exact=True).click()
    table = page.locator(".ratelimit-numbers")
    table.wait_for()
    heads, numbers = table.locator("thead th"), table.locator("tbody tr").first.locator("th, td")
    lefts = [[each.bounding_box()["x"] for each in row.all()] for row in (heads, numbers)]
    assert lefts[0] == lefts[1]
    page.goto(address("changelist"))
    assert page.locator("#result_list .field-summary").first.bounding_box()["width"] > 150


def test_the_ends_of_a_single_column_do_not_overlap(page, ruleset, tmp_path):
    traffic = tmp_path / "traffic.jsonl"
    traffic.write_text('{"time": 1700000000, "ip": "203.0.113.1"}\n')
    page.goto(address("replay") + "?limiter=search")
    ready(page)
    page.get_by_label("File").set_input_files(traffic)
    with page.expect_navigation():
        page.get_by_role("button", name="Replay", exact=True).click()
    page.locator(".ratelimit-labels span").last.wait_for()
    first, last = (each.bounding_box() for each in page.locator(".ratelimit-labels span").all())
    assert first["x"] + first["width"] < last["x"]
    assert first["y"] == last["y"]
