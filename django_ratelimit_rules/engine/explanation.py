"""Why a call is answered as it is: every rule in order, what it did, or the very condition that did not hold.

A ruleset and a function that tells a property's canonical text go in, and what the counters say; an
:class:`Explanation` comes out, made of texts and numbers only, so that it can be stored as JSON. Nothing is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

from ..exceptions import CallableFailed
from .matching import ValueOf, compile_match
from .plans import Hit, Hits, Plan, Ruleset
from .results import Evaluation, Outcome, Result, Tally, decide, failed
from .rules import Mode, Rule, Word
from .sentences import match_phrase, sentence

MAX_TEXT = 200

Show = Callable[[str, str], str]
# Whether a property was asked for while the call was decided.
IsKnown = Callable[[str], bool]


def every(_name: str) -> bool:
    """Know every property: an identifier that code hands over, say."""
    return True


class Standing(Word):
    """What a rule did to the call."""

    UNMATCHED = "unmatched"
    PASSED_OVER = "passed over"
    ALLOWED = "allowed"
    EXCEEDED = "exceeded"
    BLOCKED = "blocked"
    SKIPPED = "skipped"
    FAILED = "failed"
    NOT_REACHED = "not reached"


class Miss(NamedTuple):
    """A condition that did not hold: in words, with the property it asks and the text it met, None when missing."""

    property: str
    condition: str
    text: str | None


@dataclass(frozen=True, slots=True)
class ExplainedRule:
    """One rule of an explanation.

    ``misses`` has one entry for each alternative of the match, none when the rule matches, or when that is not known of
    a rule not reached. ``counter`` is the key that it counts in, ``reading`` what stands there. ``reason`` says why a
    rule failed or was passed over.
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
    """What a call meets, rule by rule, and the verdict.

    ``values`` are the properties that rules asked, as they may be shown. ``rule`` is the one that ended the check or
    was evaluated last; ``error`` says why the failure mode answered, and is empty when it did not.
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
        """Return the same as dictionaries and lists, as JSON has them."""
        said = asdict(self)
        for rule in said["rules"]:
            rule["misses"] = [miss._asdict() for miss in rule["misses"]]
        return said

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
        return cls(**{each.name: stored[each.name] for each in fields(cls)} | typed)


class Traced(NamedTuple):
    """How far a rule is known without its counter."""

    rule: Rule
    misses: tuple[Miss, ...] = ()
    hit: Hit | None = None
    reason: str = ""
    failed: bool = False

    @property
    def ends(self) -> bool:
        """Whether no rule behind this one is reached, whatever the counters say."""
        return self.failed or not (self.misses or self.rule.counts)


class Trace(NamedTuple):
    """All rules of a ruleset, tried on one identifier; those behind the end of the chain as well."""

    ruleset: Ruleset
    values: tuple[tuple[str, str | None], ...]
    rules: tuple[Traced, ...]

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The counters to look at, with nothing enforced, so that one look reads those behind a block too."""
        return tuple(each.hit._replace(enforced=False) for each in self.rules if each.hit)


def trace(ruleset: Ruleset, value_of: ValueOf, context: object = None) -> Trace:
    """Return which rules match, why the others do not, and the counters of all that do."""
    traced = []
    for step in ruleset.steps:
        rule = step.rule
        try:
            missed = misses(rule, value_of)
            hit = step.hit(ruleset.keys, value_of, context) if rule.counts and not missed else None
        except CallableFailed as error:
            traced.append(Traced(rule, reason=str(error), failed=True))
            continue
        without = rule.counts and not missed and hit is None
        traced.append(Traced(rule, missed, hit, f"{rule.count_distinct} is missing" if without else ""))
    return Trace(ruleset, tuple(_values(ruleset, value_of, _verbatim)), tuple(traced))


def explain(traced: Trace, tallies: Sequence[Tally] | None, error: str = "") -> Explanation:
    """Return the explanation, from the tallies of the trace's hits; None when ``error`` kept them from being read."""
    ruleset = traced.ruleset
    steps = traced.rules
    if tallies is None:
        steps = tuple(each._replace(reason=error, failed=True) if each.hit else each for each in steps)
    read = decide(Plan(ruleset.limiter, ruleset.mode, Hits.of(traced.hits), None), tallies or ())
    readings = {reading.rule: reading for reading in read.evaluations}
    off = ruleset.mode is Mode.OFF
    end = None if off else _end(steps, readings)
    # A rule that cannot be planned keeps the whole chain from being counted.
    broken = end if end and end.failed else None
    rules, behind = [], off
    for each in steps:
        unread = broken is not None and not (each.failed or each.misses)
        rules.append(_explained(each, readings.get(each.rule.name), behind or unread))
        behind = behind or (each is end and not broken)
    if off:
        return _explanation(Result(ruleset.limiter, mode=Mode.OFF), "", traced.values, rules)
    if broken:
        result = failed(ruleset.limiter, ruleset.mode, ruleset.failure_mode)
        return _explanation(result, broken.reason, traced.values, rules)
    reached = tuple(each.hit for each in _until(steps, end) if each.hit)
    skip = end.rule if end and not end.rule.counts else None
    by_rule = {hit.rule.name: tally for hit, tally in zip(traced.hits, tallies or (), strict=True)}
    plan = Plan(ruleset.limiter, ruleset.mode, Hits.of(reached), skip)
    return _explanation(decide(plan, [by_rule[hit.rule.name] for hit in reached]), "", traced.values, rules)


class Known(NamedTuple):
    """The properties of a call, and which of them were asked for while it was decided."""

    value_of: ValueOf
    is_known: IsKnown = every


def record(plan: Plan, ruleset: Ruleset, result: Result, known: Known, show: Show, most: int) -> Explanation:
    """Return the explanation of a result just decided, from the properties that are known.

    ``show`` returns how a property's value may be kept. Of the rules that did not match, it names the first ``most``.
    """
    evaluations = {evaluation.rule: evaluation for evaluation in result.evaluations}
    hits = {hit.rule.name: hit for hit in plan.hits}
    rules: list[ExplainedRule] = []
    left_out, behind = 0, False
    for rule in ruleset.rules:
        evaluation = evaluations.get(rule.name)
        if evaluation is None and len(rules) >= most:
            left_out += 1
            continue
        missed: tuple[Miss, ...] = ()
        if evaluation is None and not behind and rule not in plan.passed_over:
            missed = tuple(miss._replace(text=_shown(miss, show)) for miss in misses(rule, *known))
        reason = f"{rule.count_distinct} is missing" if rule in plan.passed_over else ""
        one = _explained(Traced(rule, missed, hits.get(rule.name), reason), evaluation, behind)
        rules.append(one if evaluation or behind or reason else replace(one, standing=Standing.UNMATCHED))
        behind = behind or rule.name == result.rule
    return _explanation(result, "", tuple(_values(ruleset, known.value_of, show, known.is_known)), rules, left_out)


def misses(rule: Rule, value_of: ValueOf, is_known: IsKnown = every) -> tuple[Miss, ...]:
    """Return for each alternative of a match the first condition that does not hold; nothing when the rule matches.

    Conditions on properties that are not known are left out: asking now might cost a query.
    """
    sources = [rule.match] if isinstance(rule.match, Mapping) else rule.match
    found = []
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
        found.append(missed)
    return tuple(found)


def _failing(name: str, condition: object, text: str | None) -> object:
    """Return the operator that does not hold, out of several that a condition requires."""
    if isinstance(condition, Mapping) and len(condition) > 1:
        for operator, operand in condition.items():
            if not compile_match({name: {operator: operand}}).holds(lambda _: text):
                return {operator: operand}
    return condition


def _end(steps: Sequence[Traced], readings: Mapping[str, Evaluation]) -> Traced | None:
    """Return the rule that ends the chain, None when all are reached."""
    last = next((each for each in steps if each.ends), None)
    if last and last.failed:
        return last
    for each in _until(steps, last):
        reading = readings.get(each.rule.name)
        if reading and reading.exceeded and each.hit and each.hit.enforced:
            return each
    return last


def _until(steps: Sequence[Traced], end: Traced | None) -> Iterator[Traced]:
    for each in steps:
        yield each
        if each is end:
            return


def _explained(each: Traced, reading: Evaluation | None, behind: bool) -> ExplainedRule:
    rule = each.rule
    if behind:
        standing = Standing.NOT_REACHED
    elif each.failed:
        standing = Standing.FAILED
    elif each.misses:
        standing = Standing.UNMATCHED
    elif each.reason:
        standing = Standing.PASSED_OVER
    elif not rule.counts:
        standing = Standing.SKIPPED
    elif reading and reading.exceeded:
        standing = Standing.BLOCKED if each.hit and each.hit.enforced else Standing.EXCEEDED
    else:
        standing = Standing.ALLOWED
    return ExplainedRule(
        rule.name,
        rule.action,
        sentence(rule),
        standing,
        tuple(miss._replace(text=miss.text and miss.text[:MAX_TEXT]) for miss in each.misses),
        each.hit.key if each.hit else None,
        reading._asdict() if reading else None,
        each.reason,
    )


def _explanation(
    result: Result,
    error: str,
    values: tuple[tuple[str, str | None], ...],
    rules: Sequence[ExplainedRule],
    left_out: int = 0,
) -> Explanation:
    said = (result.action, result.rule, result.skipped, result.retry_after)
    return Explanation(result.limiter, result.mode, *said, error, values, tuple(rules), left_out)


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
