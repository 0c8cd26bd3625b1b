"""Reads rules from YAML or JSON, for the file tier and for imports into the admin.

A path or a string goes in, and the rules of each limiter come out. One error rejects the whole file:
:class:`InvalidRulesFile` then has path, line and reason. The file maps limiters to rulesets::

    search:
      mode: enforce
      rules:
        - {name: per_user, limit: 30, period: 1m, characteristics: [user]}

A ruleset that only has rules may be the list itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ..engine import (
    FailureMode,
    Mode,
    Rule,
    as_rule,
    check_unique_names,
)
from ..engine.messages import _, message_of, ngettext
from ..engine.rules import check_name
from ..exceptions import InvalidRule, InvalidRulesFile
from .tiers import TierRules, tier_rules

Stamp = tuple[int, int, int]
FIELDS = ("description", "mode", "failure_mode", "partition_by", "rules")
MAX_BYTES = 10_000_000
# Conditions nest at most 16 deep. PyYAML takes minutes for thousands of nested values.
MAX_DEPTH = 50
TOO_DEEP = ngettext("nested more than %(number)s level deep", "nested more than %(number)s levels deep", MAX_DEPTH)
# Values that YAML turns into a boolean or number that the author does not mean, by tag: the country NO, and 010.
SURPRISING = {
    "tag:yaml.org,2002:bool": re.compile(r"Yes|YES|No|NO|On|ON"),
    "tag:yaml.org,2002:int": re.compile(r"[-+]?0[0-7_]+|.*:.*"),
}


def stamp_of(path: str | os.PathLike[str]) -> Stamp | None:
    """Return a value that changes when the file changes or is replaced by a rename. Returns None without a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


Check = Callable[[Rule], None]


def read(path: str | os.PathLike[str], check: Check | None = None) -> dict[str, TierRules]:
    """Return the rules of a file, by limiter. Raises InvalidRulesFile, also when ``check`` raises InvalidRule."""
    source = Path(path)
    try:
        text = source.read_text("utf-8") if source.stat().st_size <= MAX_BYTES else None
    except (OSError, ValueError) as error:
        raise invalid(source, _("the file cannot be read: %(error)s", error=str(error))) from error
    if text is None:
        raise invalid(
            source,
            ngettext("the file is larger than %(number)s byte", "the file is larger than %(number)s bytes", MAX_BYTES),
        )
    return read_text(text, source, check)


def read_text(text: str, name: str | Path, check: Check | None = None) -> dict[str, TierRules]:
    """Return the rules of a string, as :func:`read` does for a file.

    ``name`` is the path in errors. The string must be JSON if the name ends in ``.json``, and YAML otherwise.
    """
    return RulesFile(Path(name), text, check).read()


def invalid(place: object, reason: str) -> InvalidRulesFile:
    """Return the error for a path, or a path with a line."""
    return InvalidRulesFile(_("%(place)s: %(reason)s", place=place, reason=reason))


class ShallowLoader(yaml.SafeLoader):
    """PyYAML's loader, which rejects deeply nested values as soon as it reaches them."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node. Raises MarkedYAMLError if it is nested too deeply."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=TOO_DEEP, problem_mark=mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class RulesFile:
    """One reading of a file. It knows the line of every value, for its errors."""

    def __init__(self, path: Path, text: str, check: Check | None = None) -> None:
        self.path = path
        self.text = text
        self.check = check

    def read(self) -> dict[str, TierRules]:
        """Return the rules of the file, by limiter."""
        root = self._compose()
        if root is None:
            return {}
        content = self._construct(root)
        if not isinstance(content, dict):
            raise self._error(root, _("the file must map limiters to rulesets"))
        lines = dict(zip(content, root.value, strict=True))
        return {name: self._ruleset(name, fields, *lines[name]) for name, fields in content.items()}

    def _ruleset(self, name: object, fields: object, name_node: yaml.Node, node: yaml.Node) -> TierRules:
        try:
            check_name(name, "limiter")
        except InvalidRule as error:
            raise self._error(name_node, message_of(error)) from error
        if isinstance(fields, list):
            return self._tier(node, fields, node, {})
        if not isinstance(fields, dict):
            reason = _(
                "limiter %(name)r must be a list of rules or an object with these fields: %(fields)s",
                name=name,
                fields=", ".join(FIELDS),
            )
            raise self._error(node, reason)
        nodes = dict(zip(fields, node.value, strict=True))
        for key in fields:
            if key not in FIELDS:
                reason = _(
                    "unknown field %(field)r: a ruleset has the fields %(fields)s", field=key, fields=", ".join(FIELDS)
                )
                raise self._error(nodes[key][0], reason)
        if fields.get("mode") is False:
            # YAML reads a bare off as False. A test of truthiness would take it for a missing mode, and enforce limits.
            fields = {**fields, "mode": Mode.OFF}
        rules = fields.get("rules") or []
        if not isinstance(rules, list):
            raise self._error(nodes["rules"][1], _("rules must be a list"))
        if not isinstance(fields.get("description") or "", str):
            raise self._error(nodes["description"][1], _("description must be a string"))
        for key, choices in (("mode", Mode), ("failure_mode", FailureMode)):
            self._check_choice(key, choices, fields, nodes)
        return self._tier(nodes["rules"][1] if rules else node, rules, node, fields)

    def _check_choice(
        self,
        key: str,
        choices: type[Mode | FailureMode],
        fields: Mapping[str, Any],
        nodes: Mapping[str, tuple[yaml.Node, yaml.Node]],
    ) -> None:
        value = fields.get(key)
        # Don't test truthiness: the author wrote a bare off or 0, and neither is a valid mode.
        if value in (None, ""):
            return
        try:
            choices(value)
        except ValueError as error:
            reason = _(
                "%(field)s: %(value)r is not one of %(choices)s", field=key, value=value, choices=", ".join(choices)
            )
            raise self._error(nodes[key][1], reason) from error

    def _tier(self, node: yaml.Node, rules: list[Any], whole: yaml.Node, fields: Mapping[str, Any]) -> TierRules:
        made: list[Rule] = []
        for rule, rule_node in zip(rules, node.value if rules else (), strict=True):
            try:
                made.append(as_rule(rule))
                check_unique_names(made)
                if self.check:
                    self.check(made[-1])
            except (TypeError, ValueError) as error:
                raise self._error(self._field_node(rule_node, error), message_of(error)) from error
        try:
            return tier_rules(made, **{name: fields[name] for name in FIELDS if name != "rules" and fields.get(name)})
        except InvalidRule as error:
            raise self._error(self._field_node(whole, error), message_of(error)) from error

    def _field_node(self, node: yaml.Node, error: Exception) -> yaml.Node:
        """Return the node of the field that an error is about. Otherwise returns the node of the rule or ruleset."""
        if isinstance(error, InvalidRule) and isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == error.field and isinstance(value, yaml.Node):
                    return value
        return node

    def _compose(self) -> yaml.Node | None:
        try:
            text = self.text
            if self._is_json():
                json.loads(text)
                # In JSON a tab can only be white space, and YAML rejects it there.
                text = text.replace("\t", " ")
            root: yaml.Node | None = yaml.compose(text, Loader=ShallowLoader)
        except json.JSONDecodeError as error:
            reason = _("this is not valid JSON: %(problem)s", problem=error.msg)
            raise invalid(f"{self.path}:{error.lineno}", reason) from error
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            reason = _("this is not valid YAML: %(problem)s", problem=error.problem)
            raise invalid(f"{self.path}:{line}", reason) from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise invalid(self.path, _("the file cannot be read: %(error)s", error=str(error))) from error
        return root

    def _construct(self, root: yaml.Node) -> Any:
        try:
            self._check(root, set())
            if self._is_json():
                return json.loads(self.text)
            loader = yaml.SafeLoader("")
            return loader.construct_document(root)
        except yaml.MarkedYAMLError as error:
            raise self._error(error.problem_mark or root, str(error.problem)) from error
        except InvalidRulesFile:
            raise
        except Exception as error:
            # PyYAML raises any exception for a value that does not fit its tag, for example ``!!bool x``.
            raise self._error(root, _("the file cannot be read: %(error)s", error=repr(error))) from error

    def _check(self, node: yaml.Node, seen: set[int]) -> None:
        """Reject input that YAML silently reads differently from its meaning, and aliases, which multiply.

        YAML keeps the last of duplicate keys, and reads some words and digits as other values.
        """
        if id(node) in seen:
            raise self._error(node, _("aliases (*name) are not supported: write the value out"))
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode) and node.tag in SURPRISING and SURPRISING[node.tag].fullmatch(node.value):
            meaning = yaml.SafeLoader("").construct_document(node)
            reason = _(
                "YAML reads %(value)s as %(meaning)s: write %(meaning)s, or %(value)r in quotes",
                value=node.value,
                meaning=meaning,
            )
            raise self._error(node, reason)
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._check(item, seen)
        elif isinstance(node, yaml.MappingNode):
            keys = set()
            for key, value in node.value:
                if (key.tag, key.value if isinstance(key.value, str) else id(key)) in keys:
                    raise self._error(key, _("%(key)r is written twice", key=key.value))
                keys.add((key.tag, key.value if isinstance(key.value, str) else id(key)))
                if key.tag == "tag:yaml.org,2002:merge":
                    raise self._error(key, _("merge keys (<<) are not supported: write the values out"))
                self._check(value, seen)

    def _error(self, node: Any, reason: str) -> InvalidRulesFile:
        mark = getattr(node, "start_mark", node)
        return invalid(f"{self.path}:{mark.line + 1}", reason)

    def _is_json(self) -> bool:
        return self.path.suffix.lower() == ".json"
