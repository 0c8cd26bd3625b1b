"""A rule as a sentence: what the admin, the lists and the documentation say about it."""

from __future__ import annotations

from collections.abc import Mapping

from ..exceptions import InvalidRule
from .algorithms import DEFAULT
from .durations import spell_duration
from .fields import SPECS, Kind
from .matching import NOT, OPERATORS, Match, Operand, operator_of
from .rules import Action, Rule


def sentence(rule: Rule) -> str:
    """Return one sentence: ``limit 100 per 1 min by org when plan is free``."""
    parts = [_counting(rule) if rule.action is not Action.SKIP else "skip: let through uncounted"]
    when = match_phrase(rule.match)
    if when:
        parts.append("when " + when)
    if rule.response is not None:
        answer = match_phrase(rule.response)
        parts.append("charged by the answer" + (" when " + answer if answer else ""))
    for spec in SPECS.values():
        value = getattr(rule, spec.name)
        if spec.phrase and value != spec.default:
            parts.append(spec.phrase.format(spell_duration(value) if spec.kind is Kind.DURATION else _value(value)))
    return ", ".join([" ".join(parts[:2]), *parts[2:]]) if when else ", ".join(parts)


def _counting(rule: Rule) -> str:
    limit = "a computed limit" if callable(rule.limit) else f"{rule.limit:,}"
    period = "a computed period" if callable(rule.period) or rule.period is None else spell_duration(rule.period)
    what = f" different {rule.count_distinct}" if rule.count_distinct else ""
    by = "by " + ", ".join(rule.characteristics) if rule.characteristics else "for everyone together"
    verb = "limit" if rule.action is Action.LIMIT else "log above"
    how = "" if rule.algorithm is DEFAULT else f" ({rule.algorithm.label})"
    return f"{verb} {limit}{what} per {period} {by}{how}"


def match_phrase(match: Match) -> str:
    """Return conditions as words, empty when everything matches."""
    alternatives = [match] if isinstance(match, Mapping) else match
    phrases = [" and ".join(_condition(name, value) for name, value in each.items()) for each in alternatives]
    if "" in phrases:
        return ""
    return " or ".join(f"({phrase})" if len(phrases) > 1 and " and " in phrase else phrase for phrase in phrases)


def _condition(name: str, condition: object, negated: bool = False) -> str:
    if condition is None:
        return _operator(name, "exists", False, negated)
    if isinstance(condition, (list, tuple)):
        return _operator(name, "in", condition, negated)
    if not isinstance(condition, Mapping):
        return f"{name} {OPERATORS['eq'].phrases[negated]} {_value(condition)}"
    if negated and len(condition) > 1:
        return f"not ({_condition(name, condition)})"
    return " and ".join(_operator(name, operator, operand, negated) for operator, operand in condition.items())


def _operator(name: str, operator: str, operand: object, negated: bool) -> str:
    if operator == NOT:
        return _condition(name, operand, negated=not negated)
    if operator == "eq":
        return _condition(name, operand, negated)
    row = operator_of(operator)
    if row is None:
        raise InvalidRule("match", f"unknown operator {operator!r}")
    if row.operand is Operand.FLAG:
        return f"{name} {row.phrases[bool(operand) is negated]}"
    return f"{name} {row.phrases[negated]} {_value(operand)}"


def _value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(_value(member) for member in value) + ")"
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return f"“{text}”" if not text or " " in text else text
