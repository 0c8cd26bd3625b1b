"""The index finds the same rules as a trial of each rule, and reads no other property."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules import Rule
from django_ratelimit_rules.engine import Ruleset, plan
from django_ratelimit_rules.engine.candidates import FEWEST

words = st.sampled_from(["", "a", "b", "ab", "/a/b", "é", "\udcff", "1", "0"])
addresses = st.sampled_from(["10.1.2.3", "10.2.0.1", "192.0.2.1", "::ffff:10.1.2.3", "2001:db8::7", "10.1.2.3:80"])
networks = st.sampled_from(
    ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "0.0.0.0/0", "2001:db8::/32", "::ffff:10.0.0.0/104"]
)
scalars = words | st.sampled_from([True, False, 1, None])
conditions = st.recursive(
    scalars
    | st.lists(scalars, max_size=3)
    | words.map(lambda text: {"prefix": text})
    | st.lists(words, max_size=3).map(lambda texts: {"suffix": texts})
    | st.sampled_from([{"glob": "/*/b"}, {"glob": "**"}, {"regex": "a|b"}, {"regex": "^a"}, {"regex": ""}])
    | st.lists(networks, max_size=3).map(lambda several: {"cidr": several})
    | st.sampled_from([{"exists": True}, {"gt": 0}, {"cidr": "::/0"}, {"prefix": "a", "suffix": "b"}]),
    lambda inner: inner.map(lambda condition: {"not": condition}),
    max_leaves=3,
)
objects = st.dictionaries(st.sampled_from(["p", "q", "path"]), conditions, max_size=3)
matches = objects | st.lists(objects, min_size=1, max_size=3)
identifiers = st.dictionaries(st.sampled_from(["p", "q", "path"]), words | addresses)


@given(st.lists(matches, min_size=FEWEST, max_size=3 * FEWEST), identifiers)
def test_the_rules_found_are_those_that_match_in_order(found_by, identifier):
    rules = [Rule(f"r{number}", match=match, limit=1, period=60) for number, match in enumerate(found_by)]
    planned = plan(Ruleset("search", tuple(rules)), identifier.get)
    assert [hit.rule for hit in planned.hits] == [rule for rule in rules if rule.matcher.holds(identifier.get)]


def test_a_property_after_a_skip_is_not_read_in_a_ruleset_of_any_length():
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


def test_a_rule_whose_networks_lie_in_each_other_is_found_once_among_thousands():
    rules = [
        Rule(f"r{n}", match={"ip": {"cidr": f"10.{n // 250}.{n % 250}.0/24"}}, limit=1, period=60) for n in range(2000)
    ]
    rules[7] = Rule("r7", match={"ip": {"cidr": ["10.0.7.0/24", "10.0.7.8/29", "10.0.7.9"]}}, limit=1, period=60)
    planned = plan(Ruleset("search", tuple(rules)), {"ip": "10.0.7.9"}.get)
    assert [hit.rule.name for hit in planned.hits] == ["r7"]
