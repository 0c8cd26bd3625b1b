"""PyYAML and libyaml write the same YAML, and reading it returns the same values."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules.rulesets import yaml_writer
from django_ratelimit_rules.rulesets.text import canonical

AWKWARD = [
    "",
    "on",
    "No",
    "1m",
    "010",
    "1e3",
    "~",
    "a: b",
    "- a",
    "#",
    "a #b",
    "{",
    "a\nb",
    " a",
    "a ",
    "\x85",
    "\ufeff",
]
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(AWKWARD)
# Names of fields and properties are never empty and contain no line break.
keys = strings.filter(lambda key: key != "" and key.isprintable())
scalars = st.one_of(strings, st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.none())
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
rules = st.lists(st.dictionaries(keys, values, min_size=1, max_size=4), min_size=1, max_size=3)


@given(rules, st.dictionaries(keys, values, max_size=3))
def test_any_written_value_reads_back_and_libyaml_writes_the_same(listed, fields):
    fields = {name: value for name, value in fields.items() if name != "rules"}
    text = yaml_writer.ruleset("search", {**fields, "rules": listed})
    assert canonical(yaml.safe_load(text)) == canonical({"search": {**fields, "rules": listed}})
    dumpers, yaml_writer._DUMPERS = yaml_writer._DUMPERS, yaml_writer._DUMPERS[-1:]
    try:
        assert yaml_writer.ruleset("search", {**fields, "rules": listed}) == text
    finally:
        yaml_writer._DUMPERS = dumpers


def test_a_lone_surrogate_is_written_as_an_escape():
    assert yaml_writer.inline("\ud800") == '"\\uD800"'


@given(values)
def test_a_value_is_on_one_line(value):
    assert "\n" not in yaml_writer.inline(value)
    assert canonical(yaml.safe_load(f"[{yaml_writer.inline(value)}]")) == canonical([value])
