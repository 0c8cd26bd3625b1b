"""Rulesets as YAML, written by PyYAML: rules as blocks, values on one line.

Plain rulesets go in, which hold JSON values only. The same values always give the same bytes, with libyaml or without.
Conditions have their keys in alphabetical order, because PostgreSQL does not keep the order of keys. The meaning of the
fields is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

# Strings that need no quotes: _WORD next to other values on a line, _SENTENCE alone on a line.
_WORD = re.compile(r"[A-Za-z_/][A-Za-z0-9_./|-]*|[0-9]+[smhd]", re.ASCII)
_SENTENCE = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./|(),;'! -]*[A-Za-z0-9_./|();'!])?", re.ASCII)
# YAML 1.1 reads these words as true, false or null.
_NO_STRING = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
# Wider than any line, because a value stays on one line.
_WIDTH = 2**31 - 1
_STRING = "tag:yaml.org,2002:str"
_INDENT = "    "


class _Block(dict[str, Any]):
    """A mapping with one key on each line."""


class _Blocks(list[_Block]):
    """A list with one block for each item."""


class _Values(yaml.representer.SafeRepresenter):
    """Chooses the quotes of strings, because libyaml and PyYAML choose differently."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write every value out, because rules files must not use aliases."""
        return True

    def string(self, value: str) -> yaml.ScalarNode:
        return self._scalar(value, _WORD.fullmatch(value))

    def block(self, fields: _Block) -> yaml.MappingNode:
        node: yaml.MappingNode = self.represent_mapping("tag:yaml.org,2002:map", list(fields.items()), flow_style=False)
        node.value = [
            (key, self._scalar(value.value, _SENTENCE.fullmatch(value.value) or _WORD.fullmatch(value.value)))
            if value.tag == _STRING
            else (key, value)
            for key, value in node.value
        ]
        return node

    def blocks(self, items: _Blocks) -> yaml.SequenceNode:
        return self.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=False)

    def _scalar(self, value: str, plain: object) -> yaml.ScalarNode:
        style = None if plain and value.lower() not in _NO_STRING else '"'
        return self.represent_scalar(_STRING, value, style=style)


class _Dumper(_Values, yaml.SafeDumper):
    """Works without libyaml, and writes lone surrogates, which libyaml rejects."""


_Values.add_representer(str, _Values.string)
_Values.add_representer(_Block, _Values.block)
_Values.add_representer(_Blocks, _Values.blocks)

if yaml.__with_libyaml__:

    class _FastDumper(_Values, yaml.CSafeDumper):
        """Four times faster."""

    _DUMPERS: tuple[Any, ...] = (_FastDumper, _Dumper)
else:
    _DUMPERS = (_Dumper,)


def write(rulesets: Mapping[str, Mapping[str, Any]]) -> str:
    """Return rulesets as YAML, in the given order."""
    return join(ruleset(name, fields) for name, fields in rulesets.items())


def join(texts: Iterable[str]) -> str:
    """Return one YAML document that contains several rulesets."""
    return "\n".join(texts) or "{}\n"


def ruleset(name: str, fields: Mapping[str, Any]) -> str:
    """Return one ruleset as YAML."""
    return with_rules(name, fields, rules(fields.get("rules", ())))


def with_rules(name: str, fields: Mapping[str, Any], listed: str) -> str:
    """Return one ruleset as YAML. ``listed`` is the YAML of its rules, as :func:`rules` returns it."""
    own = _Block({field: value for field, value in fields.items() if field != "rules"})
    if not listed:
        return _dump(_Block({name: own or {}}))
    head = _dump(_Block({name: own})) if own else _dump(_Block({name: {}})).replace(" {}", "")
    return f"{head}  rules:\n{listed}"


def rules(items: Iterable[Mapping[str, Any]]) -> str:
    """Return rules as YAML items of a ruleset's list. Returns an empty string for no rules."""
    blocks = _Blocks(map(_Block, items))
    # No value contains a line break, so every line belongs to a rule's block.
    return _INDENT + _dump(blocks).replace("\n", f"\n{_INDENT}").removesuffix(_INDENT) if blocks else ""


def inline(value: Any) -> str:
    """Return one value as YAML on one line."""
    return _dump([value])[1:-2]


def _dump(value: Any) -> str:
    failure: Exception | None = None
    for dumper in _DUMPERS:
        try:
            text: str = yaml.dump(value, Dumper=dumper, default_flow_style=True, width=_WIDTH, allow_unicode=True)
        except UnicodeEncodeError as error:
            failure = error
        else:
            return text
    raise ValueError(value) from failure
