"""Likely mistakes in a ruleset: rules that can never act, limits that are easy to evade, leftovers.

The rules of one limiter go in, in order of evaluation and with their surroundings. Findings come out, each with its
reason and an advice. All rules are valid, because :class:`Rule` rejects others. Knows no database and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .matching import Matcher, Members
from .messages import Grouped, _, any_of, commas
from .properties import apply_filters, base_of, facts_of, is_client_written
from .rules import Action, Rule


class Severity(StrEnum):
    """How likely a finding is a mistake: an error always, a warning nearly always, a hint now and then."""

    HINT = "hint"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """The position from hint to error. Higher is worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """A likely mistake. ``rule`` is a rule's name, None for the ruleset as a whole. ``code`` never changes.

    ``message`` continues a sentence that starts with the rule's name. ``why`` and ``advice`` are whole sentences.
    """

    rule: str | None
    code: str
    message: str
    why: str
    advice: str
    severity: Severity = Severity.WARNING


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts about a ruleset that its rules do not contain.

    ``fault_of`` returns the fault of a property's name, None for a valid name with a provider. ``choices_of`` returns
    the values that a property can have, none if every value is possible. ``checkpoint`` is whether code uses this
    limiter. ``partition_by`` is the property that is meant to partition the ruleset.
    """

    now: datetime
    fault_of: Callable[[str], str | None] = lambda _: None
    choices_of: Callable[[str], Sequence[str]] = lambda _: ()
    checkpoint: bool = True
    partition_by: str | None = None


def lint(rules: Sequence[Rule], around: Surroundings) -> list[Finding]:
    """Return the findings about one limiter's rules, in their order. Only rules in force can hide others."""
    in_force = [rule for rule in rules if rule.enabled and not rule.has_expired(around.now)]
    findings = [*expired(rules, around), *checkpoints(in_force, around)]
    for check in (unreachable, loose_shadow, same_meaning, broad_alone, client_written, perhaps_missing):
        findings += check(in_force)
    findings += unknown_property(in_force, around)
    findings += unknown_value(in_force, around)
    findings += unpartitioned(in_force, around)
    order = {rule.name: number for number, rule in enumerate(rules)}
    return sorted(findings, key=lambda finding: (order.get(finding.rule or "", -1), -finding.severity.rank))


def unpartitioned(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """Find rules that prevent a ruleset from being partitioned."""
    for rule in rules:
        if rule.counts and around.partition_by and around.partition_by not in rule.characteristics:
            yield Finding(
                rule.name,
                "unpartitioned",
                _("does not count by %(property)s, the ruleset's partition_by", property=around.partition_by),
                _("The partition is out of force: on Redis Cluster all counters of the limiter lie on one server."),
                _("Count by %(property)s as well, or remove partition_by.", property=around.partition_by),
            )


def expired(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """Find rules that have expired."""
    for rule in rules:
        if rule.enabled and rule.has_expired(around.now):
            yield Finding(
                rule.name,
                "expired",
                _("expired at %(moment)s", moment=f"{rule.expires_at:%Y-%m-%d %H:%M %Z}".rstrip()),
                _("It has no effect, but it still looks like protection in the list."),
                _("Delete it, or give it a later date."),
            )


def checkpoints(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """Find rules of a limiter that no code uses, and limiters in code without rules."""
    if rules and not around.checkpoint:
        yield Finding(
            None,
            "unknown_limiter",
            _("no code of this process uses a limiter of this name"),
            _("Rules of a limiter that no code uses protect nothing."),
            _(
                "Compare the name with the name in the code. If only a worker uses it, name it in a module that all "
                "processes import."
            ),
        )
    if around.checkpoint and not rules:
        yield Finding(
            None,
            "no_rules",
            _("code uses this limiter, and no rule is in force"),
            _("Every request is allowed, uncounted and unmeasured."),
            _("Add a rule. A log rule measures without blocking any request."),
        )


def unreachable(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find rules after a skip rule that matches every request."""
    skip: Rule | None = None
    for rule in rules:
        if skip is not None:
            yield Finding(
                rule.name,
                "unreachable",
                _("comes after %(skip)s, which allows every request", skip=skip.name),
                _("A skip rule ends the evaluation, so this rule never sees a request."),
                _("Move it before %(skip)s, give %(skip)s a match, or delete one of the two.", skip=skip.name),
            )
        elif rule.action is Action.SKIP and rule.matcher.always:
            skip = rule


def loose_shadow(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find log rules that try a threshold above a limit that already blocks."""
    limits: dict[tuple[object, ...], list[Rule]] = {}
    for rule in rules:
        if rule.action is Action.LIMIT:
            limits.setdefault(_meaning(rule), []).append(rule)
    for log in rules:
        for limit in limits.get(_meaning(log), ()) if log.action is Action.LOG else ():
            if _above(log, limit):
                yield Finding(
                    log.name,
                    "loose_shadow",
                    _(
                        "reports above %(threshold)s, but %(rule)s blocks above %(limit)s already",
                        threshold=_number(log),
                        rule=limit.name,
                        limit=_number(limit),
                    ),
                    _("Blocked calls are not charged, so the threshold of this rule is never reached."),
                    _("Set it below %(limit)s, or raise %(rule)s.", limit=_number(limit), rule=limit.name),
                )


def same_meaning(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find rules that count the same calls in the same way as an earlier rule."""
    seen: dict[tuple[object, ...], str] = {}
    for rule in rules:
        earlier = seen.setdefault((rule.action, *_meaning(rule)), rule.name) if rule.counts else rule.name
        if earlier != rule.name:
            yield Finding(
                rule.name,
                "same_meaning",
                _("counts the same as %(rule)s", rule=earlier),
                _("Only the lower of the two limits has an effect. The other costs a counter and is misleading."),
                _("Keep one of them."),
            )


def broad_alone(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find limits that unrelated clients share, without a limit for single clients."""
    narrow = [rule for rule in rules if rule.action is Action.LIMIT and not _is_shared(rule)]
    for rule in rules:
        if rule.action is not Action.LIMIT or not _is_shared(rule) or rule.limit == 0:
            continue
        if not any(other.matcher.always or other.match == rule.match for other in narrow):
            properties = ", ".join(rule.characteristics)
            yield Finding(
                rule.name,
                "broad_alone",
                _(
                    "is shared by all clients of the same %(properties)s, and no limit is for single clients",
                    properties=properties,
                )
                if properties
                else _("is shared by all clients, and no limit is for single clients"),
                _("One client can use it up, and all others are blocked."),
                _("Add a lower limit by ip or by user with the same match."),
            )


def client_written(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find counters that a client escapes by sending another value."""
    for rule in rules:
        if rule.action is Action.LIMIT and rule.characteristics and all(map(is_client_written, rule.characteristics)):
            yield Finding(
                rule.name,
                "client_written",
                _(
                    "counts only by values that the client chooses: %(properties)s",
                    properties=", ".join(rule.characteristics),
                ),
                _("A client that sends a new value with each request is never blocked."),
                _("Count by ip or user as well, or add a limit by ip."),
            )


def perhaps_missing(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find characteristics that a request may lack, unless the match requires them."""
    for rule in rules:
        for name in rule.characteristics if rule.counts else ():
            if facts_of(name).is_family and not _asks_for(rule.matcher, name):
                yield Finding(
                    rule.name,
                    "perhaps_missing",
                    _("counts by %(property)s, which a request may lack", property=name),
                    _("All requests without it share one counter, so unrelated clients block each other."),
                    _(
                        'Add {"%(property)s": {"exists": true}} to the match, and a rule for requests without it.',
                        property=base_of(name),
                    ),
                    Severity.HINT,
                )


def unknown_property(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """Find properties without a provider."""
    for rule in rules:
        for name in rule.properties:
            fault = around.fault_of(name)
            if fault:
                yield Finding(
                    rule.name,
                    "unknown_property",
                    fault,
                    _(
                        "It is missing in every request. Conditions on it do not hold, and all requests share one "
                        "counter by it."
                    ),
                    _("Correct the name, or register a provider."),
                    Severity.ERROR,
                )


def unknown_value(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """Find conditions on values that a property never has, according to the choices of its provider."""
    for rule in rules:
        for name, condition in dict.fromkeys(named for conditions in rule.matcher.alternatives for named in conditions):
            choices = [apply_filters(name, choice) for choice in around.choices_of(name)]
            strange = [value for value in condition if value is not None] if isinstance(condition, Members) else []
            strange = sorted({*strange} - {*choices}) if choices else []
            if strange:
                yield Finding(
                    rule.name,
                    "unknown_value",
                    _("requires that %(property)s is %(values)s", property=name, values=any_of(strange)),
                    _("Its only values are %(values)s.", values=commas([str(choice) for choice in choices])),
                    _("Correct the value, or add it to the choices of the property's provider."),
                )


def _meaning(rule: Rule) -> tuple[object, ...]:
    """Return the meaning of a counter without the rule's name: the calls, the characteristics and the period."""
    counting = (rule.characteristics, rule.period, rule.algorithm, rule.count_distinct)
    # By repr, because 1, 1.0 and True are equal in Python, but not in conditions.
    return (*counting, repr(rule.match), repr(rule.response))


def _number(rule: Rule) -> object:
    return Grouped(rule.limit) if isinstance(rule.limit, int) else rule.limit


def _above(log: Rule, limit: Rule) -> bool:
    return isinstance(log.limit, int) and isinstance(limit.limit, int) and log.limit > limit.limit


def _is_shared(rule: Rule) -> bool:
    return all(facts_of(name).shared for name in rule.characteristics)


def _asks_for(matcher: Matcher, name: str) -> bool:
    """Return whether all matching requests have the property: in each alternative, a condition requires it."""
    return all(
        any(base_of(other) == base_of(name) and not condition(None) for other, condition in conditions)
        for conditions in matcher.alternatives
    )
