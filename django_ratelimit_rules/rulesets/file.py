"""Rules as text, YAML or JSON: the file tier, and what is imported into the admin.

A path or a text goes in; what it says of each limiter comes out, or InvalidRulesFile with path, line and reason: a
file with one fault is refused as a whole. The file maps limiters to rulesets::

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
from ..engine.rules import check_name
from ..exceptions import InvalidRule, InvalidRulesFile
from .tiers import TierRules, tier_rules

Stamp = tuple[int, int, int]
FIELDS = ("description", "mode", "failure_mode", "partition_by", "rules")
MAX_BYTES = 10_000_000
# Conditions nest no more than 16 deep; for what is nested by the thousand PyYAML takes minutes.
MAX_DEPTH = 50
# What nobody who writes it takes for a truth value or that number, by YAML's tag: the country NO, and 010.
SURPRISING = {
    "tag:yaml.org,2002:bool": re.compile(r"Yes|YES|No|NO|On|ON"),
    "tag:yaml.org,2002:int": re.compile(r"[-+]?0[0-7_]+|.*:.*"),
}


def stamp_of(path: str | os.PathLike[str]) -> Stamp | None:
    """Return what changes when a file does (it may be replaced by a rename), None when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


Check = Callable[[Rule], None]


def read(path: str | os.PathLike[str], check: Check | None = None) -> dict[str, TierRules]:
    """Return what a rules file says, by limiter. Raises InvalidRulesFile, also when ``check`` raises InvalidRule."""
    source = Path(path)
    try:
        text = source.read_text("utf-8") if source.stat().st_size <= MAX_BYTES else None
    except (OSError, ValueError) as error:
        raise InvalidRulesFile(f"{source}: cannot be read: {error}") from error
    if text is None:
        raise InvalidRulesFile(f"{source}: is larger than {MAX_BYTES:,} bytes")
    return read_text(text, source, check)


def read_text(text: str, name: str | Path, check: Check | None = None) -> dict[str, TierRules]:
    """As :func:`read`, of a text; ``name`` stands in errors, and is JSON when it ends in ``.json``."""
    return RulesFile(Path(name), text, check).read()


class ShallowLoader(yaml.SafeLoader):
    """PyYAML's loader, which refuses what is nested too deep as soon as it gets there."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=f"nested more than {MAX_DEPTH} deep", problem_mark=mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class RulesFile:
    """One reading of a file; knows the line of every value, for its errors."""

    def __init__(self, path: Path, text: str, check: Check | None = None) -> None:
        self.path = path
        self.text = text
        self.check = check

    def read(self) -> dict[str, TierRules]:
        """Return what the file says, by limiter."""
        root = self._compose()
        if root is None:
            return {}
        content = self._construct(root)
        if not isinstance(content, dict):
            raise self._error(root, "must map limiters to rulesets")
        lines = dict(zip(content, root.value, strict=True))
        return {name: self._ruleset(name, said, *lines[name]) for name, said in content.items()}

    def _ruleset(self, name: object, said: object, name_node: yaml.Node, node: yaml.Node) -> TierRules:
        try:
            check_name(name, "limiter")
        except InvalidRule as error:
            raise self._error(name_node, str(error)) from error
        if isinstance(said, list):
            return self._tier(node, said, node, {})
        if not isinstance(said, dict):
            raise self._error(node, f"limiter {name!r} must be a list of rules, or have {', '.join(FIELDS)}")
        nodes = dict(zip(said, node.value, strict=True))
        for key in said:
            if key not in FIELDS:
                raise self._error(nodes[key][0], f"unknown field {key!r}; a ruleset has {', '.join(FIELDS)}")
        if said.get("mode") is False:
            # YAML reads a bare off as false; taken for "not stated" it would leave the limits on.
            said = {**said, "mode": Mode.OFF}
        rules = said.get("rules") or []
        if not isinstance(rules, list):
            raise self._error(nodes["rules"][1], "rules must be a list")
        if not isinstance(said.get("description") or "", str):
            raise self._error(nodes["description"][1], "description must be a text")
        for key, words in (("mode", Mode), ("failure_mode", FailureMode)):
            try:
                # Not by what is true: a bare off or 0 says something, and is no mode.
                if said.get(key) not in (None, ""):
                    words(said[key])
            except ValueError as error:
                raise self._error(nodes[key][1], f"{key}: {error}") from error
        return self._tier(nodes["rules"][1] if rules else node, rules, node, said)

    def _tier(self, node: yaml.Node, rules: list[Any], whole: yaml.Node, said: Mapping[str, Any]) -> TierRules:
        made: list[Rule] = []
        for rule, rule_node in zip(rules, node.value if rules else (), strict=True):
            try:
                made.append(as_rule(rule))
                check_unique_names(made)
                if self.check:
                    self.check(made[-1])
            except (TypeError, ValueError) as error:
                raise self._error(self._field_node(rule_node, error), str(error)) from error
        try:
            return tier_rules(made, **{name: said[name] for name in FIELDS if name != "rules" and said.get(name)})
        except InvalidRule as error:
            raise self._error(self._field_node(whole, error), str(error)) from error

    def _field_node(self, node: yaml.Node, error: Exception) -> yaml.Node:
        """Return where the field that an error is about stands, else the rule or ruleset."""
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
                # In JSON a tab can only be white space, where YAML does not want it.
                text = text.replace("\t", " ")
            root: yaml.Node | None = yaml.compose(text, Loader=ShallowLoader)
        except json.JSONDecodeError as error:
            raise InvalidRulesFile(f"{self.path}:{error.lineno}: is not valid JSON: {error.msg}") from error
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise InvalidRulesFile(f"{self.path}:{line}: is not valid YAML: {error.problem}") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise InvalidRulesFile(f"{self.path}: cannot be read: {error}") from error
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
            # PyYAML lets out whatever goes wrong in reading a value whose tag does not fit it, such as ``!!bool x``.
            raise self._error(root, f"cannot be read: {error!r}") from error

    def _check(self, node: yaml.Node, seen: set[int]) -> None:
        """Refuse what YAML quietly reads in another way than is meant: keys written twice, of which it keeps the last,
        words and digits that it takes for something else. Refuse aliases, which multiply."""
        if id(node) in seen:
            raise self._error(node, "aliases (*name) are not read; write the value out")
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode) and node.tag in SURPRISING and SURPRISING[node.tag].fullmatch(node.value):
            meaning = yaml.SafeLoader("").construct_document(node)
            raise self._error(node, f"YAML reads {node.value} as {meaning}: write that, or {node.value!r} in quotes")
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._check(item, seen)
        elif isinstance(node, yaml.MappingNode):
            keys = set()
            for key, value in node.value:
                if (key.tag, key.value if isinstance(key.value, str) else id(key)) in keys:
                    raise self._error(key, f"{key.value!r} is written twice")
                keys.add((key.tag, key.value if isinstance(key.value, str) else id(key)))
                if key.tag == "tag:yaml.org,2002:merge":
                    raise self._error(key, "merge keys (<<) are not read; write the values out")
                self._check(value, seen)

    def _error(self, where: Any, reason: str) -> InvalidRulesFile:
        mark = getattr(where, "start_mark", where)
        return InvalidRulesFile(f"{self.path}:{mark.line + 1}: {reason}")

    def _is_json(self) -> bool:
        return self.path.suffix.lower() == ".json"
