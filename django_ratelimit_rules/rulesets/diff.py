"""What would change, or has changed, between two states of the admin tier, in lines that an operator can read.

Two mappings of plain rulesets (see :mod:`rulestext`) go in; a list of :class:`Change` comes out, empty when both say
the same. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .. import engine
from ..engine.fields import SPECS, Kind, of_kind
from ..exceptions import UNREADABLE, InvalidRule
from . import yaml_writer
from .text import (
    RULESET_FIELDS,
    Plain,
    Rulesets,
    plain_default,
    same,
)

DEFAULT_WORDS = {"mode": "not stated", "failure_mode": "not stated"}


class Change(NamedTuple):
    """One line: ``+`` for what is new, ``-`` for what is gone, ``~`` for what differs; ``depth`` is how far inside."""

    mark: str
    text: str
    depth: int = 0


def compare(before: Rulesets, after: Rulesets) -> list[Change]:
    """Return what leads from one state to another. A ruleset that stands in neither is not spoken of."""
    return [
        change for name in sorted({*before, *after}) for change in _ruleset(name, before.get(name), after.get(name))
    ]


def as_text(changes: Sequence[Change]) -> str:
    """Return changes as indented lines."""
    return "".join(f"{'    ' * change.depth}{change.mark} {change.text}\n" for change in changes)


def _ruleset(name: str, before: Plain | None, after: Plain | None) -> Iterator[Change]:
    if before is None and after is None:
        return
    inside = [*_fields(before or {}, after or {}, RULESET_FIELDS, 1), *_rules(before or {}, after or {})]
    if before is None:
        yield Change("+", f"ruleset {name}")
    elif after is None:
        yield Change("-", f"ruleset {name}")
    elif inside:
        yield Change("~", f"ruleset {name}")
    yield from inside


def _rules(before: Plain, after: Plain) -> Iterator[Change]:
    old, new = _by_name(before), _by_name(after)
    yield from (Change("-", f"{name}: {_sentence(rule)}", 1) for name, rule in old.items() if name not in new)
    names = list(new)
    for number, (name, rule) in enumerate(new.items()):
        if name not in old:
            place = f"before {names[number + 1]}" if number + 1 < len(names) else "last"
            yield Change("+", f"{name}: {_sentence(rule)} ({place})", 1)
            yield from _fields({}, rule, _unsaid(), 2)
        elif not same(old[name], rule):
            yield Change("~", f"{name}: {_sentence(rule)}", 1)
            yield from _fields(old[name], rule, tuple(SPECS), 2)
    kept = [name for name in names if name in old]
    if kept != [name for name in old if name in new]:
        yield Change("~", f"order: {', '.join(names)}", 1)


def _by_name(ruleset: Plain) -> dict[str, Any]:
    return {str(rule.get("name")): rule for rule in ruleset.get("rules", ())}


def _fields(before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str], depth: int) -> Iterator[Change]:
    for name in names:
        if same(*(fields.get(name, plain_default(name)) for fields in (before, after))):
            continue
        yield Change("~", f"{name}: {_shown(name, before)} → {_shown(name, after)}", depth)


def _shown(name: str, said: Mapping[str, Any]) -> str:
    if name in said:
        # Quotes only where there is something to tell apart from the words around it.
        bare = _is_bare(name) and isinstance(said[name], str) and said[name].isprintable()
        return said[name] if bare else yaml_writer.inline(said[name])
    default = plain_default(name)
    if name in DEFAULT_WORDS or default is None or default == "":
        return DEFAULT_WORDS.get(name, "none")
    return yaml_writer.inline(default)


def _unsaid() -> tuple[str, ...]:
    """Return the fields that a rule's sentence does not say."""
    return tuple(spec.name for spec in SPECS.values() if not spec.said and not spec.phrase)


def _is_bare(name: str) -> bool:
    """Tell whether a field's string is shown without quotes."""
    return name in ("mode", "partition_by", *of_kind(Kind.NOTE))


def _sentence(rule: Plain) -> str:
    try:
        return engine.sentence(engine.as_rule(rule))
    except UNREADABLE as error:
        reason = error.reason if isinstance(error, InvalidRule) else str(error)
        return f"cannot be read ({reason})"
