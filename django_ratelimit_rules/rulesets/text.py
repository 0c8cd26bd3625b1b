"""Converts the admin tier to YAML and back. The YAML is canonical, so it can be kept, compared, reviewed and applied.

Rows, or rules that :mod:`.file` read, become a :data:`Plain` ruleset. It holds only values that differ from the
defaults, in a fixed order, and durations as ``1m``. :func:`dump` writes it as YAML that :mod:`.file` reads. The same
rules always give the same bytes. A row that is not a valid rule is written unchanged, and reading that YAML fails.
Permissions and versions are not known here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import QuerySet

from .. import engine
from ..engine.durations import format_duration
from ..engine.fields import SPECS, FieldSpec, Kind
from ..engine.messages import _
from ..exceptions import UNREADABLE, InvalidRule, InvalidRulesFile
from ..models import (
    Rule,
    Ruleset,
    as_stored,
    is_storable,
    made_of,
)
from ..runtime import reset
from . import rows as rule_rows
from . import yaml_writer
from .file import read, read_text
from .tiers import TierRules, tier_rules

# One ruleset as the YAML has it: description, mode, failure_mode, partition_by, rules. JSON values only, no defaults.
Plain = dict[str, Any]
Rulesets = Mapping[str, Plain]

RULESET_FIELDS = ("description", "mode", "failure_mode", "partition_by")
POSITION_STEP = 10
# Deeper values, which only an unreadable row can hold, are written as a string.
MAX_DEPTH = 40
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)


class Text(NamedTuple):
    """The columns of one ruleset's rows, and the same ruleset as YAML."""

    rows: list[rule_rows.Columns]
    name: str
    text: str


class Texts(reset.Part):
    """The latest YAML of each ruleset, by primary key. The mapping is replaced as a whole, because threads read it."""

    def __init__(self) -> None:
        self.by_key: dict[int, Text] = {}

    def forget(self) -> None:
        """Forget the YAML, because a test's database is rolled back without a signal."""
        self.by_key = {}

    def remembers(self) -> bool:
        """Return whether any YAML is kept."""
        return bool(self.by_key)


texts = reset.register("rulesets.text", Texts())


def stored(names: Iterable[str] | None = None) -> dict[str, Plain]:
    """Return the admin tier, or only the named rulesets, by name in alphabetical order."""
    return {row.name: of_row(row) for row in rows(names)}


def rows(names: Iterable[str] | None = None) -> QuerySet[Ruleset]:
    """Return the rulesets of the admin tier, or only the named rulesets, in alphabetical order and with their rules."""
    rulesets = Ruleset.objects.using(router.db_for_write(Ruleset)).order_by("name").prefetch_related("rules")
    return rulesets if names is None else rulesets.filter(name__in=list(names))


class PlainForms:
    """Plain forms of rules during one save. A rule that is the same before and after the save is converted once."""

    def __init__(self) -> None:
        self._made: dict[str, Plain] = {}

    def rule(self, fields: Mapping[str, Any]) -> Plain:
        """Return the same as :func:`rule_of_fields`. Results are shared, so do not change them."""
        try:
            key = canonical(fields)
        except (TypeError, ValueError, RecursionError):
            # Only an unreadable row holds values that JSON cannot express.
            return rule_of_fields(fields)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = rule_of_fields(fields)
        return made

    def of_row(self, ruleset: Ruleset) -> Plain:
        """Return the same as :func:`of_row`."""
        return _plain(ruleset, [self.rule(rule.engine_fields()) for rule in ruleset.rules.all()])


def of_row(ruleset: Ruleset, rules: Iterable[Rule] | None = None) -> Plain:
    """Return a ruleset of the database in its plain form. ``rules`` replace the stored rules."""
    return _plain(ruleset, [rule_of_row(rule) for rule in (ruleset.rules.all() if rules is None else rules)])


def of_tier(tier: TierRules) -> Plain:
    """Return the plain form of one tier's rules for a limiter."""
    return _plain(tier, [rule_of(rule) for rule in tier.rules])


def rule_of_row(row: Rule) -> Plain:
    """Return one rule of the database, normalised if it is valid."""
    return rule_of_fields(row.engine_fields())


def rule_of_fields(fields: Mapping[str, Any]) -> Plain:
    """Return the same as :func:`rule_of_row`, from the result of :meth:`Rule.engine_fields`."""
    try:
        return rule_of(made_of(fields))
    except UNREADABLE:
        return {name: _as_json(value) for name, value in _rule(fields).items()}


def rule_of(rule: engine.Rule) -> Plain:
    """Return one rule of any tier. A limit or period that code computes is written as ``computed``."""
    return _rule({name: getattr(rule, name) for name in SPECS})


def same(left: Any, right: Any) -> bool:
    """Return whether two plain values are the same. Unlike Python, conditions distinguish 1, 1.0 and True."""
    return left is right or canonical(left) == canonical(right)


def canonical(value: Any) -> str:
    """Return a plain value as JSON with sorted keys. Equal strings mean equal values."""
    return _JSON.encode(value)


def stored_text() -> str:
    """Return the whole admin tier as YAML. Rulesets with unchanged rows are not converted again."""
    current = rule_rows.rows_of(router.db_for_write(Ruleset))
    known = rule_rows.unchanged(texts.by_key, current)
    changed = rows().filter(pk__in=current.keys() - known.keys())
    made = {row.pk: Text(current[row.pk], row.name, dump({row.name: of_row(row)})) for row in changed}
    texts.by_key = by_key = {**known, **made}
    return yaml_writer.join(entry.text for entry in sorted(by_key.values(), key=lambda entry: entry.name))


def dump(rulesets: Rulesets) -> str:
    """Return rulesets as YAML, in alphabetical order."""
    return yaml_writer.write({name: in_order(rulesets[name]) for name in sorted(rulesets)})


def in_order(ruleset: Plain) -> Plain:
    """Return a plain ruleset with its fields in the documented order, because PostgreSQL does not keep the order."""
    ordered = _in_order(ruleset, (*RULESET_FIELDS, "rules"))
    if isinstance(ordered.get("rules"), list):
        ordered["rules"] = [_in_order(rule, SPECS) for rule in ordered["rules"]]
    return ordered


def _in_order(fields: Plain, order: Iterable[str]) -> Plain:
    known = {name: fields[name] for name in order if name in fields}
    return known if len(known) == len(fields) else known | fields


def load(text: str, name: str) -> dict[str, TierRules]:
    """Read YAML or JSON that is to be written to the database. ``name`` is the path in errors.

    Raises InvalidRulesFile.
    """
    return _storable(read_text(text, name, check), name)


def read_plain(rulesets: Rulesets, name: str) -> dict[str, TierRules]:
    """Read plain rulesets, as :func:`load` does for strings. Line numbers in errors are lines of :func:`dump`."""
    try:
        return _storable({limiter: _tier(ruleset) for limiter, ruleset in rulesets.items()}, name)
    except UNREADABLE:
        return load(dump(rulesets), name)


def _tier(ruleset: Plain) -> TierRules:
    fields = {name: ruleset[name] for name in RULESET_FIELDS if name in ruleset}
    if ruleset.keys() - fields.keys() - {"rules"} or not all(isinstance(value, str) for value in fields.values()):
        raise TypeError("not a plain ruleset")
    rules = [engine.as_rule(rule) for rule in ruleset.get("rules", ())]
    engine.check_unique_names(rules)
    for rule in rules:
        check(rule)
    return tier_rules(rules, **fields)


def load_file(path: str | Path) -> dict[str, TierRules]:
    """Read a file that is to be written to the database. Raises InvalidRulesFile."""
    return _storable(read(path, check), str(path))


def check(rule: engine.Rule) -> None:
    """Reject a rule that the admin would reject as well. Raises InvalidRule."""
    row = Rule(**columns(rule))
    for field, reason in row.problems().items():
        raise InvalidRule(field, reason, rule=rule.name)
    try:
        row.clean_fields(exclude=["ruleset"])
    except ValidationError as error:
        field, reasons = next(iter(error.message_dict.items()))
        raise InvalidRule(field, reasons[0], rule=rule.name) from error


def columns(rule: engine.Rule) -> dict[str, Any]:
    """Return the values of a row's fields for this rule."""
    return {name: _column(spec.kind, getattr(rule, name)) for name, spec in SPECS.items()}


def _column(kind: Kind, value: Any) -> Any:
    if kind is Kind.CHOICE:
        return value.value
    if kind is Kind.PROPERTIES:
        return list(value)
    if kind is Kind.PROPERTY:
        return value or ""
    return as_stored(value) if kind is Kind.MOMENT and value is not None else value


def write(rulesets: Mapping[str, TierRules]) -> None:
    """Write these rulesets to the database. Rules keep their rows and counters, because names identify them."""
    database = router.db_for_write(Ruleset)
    for name, tier in rulesets.items():
        ruleset, _created = Ruleset.objects.using(database).update_or_create(
            name=name,
            defaults={
                "description": tier.description,
                "mode": tier.mode.value if tier.mode else "",
                "failure_mode": tier.failure_mode.value if tier.failure_mode else "",
                "partition_by": tier.partition_by or "",
            },
        )
        _write_rules(ruleset, tier.rules, database)


def _write_rules(ruleset: Ruleset, rules: Iterable[engine.Rule], database: str) -> None:
    present = {row.name: row for row in Rule.objects.using(database).filter(ruleset=ruleset)}
    wanted = {rule.name: rule for rule in rules}
    Rule.objects.using(database).filter(ruleset=ruleset).exclude(name__in=list(wanted)).delete()
    for number, rule in enumerate(wanted.values(), start=1):
        row = present.get(rule.name) or Rule(ruleset=ruleset)
        position = number * POSITION_STEP
        if row.pk is None or row.position != position or not same(rule_of_row(row), rule_of(rule)):
            for name, value in {**columns(rule), "position": position}.items():
                setattr(row, name, value)
            row.save(using=database)


def _storable(rulesets: dict[str, TierRules], name: str) -> dict[str, TierRules]:
    for limiter, tier in rulesets.items():
        if not is_storable(tier.description):
            raise InvalidRulesFile(
                _(
                    "%(place)s: limiter %(limiter)r: description: the database cannot store NUL or a lone surrogate",
                    place=name,
                    limiter=limiter,
                )
            )
    return rulesets


def _plain(ruleset: Ruleset | TierRules, rules: list[Plain]) -> Plain:
    own = {name: _lines(str(getattr(ruleset, name) or "")) for name in RULESET_FIELDS}
    return {name: value for name, value in {**own, "rules": rules}.items() if value}


def _rule(fields: Mapping[str, Any]) -> Plain:
    plain: Plain = {"name": fields["name"]}
    for name, spec in SPECS.items():
        value = fields[name]
        # Skip the conversion for defaults, because most fields of most rules have their default.
        if value is not spec.default and name != "name":
            value = _value(spec, value)
            if value != plain_default(name):
                plain[name] = value
    return plain


def plain_default(name: str) -> Any:
    """Return the plain value of a field that a rule does not state. Fields of rulesets have no such value."""
    spec = SPECS.get(name)
    return None if spec is None else _value(spec, spec.default)


def _value(spec: FieldSpec, value: Any) -> Any:
    if type(value) is str:
        return _lines(value) if spec.kind is Kind.NOTE else value
    if spec.kind is Kind.DURATION and isinstance(value, int) and value > 0:
        return format_duration(value)
    if callable(value):
        return "computed"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, str):
        # An action or an algorithm.
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    return value


def _as_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a value of an unreadable row, as JSON text where JSON or YAML cannot express it."""
    return value if _is_json(value, depth) else json.dumps(value, default=str)


def _is_json(value: Any, depth: int) -> bool:
    if value is None or isinstance(value, (str, int)):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if depth == 0:
        return False
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_json(inner, depth - 1) for key, inner in value.items())
    return isinstance(value, list) and all(_is_json(inner, depth - 1) for inner in value)


def _lines(text: str) -> str:
    """Return a string with the line ends that it had before a browser posted it."""
    return text.replace("\r\n", "\n")
