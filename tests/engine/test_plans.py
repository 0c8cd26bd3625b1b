"""Plans and counter keys: which calls share a counter, and which never do."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules import Rule
from django_ratelimit_rules.engine import KeyWriter, Mode, Ruleset, counter_keys, plan
from django_ratelimit_rules.exceptions import CallableFailed

KEYS = KeyWriter(b"secret")
texts = st.text(st.characters(exclude_categories=()), max_size=130) | st.none()


def make(*rules, mode=Mode.ENFORCE) -> Ruleset:
    return Ruleset("search", rules, mode=mode, keys=KEYS)


def limit(name="r", **options) -> Rule:
    return Rule(name, **({"limit": 5, "period": 60, "characteristics": ["user"]} | options))


def key(characteristics, identifier) -> str:
    return plan(make(limit(characteristics=characteristics)), identifier.get).hits[0].key


def test_no_property_is_read_after_a_skip_that_matches():
    # Report 31.
    asked = []

    def value_of(name):
        asked.append(name)
        return "/health"

    made = plan(make(Rule("health", action="skip", match={"path": "/health"}), limit()), value_of)
    assert made.skip is not None
    assert made.skip.name == "health"
    assert asked == ["path"]


@given(st.tuples(texts, texts), st.tuples(texts, texts))
def test_two_value_lists_share_a_key_only_when_they_are_the_same(first, second):
    names = ["a", "b"]
    same = [text or None for text in first] == [text or None for text in second]
    keys = [key(names, dict(zip(names, values, strict=True))) for values in (first, second)]
    assert (keys[0] == keys[1]) is same


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=400), min_size=1, max_size=5), st.booleans())
def test_keys_are_short_ascii_and_leave_the_hash_tag_alone(values, client_written):
    names = [f"{'header.' if client_written else ''}p{number}" for number in range(len(values))]
    text = key(names, dict(zip(names, values, strict=True)))
    assert text.isascii()
    assert text.isprintable()
    assert len(text) <= 256
    assert re.match(r"\{search\}[\w-]{5}:", text)
    assert text.count("{") == text.count("}") == 1


def test_a_client_written_value_enters_the_key_only_as_a_digest():
    for name in ("header.x", "cookie.x", "query.x", "post.x", "json.x", "post.email|lower"):
        assert "hunter2" not in key([name], {name: "hunter2"})
    assert "hunter2" in key(["user"], {"user": "hunter2"})


def test_without_the_secret_the_digest_is_another():
    assert KEYS.digest(b"x") != KeyWriter(b"other").digest(b"x")


def test_an_anonymous_user_counts_by_address_apart_from_all_others():
    anonymous = key(["user"], {"user": "<anonymous>", "ip": "203.0.113.1"})
    others = [
        key(["user"], {"user": "<anonymous>", "ip": "203.0.113.2"}),
        key(["user"], {"user": "<anonymous>203.0.113.1"}),
        key(["user"], {"user": "<anonymous>"}),
        key(["user"], {"user": "203.0.113.1"}),
        key(["ip"], {"ip": "203.0.113.1"}),
    ]
    assert len({anonymous, *others}) == 6


def test_a_narrower_ipv6_prefix_counts_narrower():
    addresses = [{"ip": "2001:db8::1"}, {"ip": "2001:db8::2"}]
    for bits, different in ((64, 1), (128, 2)):
        ruleset = Ruleset("search", (limit(characteristics=["ip"]),), keys=KeyWriter(b"", bits))
        assert len({plan(ruleset, a.get).hits[0].key for a in addresses}) == different


def test_reset_reaches_counters_after_a_skip_and_distinct_ones_without_their_value():
    ruleset = make(Rule("staff", action="skip"), limit("behind"), limit("projects", count_distinct="project"))
    assert len(counter_keys(ruleset, {"user": "42"}.get)) == 2


def test_a_dry_run_enforces_nothing():
    assert not plan(make(limit(), mode=Mode.DRY_RUN), {}.get).hits[0].enforced


def test_callables_are_resolved_at_each_check_with_the_context_if_they_want_it():
    ruleset = make(limit(limit=lambda: 7, period=lambda context: context["period"]))
    hit = plan(ruleset, {}.get, {"period": "2m"}).hits[0]
    assert (hit.limit, hit.period) == (7, 120)
    hit = plan(make(limit(limit=lambda context=None: 9 if context is None else 0)), {}.get, "given").hits[0]
    assert hit.limit == 9


@pytest.mark.parametrize("bad", [lambda: 1 / 0, lambda: -1, lambda: "5", lambda: None, lambda: True])
def test_a_callable_that_fails_or_answers_nonsense_is_one_kind_of_error(bad):
    with pytest.raises(CallableFailed, match="limit of rule 'r'"):
        plan(make(limit(limit=bad)), {}.get)
