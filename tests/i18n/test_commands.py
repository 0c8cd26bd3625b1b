"""Management commands and errors of rules files can be shown in every language, and logs stay in English."""

from __future__ import annotations

import pytest
from django.core.management import get_commands, load_command_class
from django.utils import translation

from django_ratelimit_rules.engine.messages import Catalogue, message_of, translate
from django_ratelimit_rules.exceptions import InvalidRulesFile
from django_ratelimit_rules.rulesets.file import read_text
from tests.i18n.__main__ import LANGUAGES

APP = "django_ratelimit_rules"
COMMANDS = sorted(name for name, app in get_commands().items() if app == APP)
MARKED = Catalogue(lambda text: f"⟦{text}⟧", lambda one, other, number: f"⟦{one if number == 1 else other}⟧", str)


@pytest.mark.parametrize("language", ["en", *LANGUAGES])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_can_be_printed_in_every_language(name, language):
    command = load_command_class(APP, name)
    with translation.override(language.lower().replace("_", "-")):
        text = command.create_parser("manage.py", name).format_help()
        description = translation.gettext(command.help)
    assert "%(" not in text
    # The parser breaks lines at spaces and after hyphens.
    assert "".join(description.split()) in "".join(text.split())


@pytest.mark.parametrize(
    ("text", "english", "translated"),
    [
        ("a: 5\n", "list of rules", "⟦rules.yaml:1: ⟦limiter 'a' must be"),
        ("a: {mode: maybe}\n", "mode: 'maybe' is not one of", "⟦rules.yaml:1: ⟦mode: 'maybe' is not one of"),
        ("a: [\n", "this is not valid YAML", "⟦rules.yaml:2: ⟦this is not valid YAML"),
        ("a: " + "[" * 60, "nested more than 50 levels deep", "⟦nested more than 50 levels deep⟧"),
        ("a: [{name: r, limit: -1, period: 60}]\n", "rules.yaml:1: rule 'r': limit: ", "⟦rules.yaml:1: ⟦rule 'r': lim"),
        ("a: {mode: off, mode: off}\n", "'mode' is written twice", "⟦'mode' is written twice⟧"),
    ],
)
def test_an_error_of_a_rules_file_is_english_and_can_be_translated_with_all_its_parts(text, english, translated):
    with translation.override("de"), pytest.raises(InvalidRulesFile) as raised:
        read_text(text, "rules.yaml")
    assert english in str(raised.value)
    assert message_of(raised.value) == str(raised.value)
    assert translated in translate(message_of(raised.value), MARKED)
