"""The reason for an answer: every rule in order with its effect, or the condition that did not hold.

A ruleset, a function that returns a property's canonical string, and the tallies of the counters go in. An
:class:`Explanation` comes out. It consists of strings and numbers only, so that it can be stored as JSON. Nothing is
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

from ..exceptions import CallableFailed
from .matching import ValueOf, compile_match
from .messages import _, message_of
from .plans import Hit, Hits, Plan, Ruleset
from .results import Evaluation, Outcome, Result, Tally, decide, failed
from .rules import Mode, Rule, Word
from .sentences import match_phrase, sentence

MAX_TEXT = 200

Show = Callable[[str, str], str]
# Whether a property was asked for while the call was decided.
IsKnown = Callable[[str], bool]


def every(_name: str) -> bool:
    """Return True. Every property is known, for example of an identifier that code passes."""
    return True


class Standing(Word):
    """The effect of a rule on the call."""

    UNMATCHED = "unmatched"
    PASSED_OVER = "passed over"
    ALLOWED = "allowed"
    EXCEEDED = "exceeded"
    BLOCKED = "blocked"
    SKIPPED = "skipped"
    FAILED = "failed"
    NOT_REACHED = "not reached"


class Miss(NamedTuple):
    """A condition that did not hold, in words, with its property.

    ``text`` is the property's string, None if it is missing.
    """

    property: str
    condition: str
    text: str | None


@dataclass(frozen=True, slots=True)
class ExplainedRule:
    """One rule of an explanation.

    ``misses`` has one entry for each alternative of the match. It is empty if the rule matches, and if the match of a
    rule that was not reached is not known. ``counter`` is the key of its counter, ``reading`` the evaluation of that
    counter. ``reason`` is the reason why a rule failed or was passed over.
    """

    name: str
    action: str
    sentence: str
    standing: Standing
    misses: tuple[Miss, ...] = ()
    counter: str | None = None
    reading: Mapping[str, Any] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The effect of each rule on a call, and the verdict.

    ``values`` are the properties of the rules, as they may be shown. ``rule`` is the rule that ended the check or was
    evaluated last. ``error`` is the reason why the failure mode decided, empty if it did not. Texts are messages until
    they are stored.
    """

    limiter: str
    mode: Mode
    action: Outcome
    rule: str | None
    skipped: bool
    retry_after: float | None
    error: str
    values: tuple[tuple[str, str | None], ...]
    rules: tuple[ExplainedRule, ...]
    left_out: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as dictionaries and lists, as JSON has them."""
        plain = asdict(self)
        for rule in plain["rules"]:
            rule["misses"] = [miss._asdict() for miss in rule["misses"]]
        return plain

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Explanation:
        """Return the explanation that :meth:`as_dict` wrote. Ignores other keys.

        Raises LookupError, TypeError or ValueError if these dictionaries hold no explanation.
        """
        rules = tuple(
            ExplainedRule(
                **rule
                | {"standing": Standing(rule["standing"]), "misses": tuple(Miss(**miss) for miss in rule["misses"])}
            )
            for rule in stored["rules"]
        )
        values = tuple((name, text) for name, text in stored["values"])
        typed = {"mode": Mode(stored["mode"]), "action": Outcome(stored["action"]), "values": values, "rules": rules}
        return cls(**{field.name: stored[field.name] for field in fields(cls)} | typed)


class Traced(NamedTuple):
    """The result of trying a rule without its counter."""

    rule: Rule
    misses: tuple[Miss, ...] = ()
    hit: Hit | None = None
    reason: str = ""
    failed: bool = False

    @property
    def ends(self) -> bool:
        """Whether no rule after this one is reached, whatever the tallies are."""
        return self.failed or not (self.misses or self.rule.counts)


class Trace(NamedTuple):
    """All rules of a ruleset, tried on one identifier. Includes the rules after the end of the chain."""

    ruleset: Ruleset
    values: tuple[tuple[str, str | None], ...]
    rules: tuple[Traced, ...]

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The counters to read. No hit is enforced, so that one reading includes the counters after a block."""
        return tuple(rule.hit._replace(enforced=False) for rule in self.rules if rule.hit)


def trace(ruleset: Ruleset, value_of: ValueOf, context: object = None) -> Trace:
    """Return the rules that match with their counters, and the reasons why the others do not match."""
    traced = []
    for step in ruleset.steps:
        rule = step.rule
        try:
            missed = misses(rule, value_of)
            hit = step.hit(ruleset.keys, value_of, context) if rule.counts and not missed else None
        except CallableFailed as error:
            traced.append(Traced(rule, reason=message_of(error), failed=True))
            continue
        without = rule.counts and not missed and hit is None
        traced.append(Traced(rule, missed, hit, _missing(rule) if without else ""))
    return Trace(ruleset, tuple(_values(ruleset, value_of, _verbatim)), tuple(traced))


def explain(traced: Trace, tallies: Sequence[Tally] | None, error: str = "") -> Explanation:
    """Return the explanation from the tallies of the trace's hits.

    ``tallies`` is None if they could not be read because of ``error``.
    """
    ruleset = traced.ruleset
    steps = traced.rules
    if tallies is None:
        steps = tuple(step._replace(reason=error, failed=True) if step.hit else step for step in steps)
    read = decide(Plan(ruleset.limiter, ruleset.mode, Hits.of(traced.hits), None), tallies or ())
    readings = {reading.rule: reading for reading in read.evaluations}
    off = ruleset.mode is Mode.OFF
    end = None if off else _end(steps, readings)
    # If one rule cannot be planned, no rule of the chain is counted.
    broken = end if end and end.failed else None
    rules, past_end = [], off
    for step in steps:
        unread = broken is not None and not (step.failed or step.misses)
        rules.append(_explained(step, readings.get(step.rule.name), past_end or unread))
        past_end = past_end or (step is end and not broken)
    if off:
        return _explanation(Result(ruleset.limiter, mode=Mode.OFF), "", traced.values, rules)
    if broken:
        result = failed(ruleset.limiter, ruleset.mode, ruleset.failure_mode)
        return _explanation(result, broken.reason, traced.values, rules)
    reached = tuple(step.hit for step in _until(steps, end) if step.hit)
    skip = end.rule if end and not end.rule.counts else None
    by_rule = {hit.rule.name: tally for hit, tally in zip(traced.hits, tallies or (), strict=True)}
    plan = Plan(ruleset.limiter, ruleset.mode, Hits.of(reached), skip)
    return _explanation(decide(plan, [by_rule[hit.rule.name] for hit in reached]), "", traced.values, rules)


class Known(NamedTuple):
    """The properties of a call, and whether each was read while the call was decided."""

    value_of: ValueOf
    is_known: IsKnown = every


def record(plan: Plan, ruleset: Ruleset, result: Result, known: Known, show: Show, most: int) -> Explanation:
    """Return the explanation of a result just decided, from the properties that are known.

    ``show`` returns the form in which a property's string may be kept. The explanation names at most ``most`` rules
    that did not match.
    """
    evaluations = {evaluation.rule: evaluation for evaluation in result.evaluations}
    hits = {hit.rule.name: hit for hit in plan.hits}
    rules: list[ExplainedRule] = []
    left_out, past_end = 0, False
    for rule in ruleset.rules:
        evaluation = evaluations.get(rule.name)
        if evaluation is None and len(rules) >= most:
            left_out += 1
            continue
        missed: tuple[Miss, ...] = ()
        if evaluation is None and not past_end and rule not in plan.passed_over:
            missed = tuple(miss._replace(text=_shown(miss, show)) for miss in misses(rule, *known))
        reason = _missing(rule) if rule in plan.passed_over else ""
        explained = _explained(Traced(rule, missed, hits.get(rule.name), reason), evaluation, past_end)
        is_settled = evaluation or past_end or reason
        rules.append(explained if is_settled else replace(explained, standing=Standing.UNMATCHED))
        past_end = past_end or rule.name == result.rule
    return _explanation(result, "", tuple(_values(ruleset, known.value_of, show, known.is_known)), rules, left_out)


def misses(rule: Rule, value_of: ValueOf, is_known: IsKnown = every) -> tuple[Miss, ...]:
    """Return for each alternative of a match the first condition that does not hold, nothing if the rule matches.

    Leaves out conditions on properties that are not known, because reading them might cost a query.
    """
    sources = [rule.match] if isinstance(rule.match, Mapping) else rule.match
    missed_conditions = []
    for source, conditions in zip(sources, rule.matcher.alternatives, strict=True):
        missed = None
        for (name, holds), (spelled, condition) in zip(conditions, source.items(), strict=True):
            if not is_known(name):
                continue
            text = value_of(name)
            if not holds(text):
                missed = Miss(name, match_phrase({name: _failing(spelled, condition, text)}), text)
                break
        if missed is None:
            return ()
        missed_conditions.append(missed)
    return tuple(missed_conditions)


def _failing(name: str, condition: object, text: str | None) -> object:
    """Return the operator that does not hold, if a condition has several."""
    if isinstance(condition, Mapping) and len(condition) > 1:
        for operator, operand in condition.items():
            if not compile_match({name: {operator: operand}}).holds(lambda _: text):
                return {operator: operand}
    return condition


def _end(steps: Sequence[Traced], readings: Mapping[str, Evaluation]) -> Traced | None:
    """Return the rule that ends the chain, None if all are reached."""
    last = next((step for step in steps if step.ends), None)
    if last and last.failed:
        return last
    for step in _until(steps, last):
        reading = readings.get(step.rule.name)
        if reading and reading.exceeded and step.hit and step.hit.enforced:
            return step
    return last


def _until(steps: Sequence[Traced], end: Traced | None) -> Iterator[Traced]:
    for step in steps:
        yield step
        if step is end:
            return


def _missing(rule: Rule) -> str:
    return _("%(property)s is missing", property=rule.count_distinct)


def _explained(traced: Traced, reading: Evaluation | None, past_end: bool) -> ExplainedRule:
    rule = traced.rule
    if past_end:
        standing = Standing.NOT_REACHED
    elif traced.failed:
        standing = Standing.FAILED
    elif traced.misses:
        standing = Standing.UNMATCHED
    elif traced.reason:
        standing = Standing.PASSED_OVER
    elif not rule.counts:
        standing = Standing.SKIPPED
    elif reading and reading.exceeded:
        standing = Standing.BLOCKED if traced.hit and traced.hit.enforced else Standing.EXCEEDED
    else:
        standing = Standing.ALLOWED
    return ExplainedRule(
        rule.name,
        rule.action,
        sentence(rule),
        standing,
        tuple(miss._replace(text=miss.text and miss.text[:MAX_TEXT]) for miss in traced.misses),
        traced.hit.key if traced.hit else None,
        reading._asdict() if reading else None,
        traced.reason,
    )


def _explanation(
    result: Result,
    error: str,
    values: tuple[tuple[str, str | None], ...],
    rules: Sequence[ExplainedRule],
    left_out: int = 0,
) -> Explanation:
    verdict = (result.action, result.rule, result.skipped, result.retry_after)
    return Explanation(result.limiter, result.mode, *verdict, error, values, tuple(rules), left_out)


def _values(
    ruleset: Ruleset, value_of: ValueOf, show: Show, is_known: IsKnown = every
) -> Iterator[tuple[str, str | None]]:
    for name in filter(is_known, ruleset.properties):
        try:
            text = value_of(name)
        except CallableFailed:
            continue
        yield name, show(name, text)[:MAX_TEXT] if text is not None else None


def _shown(miss: Miss, show: Show) -> str | None:
    return None if miss.text is None else show(miss.property, miss.text)


def _verbatim(_name: str, text: str) -> str:
    return text
