"""Messages are English strings that can be rendered in other languages."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime

import pytest
from django.utils import translation

from django_ratelimit_rules.engine import Rule, Ruleset, explain, sentence, trace
from django_ratelimit_rules.engine.durations import spell_duration, spell_rate, spell_span, spell_wait
from django_ratelimit_rules.engine.fields import SPECS
from django_ratelimit_rules.engine.lint import Surroundings, lint
from django_ratelimit_rules.engine.matching import OPERATORS
from django_ratelimit_rules.engine.messages import (
    Catalogue,
    Grouped,
    Message,
    _,
    all_of,
    any_of,
    message_of,
    ngettext,
    packed,
    spaced,
    translate,
    unpacked,
)
from django_ratelimit_rules.engine.properties import PROPERTIES
from django_ratelimit_rules.engine.results import Tally
from django_ratelimit_rules.exceptions import CallableFailed, CountersUnavailable, InvalidRule
from django_ratelimit_rules.rulesets import diff
from django_ratelimit_rules.runtime.language import localized

GERMAN = Catalogue(
    {"%(first)s and %(last)s": "%(first)s und %(last)s", "the rule %(name)r": "die Regel %(name)r"}.get,
    lambda singular, plural, number: {1: "%(number)s Aufruf"}.get(number, "%(number)s Aufrufe"),
    lambda number: f"{number:,}".replace(",", "."),
)


def test_a_message_is_an_english_string():
    message = _("the rule %(name)r", name="a")
    assert (message, type(message), f"{message}!") == ("the rule 'a'", Message, "the rule 'a'!")


@pytest.mark.parametrize(
    ("number", "english", "german"), [(1, "1 call", "1 Aufruf"), (12_000, "12,000 calls", "12.000 Aufrufe")]
)
def test_a_number_chooses_the_form_and_is_spelled_as_the_language_has_it(number, english, german):
    message = ngettext("%(number)s call", "%(number)s calls", number)
    assert (message, translate(message, GERMAN)) == (english, german)


def test_values_that_are_messages_are_translated_too():
    message = all_of([_("the rule %(name)r", name="a"), "b"])
    assert (message, translate(message, GERMAN)) == ("the rule 'a' and b", "die Regel 'a' und b")


@pytest.mark.parametrize(
    ("texts", "all_texts", "any_text"),
    [(["a"], "a", "a"), (["a", "b"], "a and b", "a or b"), (["a", "b", "c"], "a, b and c", "a, b or c")],
)
def test_lists_have_commas_and_a_last_word(texts, all_texts, any_text):
    assert (all_of(texts), any_of(texts)) == (all_texts, any_text)


def test_a_message_survives_pickling():
    message = ngettext("%(number)s call of %(name)s", "%(number)s calls of %(name)s", 2, name="a")
    again = pickle.loads(pickle.dumps(message))
    assert (again, translate(again, GERMAN)) == (message, "2 Aufrufe")


def test_plain_values_are_left_as_they_are():
    assert (translate("100 %", GERMAN), translate(Grouped(1000), GERMAN), translate(None, GERMAN)) == (
        "100 %",
        "1.000",
        "None",
    )


def test_numbers_follow_the_active_language():
    message = ngettext("%(number)s call", "%(number)s calls", 12_000)
    with translation.override("de"):
        assert localized(Grouped(12_000)) == "12.000"
    with translation.override("en"):
        assert localized(message) == "12,000 calls"


# A language in which each template is marked, so that a value that no translator can reach shows.
MARKED = Catalogue(
    lambda text: f"⟦{text}⟧",
    lambda singular, plural, number: f"⟦{singular if number == 1 else plural}⟧",
    lambda number: f"{number:_}",
)
COUNTING = {"limit": 12_000, "period": 60}


@pytest.mark.parametrize(
    ("fields", "marked"),
    [
        (COUNTING, "⟦limit 12_000 per ⟦1 min⟧ for everyone together⟧"),
        (COUNTING | {"characteristics": ["ip"]}, "⟦limit 12_000 per ⟦1 min⟧ by ip⟧"),
        (COUNTING | {"count_distinct": "user"}, "⟦limit 12_000 different user per ⟦1 min⟧ for everyone together⟧"),
        (
            COUNTING | {"count_distinct": "user", "characteristics": ["ip", "host"]},
            "⟦limit 12_000 different user per ⟦1 min⟧ by ip, host⟧",
        ),
        (COUNTING | {"action": "log"}, "⟦log above 12_000 per ⟦1 min⟧ for everyone together⟧"),
        (COUNTING | {"action": "log", "characteristics": ["ip"]}, "⟦log above 12_000 per ⟦1 min⟧ by ip⟧"),
        (
            COUNTING | {"algorithm": "token_bucket", "ban_for": 90},
            "⟦⟦⟦limit 12_000 per ⟦1 min⟧ for everyone together⟧ (⟦token bucket⟧)⟧, then ban for ⟦90 s⟧⟧",
        ),
        (
            COUNTING | {"response": {"status": 401}},
            "⟦⟦limit 12_000 per ⟦1 min⟧ for everyone together⟧, charged by the answer when ⟦status is 401⟧⟧",
        ),
        (
            {"action": "skip", "match": {"path": {"prefix": "/a", "not": {"suffix": "b"}}}},
            "⟦⟦skip: let through uncounted⟧ when ⟦⟦path starts with /a⟧ and ⟦path does not end with b⟧⟧⟧",
        ),
        (
            {"action": "skip", "match": [{"a": ["x", None], "b": None}, {"c": 1}]},
            "⟦⟦skip: let through uncounted⟧ when ⟦⟦(⟦⟦a is in ⟦(⟦x, ⟦missing⟧⟧)⟧⟧ and ⟦b is missing⟧⟧)⟧ or ⟦c is 1⟧⟧⟧",
        ),
    ],
)
def test_a_translator_reaches_each_clause_of_a_rule_s_sentence_as_a_whole(fields, marked):
    text = sentence(Rule("a", **fields))
    assert translate(text, MARKED) == marked
    assert "⟦" not in text


def test_a_computed_limit_and_period_are_words_of_the_sentence():
    text = sentence(Rule("a", limit=lambda: 1, period=lambda: 60))
    assert text == "limit a computed limit per a computed period for everyone together"
    assert translate(text, MARKED) == "⟦limit ⟦a computed limit⟧ per ⟦a computed period⟧ for everyone together⟧"


def test_durations_are_messages():
    spelled = [spell_duration(7200), spell_rate(60), spell_rate(300), spell_span(3_574_000), spell_span(0)]
    assert spelled == ["2 h", "minute", "5 min", "59 min 34 s", "0 s"]
    assert [translate(text, MARKED) for text in spelled] == [
        *("⟦2 h⟧", "⟦minute⟧", "⟦5 min⟧", "⟦⟦59 min⟧ ⟦34 s⟧⟧", "⟦0 s⟧")
    ]
    assert [translate(spell_wait(seconds), MARKED) for seconds in (1, 7200)] == ["⟦1 second⟧", "⟦2 hours⟧"]


def test_sentences_follow_one_another():
    assert spaced(["A.", "B.", "C."]) == "A. B. C."


def test_the_texts_of_rows_are_messages():
    texts = [text for spec in SPECS.values() for text in (spec.label, spec.help_text) if text]
    texts += [text for row in OPERATORS.values() for text in row.labels]
    texts += [row.description for row in PROPERTIES.values()]
    assert [text for text in texts if not isinstance(text, Message)] == []


@pytest.mark.parametrize(
    ("fields", "marked"),
    [
        ({"limit": None}, "⟦a limit rule needs a limit⟧"),
        ({"action": "skip"}, "⟦a skip rule counts nothing and takes no limit⟧"),
        ({"period": "soon"}, "⟦'soon' is not a duration: write a whole number and one of s, m, h, d, such as '30s' or"),
        ({"match": {"path": {"gt": "x"}}}, "⟦property 'path': ⟦gt takes a finite number, not 'x'⟧⟧"),
        (
            {"match": {"path": {"in": [{}]}}},
            "⟦property 'path': ⟦property 'operand' is a dict: a value must be a string",
        ),
        ({"characteristics": ["a|b"]}, "⟦property 'a|b': unknown filter 'b', use one of lower, strip, upper⟧"),
        (
            {"count_distinct": "a", "algorithm": "token_bucket"},
            "⟦works with fixed_window only, not token_bucket⟧",
        ),
    ],
)
def test_the_reason_of_an_invalid_rule_is_a_message_that_survives_pickling(fields, marked):
    with pytest.raises(InvalidRule) as caught:
        Rule("a", **COUNTING | fields)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (str(error), error.reason) == (str(caught.value), caught.value.reason)
    assert translate(error.reason, MARKED).startswith(marked)
    assert str(message_of(error)) == str(error)
    assert translate(message_of(error), MARKED).startswith(f"⟦rule 'a': {error.field}: {marked}")


def test_exceptions_are_rendered_in_the_active_language():
    subject = _("the limit of rule %(rule)r", rule="a")
    failure = pickle.loads(pickle.dumps(CallableFailed.because(subject, ValueError("x"))))
    assert (str(failure), localized(failure)) == 2 * ("the limit of rule 'a' could not be computed: ValueError('x')",)
    assert translate(message_of(failure), MARKED) == (
        "⟦⟦the limit of rule 'a'⟧ could not be computed: ValueError('x')⟧"
    )
    assert message_of(CallableFailed("plain")) == "plain"
    away = CountersUnavailable(ngettext("%(number)s second", "%(number)s seconds", 2), retry_after=2.0)
    assert translate(message_of(pickle.loads(pickle.dumps(away))), MARKED) == "⟦2 seconds⟧"


def test_findings_are_whole_sentences():
    rules = [Rule("all", action="skip"), Rule("later", characteristics=["ip"], **COUNTING)]
    (finding,) = lint(rules, Surroundings(datetime(2027, 1, 1, tzinfo=UTC)))
    assert [translate(text, MARKED) for text in (finding.message, finding.why, finding.advice)] == [
        "⟦comes after all, which allows every request⟧",
        "⟦A skip rule ends the evaluation, so this rule never sees a request.⟧",
        "⟦Move it before all, give all a match, or delete one of the two.⟧",
    ]


def test_an_explanation_keeps_its_messages_until_it_is_stored():
    rules = (
        Rule("a", match={"plan": "free"}, **COUNTING),
        Rule("b", count_distinct="project", **COUNTING),
        Rule("c", **COUNTING),
    )
    traced = trace(Ruleset("search", rules), {"plan": "pro"}.get)
    first, second, third = explain(traced, [Tally(0, 0, False, False, 1000, 0)]).as_dict()["rules"]
    assert translate(first["misses"][0]["condition"], MARKED) == "⟦plan is free⟧"
    assert translate(second["reason"], MARKED) == "⟦project is missing⟧"
    assert translate(third["sentence"], MARKED) == "⟦limit 12_000 per ⟦1 min⟧ for everyone together⟧"


def test_differences_are_whole_lines():
    before = {"search": {"rules": [{"name": "a", "limit": 1, "period": "1m"}]}}
    after = {
        "search": {"mode": "off", "rules": [{"name": "b", "limit": 1, "period": "1m"}, {"name": "c", "limit": "x"}]}
    }
    changes = diff.compare(before, after)
    rule = "⟦limit 1 per ⟦1 min⟧ for everyone together⟧"
    unreadable = "⟦cannot be read (⟦a limit rule needs a period⟧)⟧"
    assert [translate(change.text, MARKED) for change in changes if change.depth < 2] == [
        "⟦ruleset search⟧",
        "⟦mode: ⟦not stated⟧ → off⟧",
        f"⟦a: {rule}⟧",
        f"⟦b: {rule} (before c)⟧",
        f"⟦c: {unreadable} (last)⟧",
    ]


def test_a_packed_message_can_still_be_translated_after_json():
    rule = {"sentence": all_of([_("the rule %(name)r", name="a"), "b"]), "used": Grouped(12_000), "at": (1, None)}
    again = unpacked(json.loads(json.dumps(packed(rule))))
    assert again == {"sentence": "the rule 'a' and b", "used": 12_000, "at": [1, None]}
    assert [translate(again[name], GERMAN) for name in ("sentence", "used")] == ["die Regel 'a' und b", "12.000"]
