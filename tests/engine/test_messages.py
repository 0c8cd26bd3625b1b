"""Messages are English strings that can be rendered in other languages."""

from __future__ import annotations

import pickle

import pytest
from django.utils import translation

from django_ratelimit_rules.engine.messages import Catalogue, Grouped, Message, _, all_of, any_of, ngettext, translate
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
