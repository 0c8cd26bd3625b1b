"""The index finds exactly what trying each rule would find, and asks for no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules import Rule
from django_ratelimit_rules.engine import Ruleset, plan
from django_ratelimit_rules.engine.candidates import FEWEST

words = st.sampled_from(["", "a", "b", "ab", "/a/b", "é", "\udcff", "1", "0"])
scalars = words | st.sampled_from([True, False, 1, None])
conditions = st.recursive(
    scalars
    | st.lists(scalars, max_size=3)
    | words.map(lambda text: {"prefix": text})
    | st.lists(words, max_size=3).map(lambda texts: {"suffix": texts})
    | st.sampled_from([{"glob": "/*/b"}, {"glob": "**"}, {"regex": "a|b"}, {"regex": "^a"}, {"regex": ""}])
    | st.sampled_from([{"exists": True}, {"gt": 0}, {"cidr": "::/0"}, {"prefix": "a", "suffix": "b"}]),
    lambda inner: inner.map(lambda condition: {"not": condition}),
    max_leaves=3,
)
objects = st.dictionaries(st.sampled_from(["p", "q", "r"]), conditions, max_size=3)
matches = objects | st.lists(objects, min_size=1, max_size=3)
identifiers = st.dictionaries(st.sampled_from(["p", "q", "r"]), words)


@given(st.lists(matches, min_size=FEWEST, max_size=3 * FEWEST), identifiers)
def test_the_rules_found_are_those_that_match_in_order(found_by, identifier):
    rules = [Rule(f"r{number}", match=match, limit=1, period=60) for number, match in enumerate(found_by)]
    planned = plan(Ruleset("search", tuple(rules)), identifier.get)
    assert [hit.rule for hit in planned.hits] == [rule for rule in rules if rule.matcher.holds(identifier.get)]


def test_a_property_behind_a_skip_is_not_asked_for_however_long_the_ruleset():
    rules = [Rule("health", action="skip", match={"path": "/health"})]
    rules += [Rule(f"r{n}", match={"user": n, "path": "/x"}, limit=1, period=60) for n in range(3 * FEWEST)]
    asked = []

    def value_of(name):
        asked.append(name)
        return "/health"

    assert plan(Ruleset("search", tuple(rules)), value_of).skip is rules[0]
    assert set(asked) == {"path"}


def test_thousands_of_patterns_of_one_property_are_found():
    rules = [Rule(f"r{n}", match={"path": {"regex": f"^/p{n}/[a-z]+$"}}, limit=1, period=60) for n in range(2000)]
    planned = plan(Ruleset("search", tuple(rules)), {"path": "/p1234/abc"}.get)
    assert [hit.rule.name for hit in planned.hits] == ["r1234"]
