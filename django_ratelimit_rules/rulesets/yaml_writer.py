"""A small writer of YAML: the same values always give the same bytes, whatever version of PyYAML is installed.

JSON values go in: rulesets by name, their rules one field a line, conditions and lists on one line in JSON's notation
with quotes only where YAML needs them, keys of conditions in alphabetical order (PostgreSQL keeps no other). What the
fields mean is not known here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MAX_DEPTH = 40
MAX_KEY = 500

# Texts that every YAML reader takes for texts; all others are quoted.
_WORD = re.compile(r"[A-Za-z_/][A-Za-z0-9_./|-]*|[0-9]+[smhd]", re.ASCII)
_SENTENCE = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./|(),;'! -]*[A-Za-z0-9_./|();'!])?", re.ASCII)
_NOT_TEXT = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_ESCAPED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def write(rulesets: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text."""
    return join("".join(f"{line}\n" for line in _ruleset(name, said)) for name, said in rulesets.items())


def join(texts: Iterable[str]) -> str:
    """Return one text of the texts of several rulesets."""
    return "\n".join(texts) or "{}\n"


def inline(value: Any) -> str:
    """Return one value on one line."""
    if type(value) is str:
        return _text(value)
    return _flow(value if _writable(value, MAX_DEPTH) else json.dumps(value, default=str))


def _ruleset(name: str, said: Mapping[str, Any]) -> Iterator[str]:
    if not said:
        yield f"{_flow(name)}: {{}}"
        return
    yield f"{_flow(name)}:"
    for field, value in said.items():
        if field == "rules":
            yield "  rules:"
            for rule in value:
                yield from _rule(rule)
        else:
            yield f"  {field}: {_line(value)}"


def _rule(rule: Mapping[str, Any]) -> Iterator[str]:
    start = "    - "
    for field, value in rule.items():
        yield f"{start}{field}: {_line(value)}"
        start = "      "


def _line(value: Any) -> str:
    if isinstance(value, str) and _SENTENCE.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return inline(value)


def _flow(value: Any) -> str:
    if type(value) is str:
        return _text(value)
    if isinstance(value, Mapping):
        # In alphabetical order, because PostgreSQL keeps no other.
        return "{" + ", ".join(f"{_flow(key)}: {_flow(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_flow(member) for member in value) + "]"
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        # YAML reads 1e+20 as a text and 1.0e+20 as a number.
        return f"{mantissa}{'' if '.' in mantissa or not exponent else '.0'}{exponent}{power}"
    return _text(str(value))


def _text(text: str) -> str:
    return text if _WORD.fullmatch(text) and text.lower() not in _NOT_TEXT else _quoted(text)


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _writable(value: Any, depth: int) -> bool:
    """Whether YAML can say this at all; only a row that reads as no rule holds anything else."""
    if type(value) is str:
        return True
    if depth == 0 or (isinstance(value, float) and not math.isfinite(value)):
        return False
    if isinstance(value, Mapping):
        return all(
            isinstance(key, str) and len(key) <= MAX_KEY and _writable(inner, depth - 1) for key, inner in value.items()
        )
    return not isinstance(value, (list, tuple)) or all(_writable(inner, depth - 1) for inner in value)
