"""The admin tier: rulesets and their rules as rows.

Only :class:`engine.Rule` validates a rule. ``clean()`` makes one, and reports the errors on the invalid fields. The
CHECK constraints reject values that the engine cannot use, even if SQL writes them. Uses neither requests nor other
tiers.
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
from django.utils.functional import lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from . import engine, signals
from .engine import algorithms, messages
from .engine.durations import MAX_DURATION, parse_duration
from .engine.fields import SPECS, Kind, of_kind
from .engine.properties import base_of
from .engine.rules import MAX_LIMIT, check_name
from .exceptions import UNREADABLE, InvalidRule, UnknownProperty
from .identifiers import registry
from .runtime.language import localized

if TYPE_CHECKING:
    BaseDurationField = models.PositiveIntegerField[Any, Any]
else:
    BaseDurationField = models.PositiveIntegerField

_localized_later = lazy(localized, str)
ACTIONS = [
    ("limit", _("limit: block above the limit")),
    ("log", _("log: count only")),
    ("skip", _("skip: allow without counting")),
]
ALGORITHMS = [(algorithm.value, _localized_later(algorithm.label)) for algorithm in algorithms.ALGORITHMS.values()]
MODES = [
    ("", _("not set (enforce)")),
    ("enforce", _("enforce")),
    ("dry_run", _("dry run: block no request")),
    ("off", _("off: count nothing")),
]
FAILURE_MODES = [
    ("", _("not set (use the project's setting)")),
    ("open", _("open: allow every request")),
    ("closed", _("closed: block every request")),
    ("local", _("local: count in each process")),
]

# Properties of a response that a rule with `response` can use, besides headers.
ANSWER_PROPERTIES = ("status", "login")

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def as_stored(moment: datetime) -> datetime:
    """Return a moment as the database stores it. A project without USE_TZ stores local times without a time zone."""
    return moment if timezone.is_aware(timezone.now()) else timezone.make_naive(moment)


class DurationField(BaseDurationField):
    """Whole seconds in the database. Code may also assign ``"1m"``, ``"2h"`` or a timedelta."""

    def deconstruct(self) -> tuple[str, str, Any, Any]:
        """Return Django's integer field, so that migrations don't depend on this class."""
        name, _path, args, options = super().deconstruct()
        return name, "django.db.models.PositiveIntegerField", args, options

    def to_python(self, value: Any) -> Any:
        """Return seconds. Raises ValidationError for a value that is not a duration."""
        if not isinstance(value, (str, timedelta)):
            return super().to_python(value)
        try:
            return _seconds(value)
        except ValueError as error:
            raise ValidationError(localized(error.args[0])) from error

    def get_prep_value(self, value: Any) -> Any:
        """Return seconds for the database. Raises ValueError for a string that is not a duration."""
        return super().get_prep_value(_seconds(value) if isinstance(value, (str, timedelta)) else value)


def _seconds(value: str | timedelta) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        # Fixtures in XML contain seconds as strings.
        return int(value)
    return parse_duration(value)


# Databases with writes that :func:`announced_once` still has to announce. None outside of it.
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
    """Announces bulk writes, because Django sends no signal for them, and all processes must load the new rules."""

    def update(self, **values: Any) -> int:
        """Update the rows and announce the change. ``bulk_update()`` calls this method too."""
        self._for_write = True
        count = super().update(**values)
        _announce(self.model, self.db)
        return count

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(self, objs: Iterable[Any], *args: Any, **options: Any) -> list[Any]:
        """Create the rows and announce the change."""
        self._for_write = True
        created = super().bulk_create(objs, *args, **options)
        _announce(self.model, self.db)
        return created

    bulk_create.alters_data = True  # type: ignore[attr-defined]


class RulesetQuerySet(AnnouncedQuerySet):
    """Rulesets, by their name."""

    def named(self, name: str | None) -> Ruleset | None:
        """Return the ruleset of a limiter. Returns None if the limiter has no ruleset. Accepts any string as a name."""
        # Don't query for NUL, because PostgreSQL raises an error for it.
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
    """The configuration of one limiter in the database."""

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        help_text=_("The limiter's name in code: @rate_limited(“search”) uses the ruleset named search."),
    )
    description = models.TextField(
        _("description"),
        blank=True,
        help_text=_("For your colleagues: the views that it protects, and the person to ask."),
    )
    mode = models.CharField(
        _("mode"),
        max_length=16,
        choices=MODES,
        blank=True,
        help_text=_(
            "Dry run counts and reports as usual, but blocks no request. Use it to lift a harmful limit quickly."
        ),
    )
    failure_mode = models.CharField(
        _("failure mode"),
        max_length=16,
        choices=FAILURE_MODES,
        blank=True,
        help_text=_("What happens to requests while Redis cannot be reached."),
    )
    partition_by = models.CharField(
        _("partition by"),
        max_length=200,
        blank=True,
        help_text=_(
            "On Redis Cluster: spread the counters over all servers by this property, such as user. Every rule that "
            "counts must count by it. A change resets all counters."
        ),
    )
    updated_at = models.DateTimeField(_("last changed"), auto_now=True)
    version = models.PositiveIntegerField(_("version"), null=True, editable=False)

    # Whether the caller also saves and checks the rules. Then the rules in the database may be outdated.
    rules_come_along = False
    # Plain forms of the rules from the ruleset's page, which the save uses again.
    plain_forms: Any = None

    objects = RulesetQuerySet.as_manager()

    class Meta:
        verbose_name = _("ruleset")
        verbose_name_plural = _("rulesets")
        ordering = ("name",)
        permissions = [
            ("change_limits", _("Can change, promote and demote limits")),
            ("write_skip_rules", _("Can write rules that let requests through (skip)")),
            ("switch_rulesets", _("Can switch rulesets to dry run or off, and back")),
            ("reset_counters", _("Can reset counters")),
        ]
        constraints = [
            models.CheckConstraint(name="ratelimit_ruleset_mode", condition=models.Q(mode__in=list(dict(MODES)))),
            models.CheckConstraint(
                name="ratelimit_ruleset_failure", condition=models.Q(failure_mode__in=list(dict(FAILURE_MODES)))
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def natural_key(self) -> tuple[str]:
        """Return the name, because primary keys differ between databases."""
        return (self.name,)

    def clean(self) -> None:
        """Reject a name that a limiter cannot have, and a partition that is not a property."""
        try:
            # Skip an empty name, because the form field rejects it with its own message.
            if self.name:
                check_name(self.name, "name")
            self.partition_by = engine.check_partition(self.partition_by, ()) or ""
        except InvalidRule as error:
            raise ValidationError({error.field: localized(error.reason)}) from error

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """Reject a partition that one of the saved rules does not count by.

        Skips the queries for Django's constraints, because the choices of the fields check the same.
        """
        for rule in self.rules.all() if self.pk and not self.rules_come_along else ():
            if rule.partition_problem(self.partition_by):
                message = gettext("The rule %(rule)s does not count by %(property)s. Every rule must count by it.")
                names = {"rule": rule.name, "property": self.partition_by}
                raise ValidationError({"partition_by": message % names})


class EngineFields(dict[str, Any]):
    """The fields of the engine's rule, and the rule once it is made, because a page uses each rule three times."""

    rule: engine.Rule | None = None


class Rule(models.Model):
    """One rule of a ruleset. Durations are whole seconds. :class:`engine.Rule` describes the fields."""

    ruleset = models.ForeignKey(Ruleset, on_delete=models.CASCADE, related_name="rules", verbose_name=_("ruleset"))
    position = models.PositiveIntegerField(_("position"), default=0)
    name = models.CharField(_("name"), max_length=64)
    action = models.CharField(_("action"), max_length=16, choices=ACTIONS, default=engine.Action.LIMIT.value)
    description = models.TextField(_("description"), blank=True)
    match = models.JSONField(blank=True, default=dict)
    characteristics = models.JSONField(blank=True, default=list)
    limit = models.BigIntegerField(null=True, blank=True)
    period = DurationField(null=True, blank=True)
    algorithm = models.CharField(max_length=32, choices=ALGORITHMS, default=algorithms.DEFAULT.value)
    count_distinct = models.CharField(max_length=200, blank=True)
    ban_for = DurationField(null=True, blank=True)
    response = models.JSONField(null=True, blank=True)
    warn_at = models.PositiveSmallIntegerField(_("warn at"), default=SPECS["warn_at"].default)
    enabled = models.BooleanField(default=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    owner = models.CharField(max_length=200, blank=True)
    reason = models.TextField(blank=True)
    ticket = models.CharField(max_length=500, blank=True)

    objects = RuleQuerySet.as_manager()

    class Meta:
        verbose_name = _("rule")
        verbose_name_plural = _("rules")
        ordering = ("position", "pk")
        constraints = [
            models.UniqueConstraint(name="ratelimit_rule_name", fields=["ruleset", "name"]),
            models.CheckConstraint(name="ratelimit_rule_action", condition=models.Q(action__in=list(dict(ACTIONS)))),
            models.CheckConstraint(
                name="ratelimit_rule_algorithm", condition=models.Q(algorithm__in=list(algorithms.ALGORITHMS))
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
        """Return the names of the ruleset and of the rule."""
        return (self.ruleset.name, self.name)

    natural_key.dependencies = ["django_ratelimit_rules.ruleset"]  # type: ignore[attr-defined]

    def to_engine(self) -> engine.Rule:
        """Return the engine's rule. Raises InvalidRule if the row is not a valid rule."""
        return made_of(self.engine_fields())

    def engine_fields(self) -> EngineFields:
        """Return the fields of the engine's rule, unchecked. Returns the same object until a column changes."""
        columns = [getattr(self, name) for name in SPECS]
        kept: tuple[list[Any], EngineFields] | None = self.__dict__.get("_engine_fields")
        # Compare by identity, because Python's 1, 1.0 and True are equal, but differ in a condition.
        if kept is not None and all(map(operator.is_, kept[0], columns)):
            return kept[1]
        values = zip(SPECS.values(), columns, strict=True)
        fields = EngineFields({spec.name: _from_column(spec.kind, value) for spec, value in values})
        self.__dict__["_engine_fields"] = (columns, fields)
        return fields

    def problems(self) -> dict[str, str]:
        """Return all errors of the rule by field. Returns an empty dict if the rule is valid."""
        fields = dict(self.engine_fields())
        errors: dict[str, str] = {}
        while True:
            try:
                rule = engine.Rule(**fields)
            except InvalidRule as error:
                if error.field in errors or error.field == "action":
                    # The valid options of a rule depend on its action, so without it they cannot be checked.
                    return {**errors, error.field: error.reason}
                errors[error.field] = error.reason
                _put_right(fields, error.field)
            else:
                return {**unknown_properties(rule), **_unstorable(self.engine_fields()), **errors}

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        """Reject infinite numbers on their field, because Django's fields raise OverflowError for them."""
        whole = ("position", *of_kind(Kind.COUNT, Kind.DURATION, Kind.PERCENT))
        endless = [name for name in whole if isinstance(value := getattr(self, name), float) and math.isinf(value)]
        if endless:
            raise ValidationError(dict.fromkeys(endless, _("Enter a whole number.")))
        super().clean_fields(exclude=exclude)

    def clean(self) -> None:
        """Reject values that the engine rejects, unknown properties, and a rule that ignores the partition."""
        errors = self.problems()
        if not errors and (self.ruleset_id is not None or Rule.ruleset.is_cached(self)):
            errors = self.partition_problem(self.ruleset.partition_by)
        if errors:
            raise ValidationError({field: localized(reason) for field, reason in errors.items()})

    def partition_problem(self, partition_by: str) -> dict[str, str]:
        """Return the error of the rule in a ruleset with this partition, by field. Ignores an invalid row."""
        if not partition_by:
            return {}
        try:
            rule = self.to_engine()
        except UNREADABLE:
            return {}
        if not rule.counts or partition_by in rule.characteristics:
            return {}
        message = messages._(
            "The ruleset is partitioned by %(property)s: every rule must count by it.", property=partition_by
        )
        return {"characteristics": message}

    def validate_unique(self, exclude: Collection[str] | None = None) -> None:
        """Reject a name that another rule of the ruleset has, and report it on the name."""
        twins = Rule.objects.filter(ruleset=self.ruleset_id, name=self.name).exclude(pk=self.pk)
        if "name" not in (exclude or ()) and self.ruleset_id is not None and twins.exists():
            message = gettext("The ruleset already has a rule “%(name)s”. Names are unique within a ruleset.")
            raise ValidationError({"name": message % {"name": self.name}})
        super().validate_unique(exclude)

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """Do nothing, because :meth:`clean` checks the same with better messages and without queries."""


# Keep the members as globals, because in Python 3.11 the access to an Enum's member is as slow as three calls.
_MOMENT, _PROPERTY = Kind.MOMENT, Kind.PROPERTY


def _from_column(kind: Kind, value: Any) -> Any:
    """Return the engine's value for the value of a column."""
    if kind is _PROPERTY:
        return value or None
    if kind is _MOMENT and isinstance(value, datetime) and timezone.is_naive(value):
        # A project without USE_TZ stores local times without a time zone.
        return timezone.make_aware(value)
    return value


def is_storable(text: str) -> bool:
    """Whether every database stores the string. PostgreSQL rejects NUL and lone surrogates, in JSON too."""
    return _UNSTORABLE.search(text) is None


def _unstorable(fields: Mapping[str, Any]) -> dict[str, str]:
    reason = messages._("has a character that not every database keeps (NUL, or a lone surrogate)")
    return {name: reason for name, value in fields.items() if not all(map(is_storable, _strings(value)))}


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _strings(key)
            yield from _strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)


def made_of(fields: Mapping[str, Any]) -> engine.Rule:
    """Return the engine's rule with these fields, made once for the fields of a row. Raises InvalidRule."""
    if not isinstance(fields, EngineFields):
        return engine.Rule(**fields)
    if fields.rule is None:
        fields.rule = engine.Rule(**fields)
    return fields.rule


def _put_right(fields: dict[str, Any], field: str) -> None:
    """Replace a rejected value by a valid one, so that the next error of the rule is found too."""
    stand_ins: dict[str, Any] = {"name": "unnamed"}
    if fields["action"] != engine.Action.SKIP:
        stand_ins |= {spec.name: 1 for spec in SPECS.values() if spec.required}
    if field in stand_ins:
        fields[field] = stand_ins[field]
    else:
        del fields[field]


def unknown_properties(rule: engine.Rule) -> dict[str, str]:
    """Return the errors of a valid rule's properties by field."""
    used = {
        "match": rule.matcher.properties,
        **{field: getattr(rule, field) for field in of_kind(Kind.PROPERTIES)},
        **{field: (name,) for field in of_kind(Kind.PROPERTY) if (name := getattr(rule, field))},
    }
    errors: dict[str, str] = {}
    for field, names in used.items():
        for name in names:
            try:
                registry.find(name)
            except UnknownProperty as error:
                errors.setdefault(field, error.args[0])
    for name in rule.response_matcher.properties if rule.response_matcher else ():
        if base_of(name) not in ANSWER_PROPERTIES and not name.startswith("header."):
            reason = messages._(
                "'%(name)s' is not a property of a response: use status, login or header.<name>", name=name
            )
            errors.setdefault("response", reason)
    return errors


class RulesetVersion(models.Model):
    """The content of a ruleset after a change, with the user and the reason. Outlives the ruleset and the user.

    ``content`` is the ruleset in its plain form (see :mod:`rulesets.text`), or None after the ruleset was deleted.
    ``unreadable`` has the text of a version of an earlier release that could not be converted to that form.
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
        verbose_name = _("ruleset version")
        verbose_name_plural = _("ruleset versions")
        ordering = ("ruleset", "-number")
        constraints = [models.UniqueConstraint(name="ratelimit_version", fields=["ruleset", "number"])]

    def __str__(self) -> str:
        return f"{self.ruleset} version {self.number}"


@receiver([post_save, post_delete], sender=Ruleset)
@receiver([post_save, post_delete], sender=Rule)
def _written(sender: type[models.Model], using: str, **_: object) -> None:
    # Use signals, because fixtures, cascades and QuerySet.delete() don't call save() or delete().
    _announce(sender, using)
