"""Strategies for hostile input: rules, files, identifiers, bodies."""

from __future__ import annotations

from hypothesis import strategies as st

from django_ratelimit_rules.engine.fields import SPECS

OPERATORS = ("eq", "in", "oneOf", "prefix", "suffix", "glob", "regex", "re", "cidr", "gt", "lte", "exists", "not")
PROPERTIES = ("ip", "user", "path", "header.X-A", "json.a.b", "post.a|lower", "kwarg.pk", "query.", "|", "a|nope")
WORDS = ("limit", "log", "skip", "block", "allow", "1m", "fixed_window", "token_bucket", "enforce", "off", "a" * 300)
PATTERNS = (
    "(a+)+$",
    "*",
    "(?P<x>",
    "[[:alpha:]]{1000}",
    "\\C",
    "(?i)" * 50,
    "a{0,9999}",
    "**/*?",
    "\\pN\x00",
    "\ud800",
)

# All characters of a string, including lone surrogates, which no encoding supports.
anything = st.text(st.characters(exclude_categories=()), max_size=60)
texts = st.one_of(anything, st.sampled_from([*WORDS, *PATTERNS, *PROPERTIES, "10.0.0.0/8", "::1", "é", "\0", "null"]))
numbers = st.one_of(
    st.integers(-(10**20), 10**20), st.floats(), st.sampled_from([0, 1, 60, 10**12, 10**12 + 1, 2**63, 1e308])
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
names = st.one_of(st.sampled_from([*OPERATORS, *PROPERTIES, *SPECS]), texts)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
conditions = st.one_of(
    scalars,
    st.lists(scalars, max_size=4),
    st.dictionaries(st.sampled_from(OPERATORS), st.one_of(texts, scalars, st.lists(texts, max_size=3)), max_size=3),
    json_values,
)
matches = st.one_of(st.dictionaries(st.sampled_from(PROPERTIES[:7]), conditions, max_size=4), json_values)
rules = st.fixed_dictionaries(
    {"name": st.one_of(st.sampled_from(["r", "per_user"]), scalars)},
    optional={
        "action": st.sampled_from(WORDS) | scalars,
        "match": matches,
        "characteristics": st.lists(st.sampled_from(PROPERTIES), max_size=4) | json_values,
        "limit": numbers | scalars,
        "period": st.sampled_from(WORDS) | numbers | scalars,
        "algorithm": st.sampled_from(WORDS) | scalars,
        "count_distinct": st.sampled_from(PROPERTIES) | scalars,
        "ban_for": st.sampled_from(WORDS) | numbers,
        "response": matches,
        "warn_at": numbers | scalars,
        "enabled": scalars,
        "expires_at": scalars,
        "description": scalars,
    },
)
# Values of many types that code may pass.
values = st.one_of(scalars, st.binary(max_size=40), st.decimals(), st.complex_numbers(), st.uuids(), st.timedeltas())
identifiers = st.dictionaries(st.sampled_from(PROPERTIES[:7]) | anything, values, max_size=5)
