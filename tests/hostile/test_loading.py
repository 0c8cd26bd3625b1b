"""Any input as a rule, a row or a file is accepted, or rejected with the one documented error."""

from __future__ import annotations

import json

import yaml
from django.core.exceptions import ValidationError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_ratelimit_rules.engine import Ruleset, as_rule, plan
from django_ratelimit_rules.engine.calls import values
from django_ratelimit_rules.engine.properties import normalise
from django_ratelimit_rules.exceptions import InvalidRule, InvalidRulesFile
from django_ratelimit_rules.models import Rule as RuleRow
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.rulesets.file import read_text
from tests.hostile.strategies import anything, identifiers, json_values, rules

BROAD = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def attempt(refusal: type[Exception] | tuple[type[Exception], ...], function, *arguments):
    """Return a function's result, or None and the raised rejection."""
    try:
        return function(*arguments), None
    except refusal as error:
        return None, error


@BROAD
@given(rules | json_values, st.dictionaries(st.sampled_from(["ip", "user", "path", "header.x-a"]), anything))
def test_a_rule_is_made_or_refused_and_one_that_is_made_plans_every_call(said, identifier):
    rule, refusal = attempt(InvalidRule, as_rule, said)
    if refusal:
        assert str(refusal)
    else:
        assert len(plan(Ruleset("hostile", (rule,)), identifier.get).hits) <= 1


@BROAD
@example({"name": None, "limit": float("inf"), "expires_at": None})
@given(rules.map(lambda said: said | {"expires_at": None}))
def test_a_row_is_clean_or_refused_by_its_fields(said):
    row = RuleRow(**said)
    for clean in (lambda: row.clean_fields(exclude=["ruleset"]), row.clean):
        _, refusal = attempt(ValidationError, clean)
        if refusal:
            assert refusal.message_dict
            return
    row.to_engine()


@BROAD
@given(
    st.dictionaries(
        st.sampled_from(["search", "Bad name", "a"]),
        st.lists(rules, max_size=3)
        | st.fixed_dictionaries({}, optional={"rules": st.lists(rules, max_size=3), "mode": json_values})
        | json_values,
        max_size=3,
    ),
    st.sampled_from([".json", ".yaml"]),
)
def test_a_file_of_rules_is_read_or_refused_with_its_line(said, suffix):
    text = json.dumps(said) if suffix == ".json" else yaml.safe_dump(said, allow_unicode=True)
    for load in (read_text, ruleset_text.load):
        tiers, refusal = attempt(InvalidRulesFile, load, text, "rules" + suffix)
        assert str(refusal).startswith(f"rules{suffix}") if refusal else set(tiers) <= set(said)


# Strings that cost a careless reader memory, stack or time.
BOMB = "a: &a [x, x, x]\n" + "".join(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, *a]\n" for n in range(30))


@BROAD
@example(BOMB, ".yaml")
@example("[" * 20_000, ".yaml")
@example("[" * 20_000, ".json")
@example('{"search": ' + "9" * 5000 + "}", ".json")
@example("search: " + "9" * 5000, ".yaml")
@example("search: !!python/object/apply:os.system [true]", ".yaml")
@example("? {a: b}\n: c", ".yaml")
@example("search: 2001-99-99", ".yaml")
@example("search: {mode: 0o7}\n--- \nsecond: {}", ".yaml")
@example("a: !!binary x", ".yaml")
@example("{a: .nan, .inf: b}", ".yaml")
@example("!!set {search}", ".yaml")
@example("!!omap [search: []]", ".yaml")
@example("!!timestamp x", ".yaml")
@example("search: !!int x", ".yaml")
@example("search: !!float x", ".yaml")
@example("search: !!bool x", ".yaml")
@example("\x00", ".yaml")
@example('{"search": "\\ud800"}', ".json")
@given(anything | st.text("-:{}[]&*!?|>'\"#%@`, \n\tab0.e_", max_size=200), st.sampled_from([".json", ".yaml"]))
def test_any_text_at_all_is_read_or_refused(text, suffix):
    for load in (read_text, ruleset_text.load):
        _, refusal = attempt(InvalidRulesFile, load, text, "rules" + suffix)
        assert refusal is None or str(refusal)


@BROAD
@example({"": False, "|": None})
@example({"plan": "Pro", "plan|lower": None})
@given(identifiers)
def test_an_identifier_is_taken_or_refused_as_a_mistake_in_code(identifier):
    value_of, refusal = attempt((TypeError, ValueError), values, identifier)
    if refusal is None:
        # Rules contain only names of properties, so no other name is read.
        names = [attempt(ValueError, normalise, name)[0] for name in identifier]
        assert all(isinstance(value_of(name), str | None) for name in names if name is not None)
