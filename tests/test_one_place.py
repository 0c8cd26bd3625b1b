"""A new rule field, operator or property needs only one row and its own code to work in all rooms."""

from __future__ import annotations

import ast
import io
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.test import RequestFactory

from django_ratelimit_rules import Limiter, engine
from django_ratelimit_rules.admin.ruleset_form.fields import FORM_FIELDS, DurationField, form_field
from django_ratelimit_rules.admin.ruleset_form.formset import RuleForm, RulesFormSet
from django_ratelimit_rules.engine import lint, matching
from django_ratelimit_rules.engine.fields import (
    COUNTING,
    SPECS,
    FieldSpec,
    Kind,
    Requirement,
    Section,
    lines_of,
)
from django_ratelimit_rules.engine.matching import OPERATORS, Operand, Operator
from django_ratelimit_rules.engine.properties import PROPERTIES, Property, facts_of
from django_ratelimit_rules.engine.rules import CHECKS
from django_ratelimit_rules.exceptions import InvalidRule
from django_ratelimit_rules.http.published_limits import public_limits
from django_ratelimit_rules.identifiers import build, builtin, find
from django_ratelimit_rules.models import Rule as Row
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.monitoring import recording
from django_ratelimit_rules.replay.traffic.access_log import AccessLog
from django_ratelimit_rules.rulesets import diff, text
from django_ratelimit_rules.rulesets.file import read_text
from django_ratelimit_rules.testing import override_ruleset

COOL_DOWN = FieldSpec(
    "cool_down",
    Kind.DURATION,
    actions=COUNTING,
    requirements=(Requirement("count_distinct", lambda: (None,), "does not go with count_distinct"),),
    phrase="%(rule)s, then cool down for %(value)s",
    help_text="How long it cools down.",
)


@dataclass(frozen=True, slots=True)
class WithCoolDown(engine.Rule):
    """The attribute of the field in the engine's rule."""

    cool_down: int | None = None


@pytest.fixture
def cool_down(monkeypatch):
    """A rule field of a kind that exists: its row, its attribute, its column."""
    monkeypatch.setitem(SPECS, "cool_down", COOL_DOWN)
    monkeypatch.setattr(engine, "Rule", WithCoolDown)
    monkeypatch.setattr(engine.rules, "Rule", WithCoolDown)
    # The column, without its migration.
    monkeypatch.setattr(Row, "cool_down", None, raising=False)
    return COOL_DOWN


COUNTS: dict[str, Any] = {"limit": 3, "period": "1m"}


def test_a_new_rule_field_is_checked(cool_down):
    assert engine.as_rule({"name": "a", "cool_down": "5m", **COUNTS}).cool_down == 300
    with pytest.raises(InvalidRule, match=r"cool_down: .*not a duration"):
        engine.as_rule({"name": "a", "cool_down": "soon", **COUNTS})
    with pytest.raises(InvalidRule, match="a skip rule counts nothing and takes no cool_down"):
        engine.as_rule({"name": "a", "action": "skip", "cool_down": "5m"})
    with pytest.raises(InvalidRule, match="cool_down: does not go with count_distinct"):
        engine.as_rule({"name": "a", "cool_down": "5m", "count_distinct": "path", **COUNTS})


def test_a_new_rule_field_is_in_the_sentence_the_yaml_and_the_differences(cool_down):
    rule = engine.as_rule({"name": "a", "cool_down": "5m", **COUNTS})
    assert engine.sentence(rule).endswith(", then cool down for 5 min")
    plain = text.rule_of(rule)
    assert plain == {"name": "a", "limit": 3, "period": "1m", "cool_down": "5m"}
    written = text.dump({"search": {"rules": [plain]}})
    assert "cool_down: 5m" in written
    (read,) = read_text(written, "a file")["search"].rules
    assert read == rule
    longer = text.rule_of(rule.with_changes(cool_down="1h"))
    before, after = ({"search": {"rules": [rule]}} for rule in (plain, longer))
    assert "cool_down: 5m → 1h" in diff.as_text(diff.compare(before, after))


def test_a_new_rule_field_maps_to_and_from_its_column(cool_down):
    row = Row(name="a", limit=3, period=60)
    row.cool_down = 300
    assert row.to_engine().cool_down == 300
    assert text.columns(row.to_engine())["cool_down"] == 300
    row.cool_down = -1
    assert "cool_down" in row.problems()


def test_a_new_rule_field_is_in_the_form_and_is_hidden_where_it_is_unused(cool_down):
    made = form_field(cool_down)
    assert isinstance(made, DurationField)
    assert (made.label, made.help_text, made.required) == ("Cool down", "How long it cools down.", False)
    assert ("cool_down",) in lines_of(Section.RARE)
    (option,) = [option for option in RulesFormSet.options.fget(None) if option["name"] == "cool_down"]
    assert option == {
        "name": "cool_down",
        "neutral": "",
        "actions": COUNTING,
        "requirements": {"count_distinct": [""]},
    }


def test_the_engine_s_rule_has_the_fields_and_defaults_of_the_specifications():
    declared = {field.name: field for field in fields(engine.Rule) if field.init}
    assert list(declared) == list(SPECS)
    rule = engine.Rule("a", action="log", **COUNTS)
    stated = ("name", "action", "limit", "period")
    assert {name: getattr(rule, name) for name in SPECS if name not in stated} == {
        name: spec.default for name, spec in SPECS.items() if name not in stated
    }


def test_the_columns_agree_with_the_specifications():
    columns = {column.name: column for column in Row._meta.concrete_fields}
    assert set(columns) - {"id", "ruleset", "position"} == set(SPECS)
    row = Row()
    fresh = row.engine_fields()
    for name, spec in SPECS.items():
        default = list(spec.default) if spec.kind is Kind.PROPERTIES else spec.default
        assert fresh[name] == default, name
        assert columns[name].null == (spec.default is None and spec.kind is not Kind.PROPERTY), name


def test_each_kind_has_a_check_and_each_field_one_place_in_the_form():
    assert set(CHECKS) == set(Kind)
    assert set(FORM_FIELDS) <= set(Kind)
    shown = [name for section in Section for line in lines_of(section) for name in line]
    assert sorted(shown) == sorted(SPECS)
    assert set(RuleForm.base_fields) == {"position", *SPECS}
    for name, spec in SPECS.items():
        assert RuleForm.base_fields[name].help_text == spec.help_text
        assert RuleForm.base_fields[name].label == spec.title
        assert isinstance(RuleForm.base_fields[name], forms.Field)


def test_a_field_s_requirements_name_fields_whose_inputs_the_form_has():
    needed = {name for spec in SPECS.values() for name, _, _ in spec.requirements}
    assert needed <= set(RuleForm.base_fields)


@pytest.fixture
def holds(monkeypatch):
    """An operator: its row, and the function that compiles an operand."""

    def make(operand: object) -> matching.Condition:
        if not isinstance(operand, str):
            raise TypeError("holds takes a string")
        return lambda value: value is not None and operand in value

    phrases = ("%(property)s holds %(value)s", "%(property)s does not hold %(value)s")
    row = Operator("holds", make, phrases, ("holds", "does not hold"), aliases=("has",))
    monkeypatch.setitem(OPERATORS, "holds", row)
    return row


def test_a_new_operator_matches_and_is_in_the_sentence_and_the_builder(holds):
    rule = engine.Rule("a", match={"path": {"holds": "api"}, "host": {"not": {"has": "test"}}}, **COUNTS)
    assert rule.matcher.holds({"path": "/api/", "host": "example.org"}.get)
    assert not rule.matcher.holds({"path": "/api/", "host": "test.org"}.get)
    assert engine.sentence(rule).endswith("when path holds api and host does not hold test")
    with pytest.raises(InvalidRule, match="property 'path': holds takes a string"):
        engine.Rule("a", match={"path": {"holds": 3}}, **COUNTS)
    (row,) = [row for row in RulesFormSet.operators.fget(None) if row["name"] == "holds"]
    assert row["labels"] == ("holds", "does not hold")
    assert (row["operand"], row["aliases"]) == (Operand.TEXT, ("has",))


def test_each_operator_has_a_sentence_for_both_answers():
    operands = {"cidr": "10.0.0.0/8", "in": ["a"], "exists": True}
    for row in OPERATORS.values():
        operand = operands.get(row.name, 7 if row.operand is Operand.NUMBER else "a")
        for name in (row.name, *row.aliases):
            for condition, phrase in zip(({name: operand}, {"not": {name: operand}}), row.phrases, strict=True):
                rule = engine.Rule("a", match={"path": condition}, **COUNTS)
                value = "(a)" if operand == ["a"] else operand
                assert engine.sentence(rule).endswith(" when " + phrase % {"property": "path", "value": value})


@pytest.fixture
def scheme(monkeypatch):
    """A property: its row, and its reader."""
    row = Property(
        *("scheme", "Scheme of the URL", ("http", "https")),
        **{"cheap": True, "shared": True, "of_client": True, "recorded": True, "unlogged": "https"},
        public="URL scheme",
    )
    monkeypatch.setitem(PROPERTIES, "scheme", row)
    monkeypatch.setattr(builtin, "READERS", dict(builtin.READERS))
    builtin.reads("scheme")(lambda request: request.scheme)
    return row


def test_a_new_property_is_read_known_and_suggested(scheme):
    request = RequestFactory().get("/", secure=True)
    assert build(request).text("scheme|upper") == "HTTPS"
    assert find("scheme|upper") is scheme
    assert facts_of("scheme|upper").cheap
    suggested = RulesFormSet.vocabulary.fget(None)["match"]
    assert {"name": "scheme", "hint": scheme.description, "choices": scheme.choices} in suggested
    first = engine.Rule("a", match={"post.email": "a", "scheme": "https"}, **COUNTS).matcher.in_order[0][0]
    assert first[0] == "scheme"


def test_a_new_property_is_known_to_the_linter_recordings_and_access_logs(scheme):
    rule = engine.Rule("a", characteristics=["scheme"], **COUNTS)
    assert [finding.code for finding in lint.broad_alone([rule])] == ["broad_alone"]
    request = build(RequestFactory().get("/"))
    ruleset = engine.Ruleset("search", [])
    assert recording._texts(ruleset, request.text, request)["scheme"] == "http"
    source = AccessLog(io.BytesIO()).source("scheme")
    assert source is not None
    assert (source.column, source.fixed) == (None, "https")


def test_a_new_property_is_named_in_published_limits(scheme):
    with override_ruleset("search", [engine.Rule("a", characteristics=["scheme"], **COUNTS)]):
        (limit,) = public_limits(["search"])
        assert limit.sentence == "3 per minute per URL scheme"


@pytest.mark.django_db
def test_a_new_property_of_the_client_is_in_my_limits(scheme, client, django_user_model):
    from django_ratelimit_rules.http import my_limits

    user = django_user_model.objects.create_user("ann")
    request = RequestFactory().get("/")
    request.user = user
    rule = engine.Rule("a", characteristics=["user", "scheme"], match={"scheme": "http"}, **COUNTS)
    with override_ruleset("search", [rule]):
        Limiter("search").check({"user": user, "scheme": "http"})
        (limit,) = my_limits.of_user(request, ["search"])
        assert (limit.rule, limit.used) == ("a", 1)


@pytest.mark.django_db
def test_the_page_hands_operators_and_options_to_the_scripts_as_data(admin_client):
    ruleset = Ruleset.objects.create(name="search")
    page = admin_client.get(f"/admin/django_ratelimit_rules/ruleset/{ruleset.pk}/change/").content.decode()
    for name in ("ratelimit-operators", "ratelimit-options"):
        assert f'<script id="{name}" type="application/json">' in page


PACKAGE = Path(engine.__file__).parents[1]


def _names_in(path: Path) -> set[str]:
    """Return the identifiers and strings of a module, without its docstrings."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            names.add(node.value)
        names |= {getattr(node, name) for name in ("id", "attr", "arg") if isinstance(getattr(node, name, None), str)}
    return names


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("token_bucket", {"engine/algorithms.py"}),
        ("TOKEN_BUCKET", {"engine/algorithms.py", "counters/memory.py", "replay/fast_counters.py"}),
        ("warn_at", {"engine/fields.py", "engine/rules.py", "models.py", "engine/plans.py"}),
        ("lte", {"engine/matching.py"}),
        ("preflight", {"engine/properties.py", "identifiers/builtin.py"}),
        ("SuggestPage", {"admin/__init__.py", "admin/pages/suggest.py"}),
    ],
)
def test_an_algorithm_an_option_an_operator_a_property_and_a_page_are_named_where_the_guide_says(name, modules):
    paths = (path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)
    named = {str(path.relative_to(PACKAGE)) for path in paths if name in _names_in(path)}
    # The class of a page is defined in its module, where no expression names it.
    assert named | ({"admin/pages/suggest.py"} if name == "SuggestPage" else set()) == modules
