"""The condition builder and its JSON follow each other."""

from __future__ import annotations

import json
import random
from typing import Any

from django_ratelimit_rules.engine.matching import compile_match
from django_ratelimit_rules.models import Rule
from tests.browser.conftest import opened, ready, row, save
from tests.vector_runner import cases

PROPERTIES = ("plan", "path", "header.x-team")
TEXTS = (
    "",
    " ",
    "0",
    "1",
    "1.0",
    "2.5",
    "7",
    "42",
    "042",
    "/a",
    "/a.b",
    "/a/b",
    "a",
    "a,b",
    "free",
    "true",
    "[1",
    "é",
    '"',
)
ADDRESSES = ("10.1.2.3", "198.51.100.7", "2001:db8::1")

CONDITIONS: list[Any] = [
    *("free", "", " ", "a,b", "[1", "é", '"', "042", 42, 0, -1, 2.5, 1.0, 12345678901234567890, True, False, None),
    *({"eq": "free"}, {"eq": None}, {"eq": True}, {"exists": True}, {"exists": False}),
    *(["free", 7, True], [None], ["free", None], [""], ["a,b", "free"], [" "], ["[1"], [1.0], ["1", "1.0"]),
    *({"in": ["free", "a"]}, {"oneOf": ["free"]}, {"not": {"in": ["free", None]}}, {"not": ["a,b"]}),
    *({"prefix": "/a"}, {"prefix": ["/a", "a,b"]}, {"prefix": "a,b"}, {"prefix": ""}, {"suffix": [".b", "e"]}),
    *({"glob": "/**"}, {"regex": "^(a|/a)$"}, {"re": "a,b"}, {"cidr": "10.0.0.0/8"}),
    *({"cidr": ["10.0.0.0/8", "::/0"]}, {"gt": 1}, {"gte": 2.5}, {"lt": 7.0}, {"lte": "42"}, {"not": {"gt": 1}}),
    *({"not": "free"}, {"not": None}, {"not": {"exists": True}}, {"not": {"eq": 1.0}}, {"not": {"prefix": ["/a"]}}),
    *({"prefix": "/a", "suffix": "b"}, {"not": {"prefix": "/a", "suffix": "b"}}, {"not": {"not": "free"}}),
    *({"not": {"not": {"not": {"prefix": "/a"}}}}, {"gt": 0, "lt": 40, "not": ["2.5", 7]}),
    {"prefix": "/", "not": {"suffix": "b", "not": {"glob": "/a/*"}, "exists": True}},
]


def random_condition(dice: random.Random, depth: int = 3) -> Any:
    """Return a random condition, nested up to a depth."""
    texts = dice.sample(TEXTS, 2)
    plain = [None, dice.choice(texts), texts, dice.randrange(50), dice.random() < 0.5, {"exists": dice.random() < 0.5}]
    if depth == 0 or dice.random() < 0.3:
        return dice.choice(plain)
    operators = {
        "prefix": texts,
        "suffix": texts[0],
        "glob": "/*",
        "regex": "a|1",
        "gt": dice.randrange(50),
        "cidr": "10.0.0.0/8",
        "in": [*texts, None],
        "not": random_condition(dice, depth - 1),
    }
    return {key: operators[key] for key in dice.sample(sorted(operators), dice.randrange(1, 4))}


def matches() -> list[Any]:
    dice = random.Random(5)
    found: list[Any] = [{"plan": condition} for condition in CONDITIONS]
    found += [rule["match"] for _, case in cases("matching") for rule in case.get("rules", []) if "match" in rule]
    found += [[{"plan": "free"}, {}], [{"plan": ["free"], "path": {"prefix": "/a"}}, {"header.x-team": None}]]
    for _ in range(150):
        objects = [{name: random_condition(dice) for name in dice.sample(PROPERTIES, 2)} for _ in range(3)]
        found.append(dice.choice([objects[0], objects]))
    return found


# Writes each string into the JSON, touches all inputs of the builder, and returns the resulting JSON.
THROUGH_THE_BUILDER = """(area, texts) => texts.map((text) => {
    const box = area.closest(".form-row").querySelector(".ratelimit-builder");
    area.value = text;
    area.dispatchEvent(new Event("input", { bubbles: true }));
    const untouched = area.value;
    for (const input of box.querySelectorAll("input:not([hidden])")) {
        input.dispatchEvent(new Event("input", { bubbles: true }));
    }
    for (const select of box.querySelectorAll("select")) {
        select.dispatchEvent(new Event("change", { bubbles: true }));
    }
    const note = box.querySelector(".ratelimit-note").textContent;
    return { untouched, touched: area.value, note, rows: box.querySelectorAll("select").length };
})"""


def test_the_builder_shows_and_writes_any_match_with_the_same_meaning(editor):
    given = matches()
    texts = [json.dumps(match, ensure_ascii=False) for match in given]
    area = opened(editor, "first").locator("[name$='-match']")
    values: list[str | None] = [None, *TEXTS, *ADDRESSES]
    for match, text, found in zip(given, texts, area.evaluate(THROUGH_THE_BUILDER, texts), strict=True):
        assert found["note"] == "", text
        assert found["untouched"] == text
        assert found["rows"] > 0 or match == {}, text
        before, after = compile_match(match), compile_match(json.loads(found["touched"]))
        for value in values:
            for each in before.properties:
                others = dict.fromkeys(before.properties, "free") | {each: value}
                assert before.holds(others.get) == after.holds(others.get), (text, found["touched"], others)


def test_the_builder_writes_json_and_follows_it(editor):
    first = opened(editor, "first")
    area, builder = first.locator("[name$='-match']"), first.locator(".field-match .ratelimit-builder")
    builder.get_by_role("button", name="When …").click()
    builder.get_by_label("Property").fill("method")
    assert builder.get_by_label("Value").get_attribute("list") == "ratelimit-match-method"
    builder.get_by_label("Operator").select_option("is one of")
    builder.get_by_label("Value").fill("POST, PUT")
    assert area.input_value() == '{"method": ["POST", "PUT"]}'
    area.fill('{"path": {"prefix": "/api/", "not": {"suffix": ".json"}}, "user": null}')
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


def test_several_conditions_that_must_not_all_hold_are_nested(editor):
    first = opened(editor, "first")
    builder = first.locator(".field-match .ratelimit-builder")
    builder.get_by_role("button", name="When …").click()
    builder.get_by_label("Property").fill("path")
    builder.get_by_label("Operator").select_option("is not all of")
    inside = builder.get_by_role("group", name="What path must not all be")
    inside.get_by_label("Operator").select_option("starts with")
    inside.get_by_label("Value").fill("/api/")
    inside.get_by_role("button", name="And …").click()
    inside.get_by_label("Operator").nth(1).select_option("does not end with")
    inside.get_by_label("Value").nth(1).fill(".json")
    assert first.locator("[name$='-match']").input_value() == (
        '{"path": {"not": {"prefix": "/api/", "not": {"suffix": ".json"}}}}'
    )
    inside.get_by_role("button", name="Remove this part").nth(1).click()
    save(editor)
    assert Rule.objects.get(name="first").match == {"path": {"not": {"prefix": "/api/"}}}


NOT_SHOWN = {
    '{"path": ': "not valid JSON yet",
    '{"path": {"like": "/a"}}': "The condition on path says more than the builder can show",
    '{"header.x": 1e3}': "The condition on header.x says more than the builder can show",
    '{"plan": "two\\nlines"}': "more than the builder can show",
    '{"ip": "::1", "ip": "::2"}': "is repeated in one object",
    "[]": "not a match",
}


def test_the_builder_shows_a_message_when_it_cannot_show_the_json(editor):
    first = opened(editor, "first")
    for text, words in NOT_SHOWN.items():
        first.locator("[name$='-match']").fill(text)
        assert words in first.locator(".field-match .ratelimit-note").inner_text()
        assert first.locator(".field-match .ratelimit-condition").count() == 0
        assert first.locator("[name$='-match']").input_value() == text


def test_two_conditions_of_one_kind_on_a_property_are_not_written_over_each_other(editor):
    first = opened(editor, "first")
    builder = first.locator(".field-match .ratelimit-builder")
    first.locator("[name$='-match']").fill('{"path": {"prefix": "/a"}}')
    builder.get_by_role("button", name="And …").click()
    builder.get_by_label("Property").last.fill("path")
    builder.get_by_label("Operator").last.select_option("starts with")
    assert "join them in one" in builder.locator(".ratelimit-note").inner_text()
    builder.get_by_label("Operator").last.select_option("ends with")
    builder.get_by_label("Value").last.fill(".json")
    assert builder.locator(".ratelimit-note").inner_text() == ""
    save(editor)
    assert Rule.objects.get(name="first").match == {"path": {"prefix": "/a", "suffix": ".json"}}


def test_a_bad_pattern_is_an_error_at_the_builder_and_nothing_is_lost(editor):
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


def test_the_answers_that_a_rule_counts_are_built_as_well(editor):
    first = opened(editor, "first")
    first.locator("summary", has_text="Rarely needed").click()
    builder = first.locator(".field-response .ratelimit-builder")
    builder.get_by_role("button", name="Only when …").click()
    builder.get_by_label("Property").fill("login")
    builder.get_by_label("Value").fill("failed")
    save(editor)
    assert Rule.objects.get(name="first").response == {"login": "failed"}
    editor.go_back()
    editor.reload()
    ready(editor)
    first = opened(editor, "first")
    first.locator("summary", has_text="Rarely needed").click()
    first.get_by_role("button", name="Count every request").click()
    save(editor)
    assert Rule.objects.get(name="first").response is None
