"""Rules as values: a rule checks itself when it is made, so that an invalid rule never reaches a request.

This is the only validator of the app. The admin, the rules file and code all make a :class:`Rule`, and show the reasons
of its InvalidRule.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..exceptions import InvalidRule
from .algorithms import ALGORITHMS, DISTINCT_VALUES, Algorithm
from .durations import parse_duration
from .fields import SPECS, FieldSpec, Kind, of_kind
from .matching import Match, Matcher, compile_match
from .messages import _, filled, message_of
from .properties import normalise

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
MAX_LIMIT = 10**12


class Word(StrEnum):
    """A string of a fixed vocabulary, hashed as a string.

    An Enum's own hash is a Python call, and every check hashes such strings.
    """

    __hash__ = str.__hash__


class Action(Word):
    """What a rule does."""

    LIMIT = "limit"
    LOG = "log"
    SKIP = "skip"


class Mode(Word):
    """Whether a ruleset enforces, only reports (every limit acts as log), or is off."""

    ENFORCE = "enforce"
    DRY_RUN = "dry_run"
    OFF = "off"


# Every check compares with it. In Python 3.11 the look-up of an Enum's member takes as long as three function calls.
OFF = Mode.OFF


class FailureMode(Word):
    """The answer to a check that fails: allow, block, or count in this process."""

    OPEN = "open"
    CLOSED = "closed"
    LOCAL = "local"


Limit = int | Callable[..., int]
Period = int | Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a limiter.

    ``limit`` is an integer from 0 to 10^12. ``period`` is a duration: seconds, ``"5m"`` or a timedelta. It is kept as
    seconds. Both may be callables in code. ``ban_for`` is a duration. ``characteristics`` are the properties that it
    counts by, in order. ``expires_at`` is a datetime or an ISO 8601 string with an offset. ``warn_at`` is the
    percentage of the limit at which ``signals.near_limit`` is sent, 0 for never. Raises InvalidRule, a ValueError.
    """

    name: str
    _: KW_ONLY
    action: Action = field(default=SPECS["action"].default)
    match: Match = field(default_factory=SPECS["match"].make_default)
    characteristics: tuple[str, ...] = field(default=SPECS["characteristics"].default)
    limit: Limit | None = field(default=SPECS["limit"].default)
    period: Period | None = field(default=SPECS["period"].default)
    algorithm: Algorithm = field(default=SPECS["algorithm"].default)
    count_distinct: str | None = field(default=SPECS["count_distinct"].default)
    ban_for: int | None = field(default=SPECS["ban_for"].default)
    response: Match | None = field(default=SPECS["response"].default)
    warn_at: int = field(default=SPECS["warn_at"].default)
    enabled: bool = field(default=SPECS["enabled"].default)
    expires_at: datetime | None = field(default=SPECS["expires_at"].default)
    description: str = field(default=SPECS["description"].default)
    owner: str = field(default=SPECS["owner"].default)
    reason: str = field(default=SPECS["reason"].default)
    ticket: str = field(default=SPECS["ticket"].default)
    matcher: Matcher = field(init=False, repr=False, compare=False)
    response_matcher: Matcher | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        name = self.name if isinstance(self.name, str) else None
        try:
            self._normalise()
        except InvalidRule as error:
            raise InvalidRule(error.field, error.reason, rule=name) from error.__cause__

    def has_expired(self, now: datetime) -> bool:
        """Whether ``expires_at`` has passed. An expired rule is ignored."""
        return self.expires_at is not None and self.expires_at <= now

    def _normalise(self) -> None:
        specs = SPECS.values()
        for spec in specs:
            if spec.is_first:
                self._check(spec)
        for spec in specs:
            if not spec.is_first and not spec.is_option:
                self._check(spec)
        options = [spec for spec in specs if spec.is_option]
        self._reject_unused(spec for spec in options if self.action not in spec.actions)
        self._check_options([spec for spec in options if self.action in spec.actions])

    def _reject_unused(self, unused: Iterable[FieldSpec]) -> None:
        """Reject fields that rules of this action don't take."""
        for spec in unused:
            if getattr(self, spec.name) != spec.default:
                if self.action is Action.SKIP:
                    raise InvalidRule(
                        spec.name, _("a skip rule counts nothing and takes no %(field)s", field=spec.name)
                    )
                raise InvalidRule(
                    spec.name,
                    _("a %(action)s rule takes no %(field)s", action=self.action.value, field=spec.name),
                )

    def _check_options(self, options: Sequence[FieldSpec]) -> None:
        """Check the fields that only some actions take."""
        for spec in options:
            if spec.required and getattr(self, spec.name) is None:
                raise InvalidRule(
                    spec.name,
                    _("a %(action)s rule needs a %(field)s", action=self.action.value, field=spec.name),
                )
        for spec in options:
            if not spec.is_first:
                self._check(spec)
        # From the last to the first, because rules are repaired field by field: without the earlier field, the later
        # field would look valid.
        for spec in reversed(options):
            if spec.requirements and getattr(self, spec.name) != spec.default:
                self._check_requirements(spec)

    def _check_requirements(self, spec: FieldSpec) -> None:
        for name, allowed, reason in spec.requirements:
            if getattr(self, name) not in allowed():
                works = ", ".join(map(str, allowed()))
                raise InvalidRule(spec.name, filled(reason, value=str(getattr(self, name)), allowed=works))

    def _check(self, spec: FieldSpec) -> None:
        """Check one field, and convert its value to its canonical form."""
        value = getattr(self, spec.name)
        if value is None and spec.default is None:
            return
        if spec.computed and callable(value):
            if inspect.iscoroutinefunction(value):
                raise InvalidRule(spec.name, _("must be a regular function: async functions are not supported here"))
            return
        if spec.kind is _CONDITIONS:
            matcher = compile_match(value, field=spec.name)
            if spec.name in _MATCHERS:
                object.__setattr__(self, _MATCHERS[spec.name], matcher)
        object.__setattr__(self, spec.name, CHECKS[spec.kind](spec.name, value))

    @property
    def counts(self) -> bool:
        """Whether the rule has counters at all."""
        return self.action is not Action.SKIP

    @property
    def counting(self) -> Algorithm:
        """The algorithm of the rule's counters, which ``count_distinct`` decides before ``algorithm``."""
        return self.algorithm if self.count_distinct is None else DISTINCT_VALUES

    @property
    def properties(self) -> tuple[str, ...]:
        """All properties that the rule asks an identifier for, each once."""
        listed = (name for field in of_kind(Kind.PROPERTIES) for name in getattr(self, field))
        single = (getattr(self, field) for field in of_kind(Kind.PROPERTY))
        return tuple(dict.fromkeys((*self.matcher.properties, *listed, *filter(None, single))))

    def with_changes(self, **changes: Any) -> Rule:
        """Return a checked copy with some fields changed."""
        return replace(self, **changes)


def check_name(name: object, what: str) -> str:
    """Return a limiter's or rule's name. Raises InvalidRule unless it fits ``^[a-z][a-z0-9_]{0,63}$``."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidRule(
            what,
            _(
                "%(value)s is not a valid name: start with a lower-case letter, then use up to 63 lower-case letters,"
                " digits and underscores",
                value=repr(name),
            ),
        )
    return name


def check_limit(limit: object, what: str = "limit") -> int:
    """Return a limit. Raises InvalidRule unless it is an integer from 0 to 10^12."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise InvalidRule(what, _("must be a whole number, not %(value)s", value=repr(limit)))
    if not 0 <= limit <= MAX_LIMIT:
        raise InvalidRule(what, _("%(value)s is out of range: use 0 to 10^12 (0 blocks every call)", value=str(limit)))
    return limit


def check_unique_names(rules: Iterable[Rule]) -> None:
    """Raise InvalidRule if two rules of one tier have the same name."""
    seen: set[str] = set()
    for rule in rules:
        if rule.name in seen:
            raise InvalidRule(
                "name",
                _("the name %(rule)r is used twice: rule names are unique within a tier", rule=rule.name),
                rule=rule.name,
            )
        seen.add(rule.name)


def check_partition(partition_by: object, rules: Iterable[Rule]) -> str | None:
    """Return the property that partitions a ruleset, None if it is not partitioned.

    Raises InvalidRule for an invalid property. Raises InvalidRule also if a rule counts, but not by this property: its
    values would be in several partitions, each with the whole limit.
    """
    if partition_by is None or partition_by == "":
        return None
    name = _property("partition_by", partition_by)
    for rule in rules:
        if rule.counts and name not in rule.characteristics:
            raise InvalidRule(
                "partition_by",
                _("rule %(rule)r does not count by %(property)r: all rules must", rule=rule.name, property=name),
            )
    return name


def _member(what: str, value: object) -> Any:
    choices = CHOICES[what]
    chosen = choices.get(value) if isinstance(value, str) else None
    if chosen is None:
        names = ", ".join(dict.fromkeys(choices.values()))
        reason = _("unknown %(field)s %(value)s, use one of %(known)s", field=what, value=repr(value), known=names)
        raise InvalidRule(what, reason)
    return chosen


def _property(what: str, name: object) -> str:
    try:
        return normalise(name)
    except (TypeError, ValueError) as error:
        raise InvalidRule(what, message_of(error)) from error


def _properties(what: str, names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, (list, tuple)):
        reason = _('must be a list of properties, such as ["user"], not %(value)s', value=repr(names))
        raise InvalidRule(what, reason)
    properties = tuple(_property(what, name) for name in names)
    if len(set(properties)) < len(properties):
        raise InvalidRule(what, _("names a property twice: %(properties)s", properties=", ".join(properties)))
    return properties


def _duration(what: str, value: object) -> int:
    try:
        return parse_duration(value, what=what)
    except (TypeError, ValueError) as error:
        raise InvalidRule(what, message_of(error)) from error


def _moment(what: str, value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            reason = _("%(value)s is not an ISO 8601 date and time", value=repr(value))
            raise InvalidRule(what, reason) from error
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidRule(
            what,
            _(
                "needs a date and time with an offset, such as 2027-01-31T12:00:00+00:00, not %(value)s",
                value=repr(value),
            ),
        )
    return value


def _percent(what: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        reason = _("must be a whole percentage from 0 (never) to 100, not %(value)s", value=repr(value))
        raise InvalidRule(what, reason)
    return value


def _flag(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidRule(what, _("must be true or false, not %(value)s", value=repr(value)))
    return value


def _note(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRule(what, _("must be a string, not %(type)s", type=type(value).__name__))
    return value


# In Python 3.11 the look-up of an Enum's member takes as long as three function calls.
_CONDITIONS = Kind.CONDITIONS
_MATCHERS = {"match": "matcher", "response": "response_matcher"}
# Older names of two actions are accepted, and never written.
_ACTIONS = {**{action.value: action for action in Action}, "block": Action.LIMIT, "allow": Action.SKIP}
CHOICES: dict[str, Mapping[str, str]] = {"action": _ACTIONS, "algorithm": ALGORITHMS}
# By kind: a function of a field's name and value. It returns the value in its canonical form, or raises InvalidRule.
CHECKS: dict[Kind, Callable[[str, Any], object]] = {
    Kind.NAME: lambda what, value: check_name(value, what),
    Kind.CHOICE: _member,
    # Copied, so that no caller can change a rule's conditions after they were compiled.
    Kind.CONDITIONS: lambda what, value: copy.deepcopy(value),
    Kind.PROPERTIES: _properties,
    Kind.PROPERTY: _property,
    Kind.COUNT: lambda what, value: check_limit(value, what),
    Kind.DURATION: _duration,
    Kind.PERCENT: _percent,
    Kind.FLAG: _flag,
    Kind.MOMENT: _moment,
    Kind.NOTE: _note,
}


def as_rule(rule: Rule | Mapping[str, Any]) -> Rule:
    """Return a rule from a Rule or a mapping of its fields. Raises InvalidRule for unknown fields."""
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, Mapping):
        raise InvalidRule("rule", _("must be an object of fields, not %(type)s", type=type(rule).__name__))
    unknown = [str(key) for key in rule if key not in SPECS]
    if unknown:
        reason = _("unknown field: a rule has %(fields)s", fields=", ".join(SPECS))
        raise InvalidRule(unknown[0], reason, rule=str(rule.get("name")))
    if "name" not in rule:
        raise InvalidRule("name", _("a rule needs a name"))
    return Rule(**rule)
