"""Partitioned rulesets have the value of one property in the hash tag, and count like other rulesets."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules import Rule
from django_ratelimit_rules.engine import KeyWriter, Ruleset, counter_keys, plan
from django_ratelimit_rules.engine.keys import code_in, values_in
from django_ratelimit_rules.exceptions import InvalidRule

KEYS = KeyWriter(b"secret")
COUNTING = {"limit": 5, "period": 60}
texts = st.text(st.characters(exclude_categories=()), max_size=130) | st.none()


def make(*rules, partition_by="user") -> Ruleset:
    return Ruleset("search", rules, keys=KEYS, partition_by=partition_by)


def by(*names, name="r", **options) -> Rule:
    return Rule(name, characteristics=names, **COUNTING | options)


def keys_of(ruleset, identifier) -> list[str]:
    return [hit.key for hit in plan(ruleset, identifier.get).hits]


def test_all_counters_of_one_call_lie_in_one_slot_that_its_value_chooses():
    ruleset = make(by("user"), by("team", "user", name="both"), by("user", name="log", action="log"))
    for user in ("1", "2"):
        tags = {key[: key.index("}") + 1] for key in keys_of(ruleset, {"user": user, "team": "7"})}
        assert tags == {f"{{search|{user}}}"}


def test_the_value_is_in_the_key_once_and_can_be_read_from_it():
    rules = [by("user"), by("team", "user", "ip", name="many"), by("user", "team", name="two", count_distinct="path")]
    ruleset = make(*rules)
    identifier = {"user": "u1", "team": "t1", "ip": "2001:db8::1", "path": "/"}
    keys = keys_of(ruleset, identifier)
    assert [key.count("u1") for key in keys] == [1, 1, 1]
    said = [values_in(key, rule.characteristics, "user") for key, rule in zip(keys, rules, strict=True)]
    assert said == ["u1", "t1,u1,2001:db8::", "u1,t1"]
    assert [code_in(key) for key in keys] == [code_in(step.prefix) for step in ruleset.steps]


@given(st.tuples(texts, texts), st.tuples(texts, texts), st.sampled_from(["a", "b"]), st.sampled_from(["a", "b", None]))
def test_two_calls_share_a_counter_only_with_the_same_values_and_partition(first, second, one, other):
    rule = by("a", "b")
    keys = [
        keys_of(make(rule, partition_by=partition), dict(zip("ab", values, strict=True)))
        for values, partition in ((first, one), (second, other))
    ]
    same = one == other and [text or None for text in first] == [text or None for text in second]
    assert (keys[0] == keys[1]) is same


@given(st.text(st.characters(exclude_categories=()), max_size=400), st.sampled_from(["user", "ip", "header.x", "team"]))
def test_no_value_breaks_out_of_the_tag(value, name):
    (key,) = keys_of(make(by(name), partition_by=name), {name: value})
    assert re.fullmatch(r"\{search\|[^{}]+\}[\w-]{5}:", key)
    assert key.isascii()
    assert key.isprintable()
    assert len(key) <= 200


def test_a_reset_finds_the_same_counters():
    ruleset = make(Rule("staff", action="skip", match={"staff": True}), by("user"), by("user", "team", name="both"))
    identifier = {"user": "1", "team": "2"}
    assert counter_keys(ruleset, identifier.get) == keys_of(ruleset, identifier)


def test_strangers_are_spread_by_their_addresses():
    ruleset = make(by("user"))
    keys = [keys_of(ruleset, {"user": "<anonymous>", "ip": ip})[0] for ip in ("192.0.2.1", "192.0.2.2")]
    assert keys[0] != keys[1]
    assert keys[0].startswith("{search|<anonymous>192.0.2.1}")


@pytest.mark.parametrize(
    ("partition_by", "words"),
    [("team", "rule 'r' does not count by 'team'"), ("user|shout", "unknown filter"), (7, "must be a string")],
)
def test_a_partition_that_a_rule_lacks_or_that_is_no_property_is_refused_on_its_field(partition_by, words):
    with pytest.raises(InvalidRule, match=re.escape(words)) as refused:
        make(by("user"), partition_by=partition_by)
    assert refused.value.field == "partition_by"


def test_rules_that_do_not_count_need_not_count_by_it_and_its_spelling_is_free():
    ruleset = make(Rule("staff", action="skip"), by("header.x-team"), partition_by="Header.X_Team")
    assert ruleset.partition_by == "header.x-team"
