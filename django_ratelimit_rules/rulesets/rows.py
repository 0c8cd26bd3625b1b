"""Loads the admin tier from the database. Only rulesets that changed since the last load are made into rules.

The rows go in, and rules by limiter come out. An unchanged ruleset keeps its objects. To make and compile thousands of
rules after each change of one rule would slow down the requests that are served at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

from django.db import connections, router, transaction
from django.db.models import BooleanField, DateTimeField, JSONField, QuerySet, TextField
from django.db.models.functions import Cast

from ..engine import check_partition
from ..exceptions import UNREADABLE, InvalidRule
from .tiers import TierRules, tier_rules

logger = logging.getLogger(__name__)

Columns = tuple[Any, ...]
AS_TEXT = (BooleanField, DateTimeField, JSONField)


class MadeOfRows(Protocol):
    """A result that was made from one ruleset's rows, together with these rows."""

    @property
    def rows(self) -> list[Columns]:
        """The columns of the ruleset's row and then of its rules' rows."""
        ...


Made = TypeVar("Made", bound=MadeOfRows)


class Read(NamedTuple):
    """The columns of one ruleset's rows, and the tier made from them. The tier is None if they cannot be read."""

    rows: list[Columns]
    name: str
    tier: TierRules | None


class Rows:
    """The rows of the last load. Not thread-safe."""

    def __init__(self) -> None:
        self._read: dict[int, Read] = {}
        self._tiers: dict[str, TierRules] = {}
        # The errors of each ruleset's rows. An error is logged only once while it persists.
        self._faults: dict[int, list[str]] = {}

    def forget(self) -> None:
        """Forget the last load."""
        self._read, self._tiers, self._faults = {}, {}, {}

    def load(self) -> dict[str, TierRules]:
        """Return the rules of the database, by limiter. Returns the same mapping as before if no row changed.

        Raises any exception of the database.
        """
        # Import here, because the app must be importable before Django's models are ready.
        from ..models import Ruleset

        # Read from the primary, because a replica may not have the commit yet that caused this load.
        database = router.db_for_write(Ruleset)
        with _apart(database):
            current = rows_of(database)
            known = unchanged(self._read, current)
            if len(known) == len(current) == len(self._read):
                return self._tiers
            changed = Ruleset.objects.using(database).filter(pk__in=current.keys() - known.keys())
            rulesets = list(changed.prefetch_related("rules"))
        before = self._faults
        self._faults = {key: faults for key, faults in before.items() if key in known}
        made = {row.pk: Read(current[row.pk], row.name, self._tier_of(row)) for row in rulesets}
        for key, faults in self._faults.items():
            for fault in faults:
                if fault not in before.get(key, ()):
                    logger.error(fault)
        self._read = {**known, **made}
        self._tiers = {read.name: read.tier for read in self._read.values() if read.tier is not None}
        return self._tiers

    def _tier_of(self, ruleset: Any) -> TierRules | None:
        rules = []
        for row in ruleset.rules.all():
            try:
                rules.append(row.to_engine())
            except UNREADABLE as error:
                self._fault(ruleset, f"Rule {row.name!r} (pk {row.pk}) is disabled, because it cannot be read: {error}")
        try:
            tier = tier_rules(rules, ruleset.mode, ruleset.failure_mode, ruleset.description)
        except UNREADABLE as error:
            label = f"Ruleset {ruleset.name!r} (pk {ruleset.pk})"
            self._fault(ruleset, f"{label} is not in force, because it cannot be read: {error}")
            return None
        return replace(tier, version=ruleset.version, partition_by=self._partition_of(ruleset))

    def _partition_of(self, ruleset: Any) -> str | None:
        try:
            # The join of all tiers checks whether the rules count by this property.
            return check_partition(ruleset.partition_by, ())
        except InvalidRule as error:
            label = f"The partition of ruleset {ruleset.name!r} (pk {ruleset.pk})"
            self._fault(ruleset, f"{label} is not in force, because it cannot be read: {error.reason}")
            return None

    def _fault(self, ruleset: Any, message: str) -> None:
        self._faults.setdefault(ruleset.pk, []).append(message)


def _apart(database: str) -> AbstractContextManager[None]:
    """Return a savepoint, so that an error here (such as a missing table) does not break the request's transaction."""
    return transaction.atomic(using=database) if connections[database].in_atomic_block else nullcontext()


def unchanged(made: Mapping[int, Made], current: Mapping[int, list[Columns]]) -> dict[int, Made]:
    """Return the results for rulesets with unchanged rows."""
    return {key: result for key, result in made.items() if result.rows == current.get(key)}


def rows_of(database: str) -> dict[int, list[Columns]]:
    """Return the columns of each ruleset's rows by its key, its own row first. They are only meant for comparison."""
    from ..models import Rule, Ruleset

    rows = {row[0]: [row] for row in _columns(Ruleset.objects.using(database).order_by("pk"), "pk")}
    for row in _columns(Rule.objects.using(database).order_by("position", "pk"), "ruleset_id"):
        # A ruleset that was added after the query above is read by the next load, because its commit is announced too.
        if row[0] in rows:
            rows[row[0]].append(row)
    return rows


def _columns(queryset: QuerySet[Any], first: str) -> Iterable[Columns]:
    """Return all columns of some rows, the types in ``AS_TEXT`` as strings of the database.

    Conversion to datetimes takes longer than the query. JSON's 1 and true would be equal in Python.
    """
    fields = queryset.model._meta.concrete_fields
    columns = [Cast(field.name, TextField()) if isinstance(field, AS_TEXT) else field.attname for field in fields]
    return queryset.values_list(first, *columns)
