"""The counts of the style rule only fall. A higher number fails, and so does a lower one that is not in the file."""

from __future__ import annotations

import re

import pytest

from tests.docs import style
from tests.docs.pages import take

(EXAMPLES,) = take("CONTRIBUTING.md#style")
PAIRS = re.findall(r"^- (.*)\n\+ (.*)$", EXAMPLES, re.MULTILINE)


@pytest.mark.parametrize("area", ["package", "documents"])
def test_the_counts_are_those_of_the_file(area):
    now, kept = style.counts()[area], style.kept()[area]
    rose = {name: (kept.get(name, 0), number) for name, number in now.items() if number > kept.get(name, 0)}
    fell = {name: (kept[name], number) for name, number in now.items() if number < kept.get(name, 0)}
    assert not rose, f"{rose}: rewrite the new sentences, see Style in CONTRIBUTING.md; {_listing(rose)}"
    assert not fell, f"{fell}: now run python -m tests.docs.style --write"
    assert now.keys() == kept.keys()


def _listing(names: dict[str, object]) -> str:
    return "python -m tests.docs.style " + " ".join(f"'{name}'" for name in names)


@pytest.mark.parametrize("name", style.WORDS)
def test_a_word_is_found_in_strings_comments_and_across_lines(name):
    phrase = name.split(",")[0]
    first, _, rest = phrase.partition(" ")
    across = f"{first}\n    # {rest}" if rest else phrase
    source = f'x = 1  # {phrase} it\ny = f"{{x}} {phrase}"\n\n\ndef f():\n    """A {phrase}."""\n    # {across}\n'
    found = [found for prose in style.in_python(source) for found, _ in style.words_in(prose.text)]
    assert found.count(name) == 4


def test_identifiers_are_not_prose():
    source = "behind = told\nstands(whom.ours)\n"
    assert [*style.in_python(source)] == []


def test_a_sentence_is_long_from_26_words_on():
    assert [*style.long_sentences(" ".join(["word"] * 25) + ". And a short one.")] == []
    assert len([*style.long_sentences("A short one. " + " ".join(["word"] * 26) + ".")]) == 1


def test_the_command_raises_no_number_by_itself():
    old, new = {"package": {"behind": 3, "told": 1}}, {"package": {"behind": 2, "told": 2, "whom": 5}}
    assert style.lowered(old, new) == {"package": {"behind": 2, "told": 1, "whom": 5}}


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_the_examples_of_the_style_rule_replace_something(before, after):
    assert [*style.words_in(before)] or ";" in before or [*style.long_sentences(before)]
    assert not [*style.words_in(after)]
    assert ";" not in after
    assert not [*style.long_sentences(after)]
