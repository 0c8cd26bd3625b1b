"""What is likely not meant in a ruleset: rules that can never act, limits that are easy to get around, leftovers.

The rules of one limiter go in, in order of evaluation and with what is known around them; findings come out, each
saying why it matters and what to do. Valid rules only: what is no rule at all, :class:`Rule` refuses. Knows no
database and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .matching import Matcher, Members
from .properties import apply_filters, base_of, facts_of, is_client_written
from .rules import Action, Rule


class Severity(StrEnum):
    """How bad a finding is: an error is never meant, a warning hardly ever, a hint now and then."""

    HINT = "hint"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """The higher, the worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at. ``rule`` is a rule's name, None for the ruleset as a whole; ``code`` never changes."""

    rule: str | None
    code: str
    message: str
    why: str
    advice: str
    severity: Severity = Severity.WARNING


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a rule does not say itself.

    ``fault_of`` says what is wrong with a property's name, None for one that somebody provides; ``choices_of`` the
    values that it can have, none where any are possible. ``checkpoint`` is whether code asks this limiter.
    ``partition_by`` is what the ruleset is to be partitioned by.
    """

    now: datetime
    fault_of: Callable[[str], str | None] = lambda _: None
    choices_of: Callable[[str], Sequence[str]] = lambda _: ()
    checkpoint: bool = True
    partition_by: str | None = None


def lint(rules: Sequence[Rule], around: Surroundings) -> list[Finding]:
    """Return what there is to say about one limiter's rules, in their order; those out of force hide nothing."""
    in_force = [rule for rule in rules if rule.enabled and not rule.has_expired(around.now)]
    found = [*expired(rules, around), *checkpoints(in_force, around)]
    for check in (unreachable, loose_shadow, same_meaning, broad_alone, client_written, perhaps_missing):
        found += check(in_force)
    found += unknown_property(in_force, around)
    found += unknown_value(in_force, around)
    found += unpartitioned(in_force, around)
    order = {rule.name: number for number, rule in enumerate(rules)}
    return sorted(found, key=lambda finding: (order.get(finding.rule or "", -1), -finding.severity.rank))


def unpartitioned(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """Find rules that keep a ruleset from being partitioned."""
    for rule in rules:
        if rule.counts and around.partition_by and around.partition_by not in rule.characteristics:
            yield Finding(
                rule.name,
                "unpartitioned",
                f"does not count by {around.partition_by}, by which the ruleset is to be partitioned",
                "The partition is out of force: on Redis Cluster all counters of the limiter lie on one server.",
                f"Let it count by {around.partition_by}, or take partition_by from the ruleset.",
            )


def expired(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """Find rules whose time is over."""
    for rule in rules:
        if rule.enabled and rule.has_expired(around.now):
            yield Finding(
                rule.name,
                "expired",
                f"expired at {rule.expires_at:%Y-%m-%d %H:%M %Z}".rstrip(),
                "It does nothing any more, and whoever reads the list may take it for protection.",
                "Delete it, or give it a later date.",
            )


def checkpoints(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """Find rules that no code asks, and code that asks without there being rules."""
    if rules and not around.checkpoint:
        yield Finding(
            None,
            "unknown_limiter",
            "no code of this process asks a limiter of this name",
            "Rules of a limiter that nobody asks protect nothing.",
            "Compare the name with the code's; if only a worker asks it, say it where all processes import it.",
        )
    if around.checkpoint and not rules:
        yield Finding(
            None,
            "no_rules",
            "code asks this limiter, and no rule is in force",
            "Everything passes, uncounted and unmeasured.",
            "Add a rule; a log rule measures without blocking anybody.",
        )


def unreachable(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find rules behind a skip that every request takes."""
    skip: Rule | None = None
    for rule in rules:
        if skip is not None:
            yield Finding(
                rule.name,
                "unreachable",
                f"stands behind {skip.name}, which lets every request through",
                "A skip ends the evaluation, so this rule never sees a request.",
                f"Move it before {skip.name}, give {skip.name} a match, or delete one of the two.",
            )
        elif rule.action is Action.SKIP and rule.matcher.always:
            skip = rule


def loose_shadow(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find log rules that try a threshold above the limit which already blocks."""
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
                    f"reports above {log.limit}, but {limit.name} blocks above {limit.limit} already",
                    "Blocked calls are charged to no one, so the threshold that is tried here is never reached.",
                    f"Set it below {limit.limit}, or raise {limit.name}.",
                )


def same_meaning(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find rules that count the same calls in the same way as one before them."""
    seen: dict[tuple[object, ...], str] = {}
    for rule in rules:
        earlier = seen.setdefault((rule.action, *_meaning(rule)), rule.name) if rule.counts else rule.name
        if earlier != rule.name:
            yield Finding(
                rule.name,
                "same_meaning",
                f"counts the same as {earlier}",
                "Only the lower of the two limits ever acts; the other costs a counter and misleads its readers.",
                "Keep one of them.",
            )


def broad_alone(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find limits that strangers share, without one that holds each of them down."""
    narrow = [rule for rule in rules if rule.action is Action.LIMIT and not _is_shared(rule)]
    for rule in rules:
        if rule.action is not Action.LIMIT or not _is_shared(rule) or rule.limit == 0:
            continue
        if not any(other.matcher.always or other.match == rule.match for other in narrow):
            by = ", ".join(rule.characteristics)
            yield Finding(
                rule.name,
                "broad_alone",
                f"is shared by all clients{f' of the same {by}' if by else ''}, and no limit holds single ones down",
                "One client can use it up, and everybody else is blocked.",
                "Add a lower limit by ip or by user with the same match.",
            )


def client_written(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find counters that a client escapes by sending another value."""
    for rule in rules:
        if rule.action is Action.LIMIT and rule.characteristics and all(map(is_client_written, rule.characteristics)):
            yield Finding(
                rule.name,
                "client_written",
                f"counts only by what the client writes itself: {', '.join(rule.characteristics)}",
                "Whoever sends a new value with each request is never blocked.",
                "Count by ip or user as well, or put a limit by ip beside it.",
            )


def perhaps_missing(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Find characteristics that a request may lack, where the match does not ask for them."""
    for rule in rules:
        for name in rule.characteristics if rule.counts else ():
            if facts_of(name).is_family and not _asks_for(rule.matcher, name):
                yield Finding(
                    rule.name,
                    "perhaps_missing",
                    f"counts by {name}, which a request may lack",
                    "All requests without it share one counter, so unrelated clients block each other.",
                    f'Add {{"{base_of(name)}": {{"exists": true}}}} to the match, and a rule for those without.',
                    Severity.HINT,
                )


def unknown_property(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """Find properties that nobody provides."""
    for rule in rules:
        for name in rule.properties:
            fault = around.fault_of(name)
            if fault:
                yield Finding(
                    rule.name,
                    "unknown_property",
                    fault,
                    "It is missing in every request: conditions on it do not hold, and all share one counter by it.",
                    "Correct the name, or register a provider.",
                    Severity.ERROR,
                )


def unknown_value(rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    """Find conditions on values that a property never has, by what its provider says."""
    for rule in rules:
        for name, condition in dict.fromkeys(each for conditions in rule.matcher.alternatives for each in conditions):
            choices = [apply_filters(name, choice) for choice in around.choices_of(name)]
            strange = [value for value in condition if value is not None] if isinstance(condition, Members) else []
            strange = sorted({*strange} - {*choices}) if choices else []
            if strange:
                yield Finding(
                    rule.name,
                    "unknown_value",
                    f"asks whether {name} is {' or '.join(strange)}",
                    f"Its values are {', '.join(map(str, choices))}: no request has another.",
                    "Correct the value, or add it to the choices of the property's provider.",
                )


def _meaning(rule: Rule) -> tuple[object, ...]:
    """What a counter says, but for the rule's name: which calls, by what, in which time."""
    counting = (rule.characteristics, rule.period, rule.algorithm, rule.count_distinct)
    # As text: to Python 1, 1.0 and True are equal, but conditions tell them apart.
    return (*counting, repr(rule.match), repr(rule.response))


def _above(log: Rule, limit: Rule) -> bool:
    return isinstance(log.limit, int) and isinstance(limit.limit, int) and log.limit > limit.limit


def _is_shared(rule: Rule) -> bool:
    return all(facts_of(name).shared for name in rule.characteristics)


def _asks_for(matcher: Matcher, name: str) -> bool:
    """Whether no request matches that lacks the property: in each alternative, a condition on it fails without."""
    return all(
        any(base_of(asked) == base_of(name) and not condition(None) for asked, condition in conditions)
        for conditions in matcher.alternatives
    )
