"""Rules and rulesets as values: a rule checks itself when it is made, so that a bad one never reaches a request.

The one validator of the app: the admin, the file tier and code all make a :class:`Rule` and show what it says.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..exceptions import InvalidRule
from .durations import parse_duration
from .matching import Match, Matcher, compile_match
from .properties import normalise

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
MAX_LIMIT = 10**12
# Percent of a limit at which a counter is said to be near it.
WARN_AT = 80

# For people; nothing is decided by them.
NOTES = ("description", "owner", "reason", "ticket")


class Word(StrEnum):
    """A text of a fixed vocabulary, hashed as the text it is: an Enum's own hash is a Python call, on every check."""

    __hash__ = str.__hash__


class Action(Word):
    """What a rule does. ``block`` and ``allow`` are read as the older names of ``limit`` and ``skip``."""

    LIMIT = "limit"
    LOG = "log"
    SKIP = "skip"

    @classmethod
    def _missing_(cls, value: object) -> Action | None:
        return {"block": cls.LIMIT, "allow": cls.SKIP}.get(value) if isinstance(value, str) else None


class Algorithm(Word):
    """How a rule counts."""

    FIXED_WINDOW = "fixed_window"
    SLIDING_WINDOW = "sliding_window"
    TOKEN_BUCKET = "token_bucket"


class Mode(Word):
    """Whether a ruleset enforces, only reports (every limit acts as log), or is off."""

    ENFORCE = "enforce"
    DRY_RUN = "dry_run"
    OFF = "off"


# On every check; in Python 3.11 a member of an Enum takes as long to find as three functions to call.
OFF = Mode.OFF


class FailureMode(Word):
    """What answers when a check fails: allow, block, or counters of this process."""

    OPEN = "open"
    CLOSED = "closed"
    LOCAL = "local"


Limit = int | Callable[..., int]
Period = int | Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a limiter.

    ``limit`` is an integer from 0 to 10^12 and ``period`` a duration (seconds, ``"5m"``, timedelta; kept as seconds);
    both may be callables in code. ``ban_for`` is a duration. ``characteristics`` are the properties counted by, in
    order. ``expires_at`` is a datetime or ISO 8601 text with an offset. ``warn_at`` is the percentage of the limit at
    which ``signals.near_limit`` is sent, 0 for never. Raises InvalidRule, a ValueError.
    """

    name: str
    action: Action = field(default=Action.LIMIT, kw_only=True)
    match: Match = field(default_factory=dict, kw_only=True)
    characteristics: tuple[str, ...] = field(default=(), kw_only=True)
    limit: Limit | None = field(default=None, kw_only=True)
    period: Period | None = field(default=None, kw_only=True)
    algorithm: Algorithm = field(default=Algorithm.FIXED_WINDOW, kw_only=True)
    count_distinct: str | None = field(default=None, kw_only=True)
    ban_for: int | None = field(default=None, kw_only=True)
    response: Match | None = field(default=None, kw_only=True)
    warn_at: int = field(default=WARN_AT, kw_only=True)
    enabled: bool = field(default=True, kw_only=True)
    expires_at: datetime | None = field(default=None, kw_only=True)
    description: str = field(default="", kw_only=True)
    owner: str = field(default="", kw_only=True)
    reason: str = field(default="", kw_only=True)
    ticket: str = field(default="", kw_only=True)
    matcher: Matcher = field(init=False, repr=False, compare=False)
    response_matcher: Matcher | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        name = self.name if isinstance(self.name, str) else None
        try:
            self._normalise()
        except InvalidRule as error:
            raise InvalidRule(error.field, error.reason, rule=name) from error.__cause__

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def has_expired(self, now: datetime) -> bool:
        """Whether ``expires_at`` has come: the rule is then as if it were not there."""
        return self.expires_at is not None and self.expires_at <= now

    def _normalise(self) -> None:
        self._set(name=check_name(self.name, "name"))
        self._set(
            action=_member(Action, self.action, "action"), algorithm=_member(Algorithm, self.algorithm, "algorithm")
        )
        self._set(matcher=compile_match(self.match))
        # Copied, so that nobody can change a rule's conditions behind its compiled matcher.
        self._set(match=copy.deepcopy(self.match))
        self._set(characteristics=_characteristics(self.characteristics))
        if not isinstance(self.enabled, bool):
            raise InvalidRule("enabled", f"must be true or false, not {self.enabled!r}")
        for note in NOTES:
            if not isinstance(getattr(self, note), str):
                raise InvalidRule(note, f"must be a text, not {type(getattr(self, note)).__name__}")
        self._set(expires_at=_expiry(self.expires_at))
        if self.action is Action.SKIP:
            self._refuse_counting_options()
        else:
            self._check_counting()

    def _refuse_counting_options(self) -> None:
        for option in ("limit", "period", "count_distinct", "ban_for", "response"):
            if getattr(self, option) is not None:
                raise InvalidRule(option, "a skip rule counts nothing and takes no " + option)
        if self.algorithm is not Algorithm.FIXED_WINDOW:
            raise InvalidRule("algorithm", "a skip rule counts nothing and takes no algorithm")
        if self.warn_at != WARN_AT:
            raise InvalidRule("warn_at", "a skip rule counts nothing and takes no warn_at")

    def _check_counting(self) -> None:
        for option in ("limit", "period"):
            if getattr(self, option) is None:
                raise InvalidRule(option, f"a {self.action} rule needs a {option}")
        for option in ("limit", "period"):
            if inspect.iscoroutinefunction(getattr(self, option)):
                raise InvalidRule(option, "must be a plain function, because planning awaits nothing")
        if not callable(self.limit):
            self._set(limit=check_limit(self.limit))
        if not callable(self.period):
            self._set(period=_duration("period", self.period))
        if isinstance(self.warn_at, bool) or not isinstance(self.warn_at, int) or not 0 <= self.warn_at <= 100:
            raise InvalidRule("warn_at", f"must be a whole percentage from 0 (never) to 100, not {self.warn_at!r}")
        if self.ban_for is not None:
            self._set(ban_for=_duration("ban_for", self.ban_for))
        if self.count_distinct is not None:
            self._set(count_distinct=_property("count_distinct", self.count_distinct))
            if self.ban_for is not None:
                raise InvalidRule("ban_for", "does not go with count_distinct: a value already seen must always pass")
            if self.algorithm is not Algorithm.FIXED_WINDOW:
                raise InvalidRule("count_distinct", f"works with fixed_window only, not {self.algorithm}")
        if self.response is not None:
            self._set(response_matcher=compile_match(self.response, field="response"))
            self._set(response=copy.deepcopy(self.response))

    @property
    def counts(self) -> bool:
        """Whether the rule has counters at all."""
        return self.action is not Action.SKIP

    @property
    def properties(self) -> tuple[str, ...]:
        """All properties that the rule asks an identifier for, each once."""
        distinct = (self.count_distinct,) if self.count_distinct else ()
        return tuple(dict.fromkeys((*self.matcher.properties, *self.characteristics, *distinct)))

    def with_changes(self, **changes: Any) -> Rule:
        """Return a checked copy with some fields changed."""
        return replace(self, **changes)


def check_name(name: object, what: str) -> str:
    """Return a limiter's or rule's name. Raises InvalidRule unless it fits ``^[a-z][a-z0-9_]{0,63}$``."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidRule(
            what,
            f"{name!r} is not a valid name: start with a lower-case letter, then use up to 63 lower-case letters,"
            " digits and underscores",
        )
    return name


def check_limit(limit: object) -> int:
    """Return a limit. Raises InvalidRule unless it is an integer from 0 to 10^12."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise InvalidRule("limit", f"must be a whole number, not {limit!r}")
    if not 0 <= limit <= MAX_LIMIT:
        raise InvalidRule("limit", f"{limit} is out of range: use 0 to 10^12 (0 lets nothing through)")
    return limit


def check_unique_names(rules: Iterable[Rule]) -> None:
    """Raise InvalidRule when two rules of one tier have one name."""
    seen: set[str] = set()
    for rule in rules:
        if rule.name in seen:
            raise InvalidRule(
                "name", f"the name {rule.name!r} is used twice; rule names are unique within a tier", rule=rule.name
            )
        seen.add(rule.name)


def check_partition(partition_by: object, rules: Iterable[Rule]) -> str | None:
    """Return the property that partitions a ruleset, None when there is none.

    Raises InvalidRule for what is no property, and unless all rules that count do so by it: a counter's values would be
    in several places otherwise, each with the whole limit.
    """
    if partition_by is None or partition_by == "":
        return None
    name = _property("partition_by", partition_by)
    for rule in rules:
        if rule.counts and name not in rule.characteristics:
            raise InvalidRule("partition_by", f"rule {rule.name!r} does not count by {name!r}; all rules must")
    return name


def _member(enum: type[Any], value: object, what: str) -> Any:
    try:
        return enum(value)
    except ValueError:
        choices = ", ".join(member.value for member in enum)
        raise InvalidRule(what, f"unknown {what} {value!r}; use one of {choices}") from None


def _property(what: str, name: object) -> str:
    try:
        return normalise(name)
    except (TypeError, ValueError) as error:
        raise InvalidRule(what, str(error)) from error


def _characteristics(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, (list, tuple)):
        raise InvalidRule("characteristics", f'must be a list of properties, such as ["user"], not {names!r}')
    properties = tuple(_property("characteristics", name) for name in names)
    if len(set(properties)) < len(properties):
        raise InvalidRule("characteristics", f"names a property twice: {', '.join(properties)}")
    return properties


def _duration(what: str, value: object) -> int:
    try:
        return parse_duration(value, what=what)
    except (TypeError, ValueError) as error:
        raise InvalidRule(what, str(error)) from error


def _expiry(value: object) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise InvalidRule("expires_at", f"{value!r} is not an ISO 8601 date and time") from error
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidRule(
            "expires_at", f"needs a date and time with an offset, such as 2027-01-31T12:00:00+00:00, not {value!r}"
        )
    return value


def as_rule(rule: Rule | Mapping[str, Any]) -> Rule:
    """Return a rule from a Rule or a mapping of its fields. Raises InvalidRule for unknown fields."""
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, Mapping):
        raise InvalidRule("rule", f"must be an object of fields, not {type(rule).__name__}")
    unknown = [str(key) for key in rule if key not in FIELDS]
    if unknown:
        raise InvalidRule(unknown[0], f"unknown field; a rule has {', '.join(FIELDS)}", rule=str(rule.get("name")))
    if "name" not in rule:
        raise InvalidRule("name", "a rule needs a name")
    return Rule(**rule)


FIELDS = tuple(name for name in Rule.__dataclass_fields__ if name not in ("matcher", "response_matcher"))
