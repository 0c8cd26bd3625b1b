"""The changes between two states of the admin tier, in lines for operators.

Two mappings of plain rulesets (see :mod:`rulesets.text`) go in, and a list of :class:`Change` comes out. It is empty if
both are the same. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .. import engine
from ..engine.fields import SPECS, Kind, of_kind
from ..engine.messages import Message, _, message_of
from ..exceptions import UNREADABLE, InvalidRule
from . import yaml_writer
from .text import (
    RULESET_FIELDS,
    Plain,
    Rulesets,
    plain_default,
    same,
)

DEFAULT_WORDS = {"mode": _("not stated"), "failure_mode": _("not stated")}


class Change(NamedTuple):
    """One line: ``+`` for an addition, ``-`` for a removal, ``~`` for a difference. ``depth`` is its indentation."""

    mark: str
    text: str
    depth: int = 0


def compare(before: Rulesets, after: Rulesets) -> list[Change]:
    """Return the changes from one state to another."""
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
        yield Change("+", _("ruleset %(name)s", name=name))
    elif after is None:
        yield Change("-", _("ruleset %(name)s", name=name))
    elif inside:
        yield Change("~", _("ruleset %(name)s", name=name))
    yield from inside


def _rules(before: Plain, after: Plain) -> Iterator[Change]:
    old, new = _by_name(before), _by_name(after)
    yield from (Change("-", _line(name, rule), 1) for name, rule in old.items() if name not in new)
    names = list(new)
    for number, (name, rule) in enumerate(new.items()):
        if name not in old:
            following = names[number + 1] if number + 1 < len(names) else None
            yield Change("+", _added(name, rule, following), 1)
            yield from _fields({}, rule, _unsaid(), 2)
        elif not same(old[name], rule):
            yield Change("~", _line(name, rule), 1)
            yield from _fields(old[name], rule, tuple(SPECS), 2)
    kept = [name for name in names if name in old]
    if kept != [name for name in old if name in new]:
        yield Change("~", _("order: %(rules)s", rules=", ".join(names)), 1)


def _by_name(ruleset: Plain) -> dict[str, Any]:
    return {str(rule.get("name")): rule for rule in ruleset.get("rules", ())}


def _fields(before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str], depth: int) -> Iterator[Change]:
    for name in names:
        if same(*(fields.get(name, plain_default(name)) for fields in (before, after))):
            continue
        values = {"before": _shown(name, before), "after": _shown(name, after)}
        yield Change("~", _("%(field)s: %(before)s → %(after)s", field=name, **values), depth)


def _line(name: str, rule: Plain) -> Message:
    return _("%(rule)s: %(sentence)s", rule=name, sentence=_sentence(rule))


def _added(name: str, rule: Plain, following: str | None) -> Message:
    if following is None:
        return _("%(rule)s: %(sentence)s (last)", rule=name, sentence=_sentence(rule))
    return _("%(rule)s: %(sentence)s (before %(next)s)", rule=name, sentence=_sentence(rule), next=following)


def _shown(name: str, fields: Mapping[str, Any]) -> str:
    if name in fields:
        # Quote a string only if it could be mistaken for the words around it.
        bare = _is_bare(name) and isinstance(fields[name], str) and fields[name].isprintable()
        return fields[name] if bare else yaml_writer.inline(fields[name])
    default = plain_default(name)
    if name in DEFAULT_WORDS or default is None or default == "":
        return DEFAULT_WORDS.get(name, _("none"))
    return yaml_writer.inline(default)


def _unsaid() -> tuple[str, ...]:
    """Return the fields that are not in a rule's sentence."""
    return tuple(spec.name for spec in SPECS.values() if not spec.said and not spec.phrase)


def _is_bare(name: str) -> bool:
    """Return whether a field's string is shown without quotes."""
    return name in ("mode", "partition_by", *of_kind(Kind.NOTE))


def _sentence(rule: Plain) -> str:
    try:
        return engine.sentence(engine.as_rule(rule))
    except UNREADABLE as error:
        reason = error.reason if isinstance(error, InvalidRule) else message_of(error)
        return _("cannot be read (%(reason)s)", reason=reason)
