"""A rule as a sentence, for the admin, the lists and the documentation.

A rule or its conditions go in, and a message in English comes out. Each template is a whole sentence or clause. A
clause that follows takes the sentence before it as a placeholder, so that translators can move it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..exceptions import InvalidRule
from .algorithms import DEFAULT
from .durations import spell_duration
from .fields import SPECS, Kind
from .matching import NOT, OPERATORS, Match, Operand, operator_of
from .messages import Grouped, Message, _, all_of, any_of, commas, filled, gettext_noop
from .rules import Action, Rule

# By action, by whether the rule counts different values, and by whether it has characteristics.
COUNTING = {
    (Action.LIMIT, False, False): gettext_noop("limit %(limit)s per %(period)s for everyone together"),
    (Action.LIMIT, False, True): gettext_noop("limit %(limit)s per %(period)s by %(properties)s"),
    (Action.LIMIT, True, False): gettext_noop(
        "limit %(limit)s different %(counted)s per %(period)s for everyone together"
    ),
    (Action.LIMIT, True, True): gettext_noop("limit %(limit)s different %(counted)s per %(period)s by %(properties)s"),
    (Action.LOG, False, False): gettext_noop("log above %(limit)s per %(period)s for everyone together"),
    (Action.LOG, False, True): gettext_noop("log above %(limit)s per %(period)s by %(properties)s"),
    (Action.LOG, True, False): gettext_noop(
        "log above %(limit)s different %(counted)s per %(period)s for everyone together"
    ),
    (Action.LOG, True, True): gettext_noop(
        "log above %(limit)s different %(counted)s per %(period)s by %(properties)s"
    ),
}


def sentence(rule: Rule) -> str:
    """Return one sentence: ``limit 100 per 1 min by org when plan is free``."""
    text = _("skip: let through uncounted") if rule.action is Action.SKIP else _counting(rule)
    conditions = match_phrase(rule.match)
    if conditions:
        text = _("%(rule)s when %(conditions)s", rule=text, conditions=conditions)
    if rule.response is not None:
        text = _charged(text, match_phrase(rule.response))
    for spec in SPECS.values():
        value = getattr(rule, spec.name)
        if spec.phrase and value != spec.default:
            shown = spell_duration(value) if spec.kind is Kind.DURATION else _value(value)
            text = filled(spec.phrase, rule=text, value=shown)
    return text


def _counting(rule: Rule) -> Message:
    text = filled(
        COUNTING[rule.action, rule.count_distinct is not None, bool(rule.characteristics)],
        limit=_("a computed limit") if rule.limit is None or callable(rule.limit) else Grouped(rule.limit),
        period=_("a computed period") if rule.period is None or callable(rule.period) else spell_duration(rule.period),
        counted=rule.count_distinct,
        properties=", ".join(rule.characteristics),
    )
    if rule.algorithm is DEFAULT:
        return text
    return _("%(rule)s (%(algorithm)s)", rule=text, algorithm=rule.algorithm.label)


def _charged(text: str, conditions: str) -> Message:
    if not conditions:
        return _("%(rule)s, charged by the answer", rule=text)
    return _("%(rule)s, charged by the answer when %(conditions)s", rule=text, conditions=conditions)


def match_phrase(match: Match) -> str:
    """Return conditions as words. Returns an empty string if everything matches."""
    alternatives = [match] if isinstance(match, Mapping) else match
    phrases = []
    for alternative in alternatives:
        conditions = [_condition(name, condition) for name, condition in alternative.items()]
        if not conditions:
            return ""
        several = len(conditions) > 1 or any(map(_has_several_operators, alternative.values()))
        phrase = all_of(conditions)
        phrases.append(_("(%(conditions)s)", conditions=phrase) if several and len(alternatives) > 1 else phrase)
    return any_of(phrases)


def _has_several_operators(condition: object) -> bool:
    while isinstance(condition, Mapping) and len(condition) == 1:
        (condition,) = condition.values()
    return isinstance(condition, Mapping)


def _condition(name: str, condition: object, negated: bool = False) -> str:
    if condition is None:
        return _operator(name, "exists", False, negated)
    if isinstance(condition, (list, tuple)):
        return _operator(name, "in", condition, negated)
    if not isinstance(condition, Mapping):
        return filled(OPERATORS["eq"].phrases[negated], property=name, value=_value(condition))
    if negated and len(condition) > 1:
        return _("not (%(conditions)s)", conditions=_condition(name, condition))
    return all_of([_operator(name, operator, operand, negated) for operator, operand in condition.items()])


def _operator(name: str, operator: str, operand: object, negated: bool) -> str:
    if operator == NOT:
        return _condition(name, operand, negated=not negated)
    if operator == "eq":
        return _condition(name, operand, negated)
    row = operator_of(operator)
    if row is None:
        raise InvalidRule("match", _("unknown operator %(operator)s", operator=repr(operator)))
    if row.operand is Operand.FLAG:
        return filled(row.phrases[bool(operand) is negated], property=name)
    return filled(row.phrases[negated], property=name, value=_value(operand))


def _value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        members = [_value(member) for member in value]
        if any(isinstance(member, Message) for member in members):
            return _("(%(values)s)", values=commas(members))
        return "(" + ", ".join(members) + ")"
    if value is None:
        return _("missing")
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return f"“{text}”" if not text or " " in text else text
