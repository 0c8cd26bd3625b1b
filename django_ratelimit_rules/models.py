"""The admin tier: rulesets and their rules as rows.

What a rule may say is decided by :class:`engine.Rule` alone; ``clean()`` makes one and puts what it refuses on the
field concerned. The CHECK constraints keep out what no engine could read, even when it is written behind Django's back.
Knows nothing of requests, and of the other tiers nothing either.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.utils import timezone

from . import engine, signals
from .engine import algorithms
from .engine.durations import MAX_DURATION, parse_duration
from .engine.fields import SPECS, Kind, of_kind
from .engine.properties import base_of
from .engine.rules import MAX_LIMIT, check_name
from .exceptions import UNREADABLE, InvalidRule, UnknownProperty
from .identifiers import registry

if TYPE_CHECKING:
    BaseDurationField = models.PositiveIntegerField[Any, Any]
else:
    BaseDurationField = models.PositiveIntegerField

ACTIONS = [("limit", "limit: block above the limit"), ("log", "log: count only"), ("skip", "skip: let through")]
ALGORITHMS = [(algorithm.value, algorithm.label) for algorithm in algorithms.ALGORITHMS.values()]
MODES = [
    ("", "not stated (enforce)"),
    ("enforce", "enforce"),
    ("dry_run", "dry run: block nobody"),
    ("off", "off: count nothing"),
]
FAILURE_MODES = [
    ("", "not stated (as the project's settings say)"),
    ("open", "open: let through"),
    ("closed", "closed: refuse"),
    ("local", "local: count in each process"),
]

# What a rule with `response` may ask about an answer.
ANSWER_PROPERTIES = ("status", "login")

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def as_stored(moment: datetime) -> datetime:
    """Return a moment as the database has it: a project without USE_TZ stores local times without a zone."""
    return moment if timezone.is_aware(timezone.now()) else timezone.make_naive(moment)


class DurationField(BaseDurationField):
    """Whole seconds in the database; ``"1m"``, ``"2h"`` and timedeltas are understood wherever code writes one."""

    def deconstruct(self) -> tuple[str, str, Any, Any]:
        """Be the plain column to migrations."""
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.PositiveIntegerField", args, options

    def to_python(self, value: Any) -> Any:
        """Return seconds. Raises ValidationError for what is not a duration."""
        if not isinstance(value, (str, timedelta)):
            return super().to_python(value)
        try:
            return _seconds(value)
        except ValueError as error:
            raise ValidationError(str(error)) from error

    def get_prep_value(self, value: Any) -> Any:
        """Return seconds for the database. Raises ValueError for what is not a duration."""
        return super().get_prep_value(_seconds(value) if isinstance(value, (str, timedelta)) else value)


def _seconds(value: str | timedelta) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        # As fixtures in XML have them.
        return int(value)
    return parse_duration(value)


# Databases with writes that :func:`announced_once` still has to announce, None outside of it.
_unannounced: ContextVar[set[str] | None] = ContextVar("unannounced", default=None)


@contextmanager
def announced_once() -> Iterator[None]:
    """Announce all writes of the block at its end, once for each database. Announces nothing if the block raises."""
    if _unannounced.get() is not None:
        yield
        return
    written: set[str] = set()
    token = _unannounced.set(written)
    try:
        yield
    finally:
        _unannounced.reset(token)
    for using in sorted(written):
        signals.rules_changed.send(sender=Ruleset, using=using)


def _announce(sender: type[models.Model], using: str) -> None:
    written = _unannounced.get()
    if written is None:
        signals.rules_changed.send(sender=sender, using=using)
    else:
        written.add(using)


class AnnouncedQuerySet(models.QuerySet[Any]):
    """Announces the writes that send no signal of Django's, so that rules changed in bulk are in force as soon."""

    def update(self, **values: Any) -> int:
        """Update the rows, as Django does, and announce it; ``bulk_update()`` comes here too."""
        self._for_write = True
        count = super().update(**values)
        _announce(self.model, self.db)
        return count

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(self, objs: Iterable[Any], *args: Any, **options: Any) -> list[Any]:
        """Create the rows, as Django does, and announce it."""
        self._for_write = True
        created = super().bulk_create(objs, *args, **options)
        _announce(self.model, self.db)
        return created

    bulk_create.alters_data = True  # type: ignore[attr-defined]


class RulesetQuerySet(AnnouncedQuerySet):
    """Rulesets, by their name."""

    def named(self, name: str | None) -> Ruleset | None:
        """Return the ruleset of a limiter, None where there is none, whatever was typed for a name."""
        # PostgreSQL takes no NUL, not even to say that nothing is called so.
        ruleset: Ruleset | None = None if not name or "\0" in name else self.filter(name=name).first()
        return ruleset

    def get_by_natural_key(self, name: str) -> Ruleset:
        """Return the ruleset of a limiter."""
        ruleset: Ruleset = self.get(name=name)
        return ruleset


class RuleQuerySet(AnnouncedQuerySet):
    """Rules, by their ruleset's name and their own."""

    def get_by_natural_key(self, ruleset: str, name: str) -> Rule:
        """Return one rule of a ruleset."""
        rule: Rule = self.get(ruleset__name=ruleset, name=name)
        return rule


class Ruleset(models.Model):
    """What the database says of one limiter."""

    name = models.CharField(
        max_length=64,
        unique=True,
        help_text="The limiter's name as written in code: @rate_limited(“search”) uses the ruleset named search.",
    )
    description = models.TextField(blank=True, help_text="For people: what is protected here, and whom to ask.")
    mode = models.CharField(
        max_length=16,
        choices=MODES,
        blank=True,
        help_text="Dry run counts and reports as usual, but blocks nobody: the quick way out of a limit that hurts.",
    )
    failure_mode = models.CharField(
        max_length=16,
        choices=FAILURE_MODES,
        blank=True,
        help_text="What answers requests while Redis cannot be reached.",
    )
    partition_by = models.CharField(
        max_length=200,
        blank=True,
        help_text="On Redis Cluster: spread the counters over all servers by this property, such as user. Every rule "
        "that counts must count by it. Changing it starts all counts afresh.",
    )
    updated_at = models.DateTimeField("last changed", auto_now=True)
    version = models.PositiveIntegerField(null=True, editable=False)

    # Whether whoever saves the ruleset saves its rules as well and checks them: those in the database may be outdated.
    rules_come_along = False
    # Plain forms of rules that the page of the ruleset has made, for the save that may follow.
    plain_forms: Any = None

    objects = RulesetQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        permissions = [
            ("change_limits", "Can change, promote and demote limits"),
            ("write_skip_rules", "Can write rules that let requests through (skip)"),
            ("switch_rulesets", "Can switch rulesets to dry run or off, and back"),
            ("reset_counters", "Can reset counters"),
        ]
        constraints = [
            models.CheckConstraint(
                name="ratelimit_ruleset_mode", condition=models.Q(mode__in=[mode for mode, _ in MODES])
            ),
            models.CheckConstraint(
                name="ratelimit_ruleset_failure",
                condition=models.Q(failure_mode__in=[mode for mode, _ in FAILURE_MODES]),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def natural_key(self) -> tuple[str]:
        """Return the name: primary keys differ between databases."""
        return (self.name,)

    def clean(self) -> None:
        """Refuse a name that no limiter can have, and a partition that is no property."""
        try:
            # That there must be one the field says itself.
            if self.name:
                check_name(self.name, "name")
            self.partition_by = engine.check_partition(self.partition_by, ()) or ""
        except InvalidRule as error:
            raise ValidationError({error.field: error.reason}) from error

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """Refuse a partition that one of the saved rules does not count by.

        What the constraints say, the fields' choices say as well, and ask no database.
        """
        for rule in self.rules.all() if self.pk and not self.rules_come_along else ():
            if rule.partition_problem(self.partition_by):
                message = f"The rule {rule.name} does not count by {self.partition_by}; every rule must."
                raise ValidationError({"partition_by": message})


class EngineFields(dict[str, Any]):
    """The fields of the engine's rule, and the rule once it is made: a page needs each of hundreds of rules thrice."""

    rule: engine.Rule | None = None


class Rule(models.Model):
    """One rule of a ruleset. Durations are whole seconds; the fields mean what :class:`engine.Rule` says."""

    ruleset = models.ForeignKey(Ruleset, on_delete=models.CASCADE, related_name="rules")
    position = models.PositiveIntegerField(default=0)
    name = models.CharField(max_length=64)
    action = models.CharField(max_length=16, choices=ACTIONS, default=engine.Action.LIMIT.value)
    description = models.TextField(blank=True)
    match = models.JSONField(blank=True, default=dict)
    characteristics = models.JSONField(blank=True, default=list)
    limit = models.BigIntegerField(null=True, blank=True)
    period = DurationField(null=True, blank=True)
    algorithm = models.CharField(max_length=32, choices=ALGORITHMS, default=algorithms.DEFAULT.value)
    count_distinct = models.CharField(max_length=200, blank=True)
    ban_for = DurationField(null=True, blank=True)
    response = models.JSONField(null=True, blank=True)
    warn_at = models.PositiveSmallIntegerField("warn at", default=SPECS["warn_at"].default)
    enabled = models.BooleanField(default=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    owner = models.CharField(max_length=200, blank=True)
    reason = models.TextField(blank=True)
    ticket = models.CharField(max_length=500, blank=True)

    objects = RuleQuerySet.as_manager()

    class Meta:
        ordering = ("position", "pk")
        constraints = [
            models.UniqueConstraint(name="ratelimit_rule_name", fields=["ruleset", "name"]),
            models.CheckConstraint(
                name="ratelimit_rule_action", condition=models.Q(action__in=[action for action, _ in ACTIONS])
            ),
            models.CheckConstraint(
                name="ratelimit_rule_algorithm", condition=models.Q(algorithm__in=[name for name, _ in ALGORITHMS])
            ),
            models.CheckConstraint(name="ratelimit_rule_limit", condition=models.Q(limit__range=(0, MAX_LIMIT))),
            models.CheckConstraint(name="ratelimit_rule_period", condition=models.Q(period__range=(1, MAX_DURATION))),
            models.CheckConstraint(name="ratelimit_rule_ban", condition=models.Q(ban_for__range=(1, MAX_DURATION))),
            models.CheckConstraint(name="ratelimit_rule_warn", condition=models.Q(warn_at__range=(0, 100))),
            models.CheckConstraint(
                name="ratelimit_rule_skip",
                condition=models.Q(action="skip", limit=None, period=None, ban_for=None, count_distinct="")
                | models.Q(action__in=["limit", "log"], limit__isnull=False, period__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def natural_key(self) -> tuple[str, str]:
        """Return the ruleset's name and the rule's."""
        return (self.ruleset.name, self.name)

    natural_key.dependencies = ["django_ratelimit_rules.ruleset"]  # type: ignore[attr-defined]

    def to_engine(self) -> engine.Rule:
        """Return the rule as the engine has it. Raises InvalidRule for a row that reads as no rule."""
        return made_of(self.engine_fields())

    def engine_fields(self) -> EngineFields:
        """Return the fields of the engine's rule, unchecked. They are the same object until a column changes."""
        columns = [getattr(self, name) for name in SPECS]
        kept: tuple[list[Any], EngineFields] | None = self.__dict__.get("_engine_fields")
        # By identity, because to Python 1, 1.0 and True are equal, but conditions tell them apart.
        if kept is not None and all(map(operator.is_, kept[0], columns)):
            return kept[1]
        values = zip(SPECS.values(), columns, strict=True)
        fields = EngineFields({spec.name: _from_column(spec.kind, value) for spec, value in values})
        self.__dict__["_engine_fields"] = (columns, fields)
        return fields

    def problems(self) -> dict[str, str]:
        """Return what is wrong with the rule, by field, all at once; nothing when it is fit to be saved."""
        fields = dict(self.engine_fields())
        found: dict[str, str] = {}
        while True:
            try:
                rule = engine.Rule(**fields)
            except InvalidRule as error:
                if error.field in found or error.field == "action":
                    # Without its action nothing can be said about the options of a rule.
                    return {**found, error.field: error.reason}
                found[error.field] = error.reason
                _put_right(fields, error.field)
            else:
                return {**unknown_properties(rule), **_unstorable(self.engine_fields()), **found}

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        """Refuse numbers without end on their field: Django's own fields raise OverflowError for them."""
        whole = ("position", *of_kind(Kind.COUNT, Kind.DURATION, Kind.PERCENT))
        endless = [name for name in whole if isinstance(value := getattr(self, name), float) and math.isinf(value)]
        if endless:
            raise ValidationError(dict.fromkeys(endless, "Enter a whole number."))
        super().clean_fields(exclude=exclude)

    def clean(self) -> None:
        """Refuse what the engine refuses, properties that nobody provides, and not to count by the partition."""
        found = self.problems()
        if not found and (self.ruleset_id is not None or Rule.ruleset.is_cached(self)):
            found = self.partition_problem(self.ruleset.partition_by)
        if found:
            raise ValidationError(dict(found))

    def partition_problem(self, partition_by: str) -> dict[str, str]:
        """Return what is wrong with the rule in a ruleset that is partitioned so, by field; nothing for bad rows."""
        if not partition_by:
            return {}
        try:
            rule = self.to_engine()
        except UNREADABLE:
            return {}
        if not rule.counts or partition_by in rule.characteristics:
            return {}
        return {"characteristics": f"The ruleset is partitioned by {partition_by}: every rule must count by it."}

    def validate_unique(self, exclude: Collection[str] | None = None) -> None:
        """Refuse a name used twice in the ruleset, on the name."""
        twins = Rule.objects.filter(ruleset=self.ruleset_id, name=self.name).exclude(pk=self.pk)
        if "name" not in (exclude or ()) and self.ruleset_id is not None and twins.exists():
            message = f"The ruleset has a rule {self.name!r} already; names are unique within a ruleset."
            raise ValidationError({"name": message})
        super().validate_unique(exclude)

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """Leave that to :meth:`clean`, which says more on the field concerned, and asks no database."""


# In Python 3.11 a member of an Enum takes as long to find as three functions to call.
_MOMENT, _PROPERTY = Kind.MOMENT, Kind.PROPERTY


def _from_column(kind: Kind, value: Any) -> Any:
    """Return the value of a column as the engine takes it."""
    if kind is _PROPERTY:
        return value or None
    if kind is _MOMENT and isinstance(value, datetime) and timezone.is_naive(value):
        # A project without USE_TZ stores local times.
        return timezone.make_aware(value)
    return value


def is_storable(text: str) -> bool:
    """Whether every database keeps such a text: PostgreSQL takes neither NUL nor a lone surrogate, in JSON either."""
    return _UNSTORABLE.search(text) is None


def _unstorable(fields: Mapping[str, Any]) -> dict[str, str]:
    reason = "holds a character that not every database keeps (NUL, or a lone surrogate)"
    return {name: reason for name, value in fields.items() if not all(map(is_storable, _texts(value)))}


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)


def made_of(fields: Mapping[str, Any]) -> engine.Rule:
    """Return the rule of these fields, made once for the fields of a row. Raises InvalidRule, as the engine does."""
    if not isinstance(fields, EngineFields):
        return engine.Rule(**fields)
    if fields.rule is None:
        fields.rule = engine.Rule(**fields)
    return fields.rule


def _put_right(fields: dict[str, Any], field: str) -> None:
    """Replace a refused value by one that passes, so that the next problem of the rule shows as well."""
    stand_ins: dict[str, Any] = {"name": "unnamed"}
    if fields["action"] != engine.Action.SKIP:
        stand_ins |= {spec.name: 1 for spec in SPECS.values() if spec.required}
    if field in stand_ins:
        fields[field] = stand_ins[field]
    else:
        del fields[field]


def unknown_properties(rule: engine.Rule) -> dict[str, str]:
    """Return what is wrong with the properties of a rule that is one, by field."""
    asked = {
        "match": rule.matcher.properties,
        **{field: getattr(rule, field) for field in of_kind(Kind.PROPERTIES)},
        **{field: (name,) for field in of_kind(Kind.PROPERTY) if (name := getattr(rule, field))},
    }
    found: dict[str, str] = {}
    for field, names in asked.items():
        for name in names:
            try:
                registry.find(name)
            except UnknownProperty as error:
                found.setdefault(field, str(error))
    for name in rule.response_matcher.properties if rule.response_matcher else ():
        if base_of(name) not in ANSWER_PROPERTIES and not name.startswith("header."):
            found.setdefault(
                "response", f"{name!r} is not a property of a response; use status, login or header.<name>"
            )
    return found


class RulesetVersion(models.Model):
    """What a ruleset said from some moment on, who made it so, and why. Outlives the ruleset and the user.

    ``content`` is the ruleset in its plain form (see :mod:`rulesets.text`), None once the ruleset was deleted.
    ``unreadable`` holds the text of a version of an earlier release that could not be turned into that form.
    """

    ruleset = models.CharField(max_length=64)
    number = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    user = models.CharField(max_length=254, blank=True)
    action = models.CharField(max_length=200, blank=True)
    reason = models.TextField(blank=True)
    content = models.JSONField(null=True, blank=True)
    unreadable = models.TextField(blank=True)

    class Meta:
        ordering = ("ruleset", "-number")
        constraints = [models.UniqueConstraint(name="ratelimit_version", fields=["ruleset", "number"])]

    def __str__(self) -> str:
        return f"{self.ruleset} version {self.number}"


@receiver([post_save, post_delete], sender=Ruleset)
@receiver([post_save, post_delete], sender=Rule)
def _written(sender: type[models.Model], using: str, **_: object) -> None:
    # Listening rather than overriding save() and delete(): fixtures, cascades and QuerySet.delete() call neither.
    _announce(sender, using)
