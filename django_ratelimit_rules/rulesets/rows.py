"""The admin tier as it stands in the database: only what changed since the last time is made into rules.

Nothing goes in but the rows; by limiter what they say comes out, the very same objects as before for rulesets that say
the same. For making and compiling thousands of rules, at every change of one, would be felt by the requests beside.
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
    """What was made of one ruleset's rows, its own first, with these rows."""

    @property
    def rows(self) -> list[Columns]:
        """What they said."""
        ...


Made = TypeVar("Made", bound=MadeOfRows)


class Read(NamedTuple):
    """What one ruleset's rows said, its own first, and what was made of them: nothing where that cannot be read."""

    rows: list[Columns]
    name: str
    tier: TierRules | None


class Rows:
    """The rows that were read last. Not thread-safe."""

    def __init__(self) -> None:
        self._read: dict[int, Read] = {}
        self._tiers: dict[str, TierRules] = {}
        # What cannot be read of each ruleset; logged once while it stands.
        self._faults: dict[int, list[str]] = {}

    def forget(self) -> None:
        """Forget what was read."""
        self._read, self._tiers, self._faults = {}, {}, {}

    def load(self) -> dict[str, TierRules]:
        """Return what the database says, by limiter; the same mapping as before when nothing changed.

        Raises whatever the database does.
        """
        # Not before the first load: the app must be importable before Django's models are ready.
        from ..models import Ruleset

        # From the primary: a replica may lag behind the commit that asked for this load.
        database = router.db_for_write(Ruleset)
        with _apart(database):
            said = rows_of(database)
            known = unchanged(self._read, said)
            if len(known) == len(said) == len(self._read):
                return self._tiers
            changed = Ruleset.objects.using(database).filter(pk__in=said.keys() - known.keys())
            rulesets = list(changed.prefetch_related("rules"))
        before = self._faults
        self._faults = {key: faults for key, faults in before.items() if key in known}
        made = {row.pk: Read(said[row.pk], row.name, self._tier_of(row)) for row in rulesets}
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
            named = f"Ruleset {ruleset.name!r} (pk {ruleset.pk})"
            self._fault(ruleset, f"{named} is out of force, because it cannot be read: {error}")
            return None
        return replace(tier, version=ruleset.version, partition_by=self._partition_of(ruleset))

    def _partition_of(self, ruleset: Any) -> str | None:
        try:
            # Whether the rules count by it is seen when all tiers are joined.
            return check_partition(ruleset.partition_by, ())
        except InvalidRule as error:
            named = f"The partition of ruleset {ruleset.name!r} (pk {ruleset.pk})"
            self._fault(ruleset, f"{named} is out of force, because it cannot be read: {error.reason}")
            return None

    def _fault(self, ruleset: Any, message: str) -> None:
        self._faults.setdefault(ruleset.pk, []).append(message)


def _apart(database: str) -> AbstractContextManager[None]:
    """Keep what fails here, such as a table that is missing, from spoiling a transaction of the request's own."""
    return transaction.atomic(using=database) if connections[database].in_atomic_block else nullcontext()


def unchanged(made: Mapping[int, Made], said: Mapping[int, list[Columns]]) -> dict[int, Made]:
    """Return those of what was made of rulesets' rows whose rows say what they said then."""
    return {key: each for key, each in made.items() if each.rows == said.get(key)}


def rows_of(database: str) -> dict[int, list[Columns]]:
    """Return what each ruleset's rows say, its own first, by its key: to be compared, not to be read."""
    from ..models import Rule, Ruleset

    said = {row[0]: [row] for row in _columns(Ruleset.objects.using(database).order_by("pk"), "pk")}
    for row in _columns(Rule.objects.using(database).order_by("position", "pk"), "ruleset_id"):
        # A ruleset that came in since the query above is read the next time: its commit is announced as well.
        if row[0] in said:
            said[row[0]].append(row)
    return said


def _columns(queryset: QuerySet[Any], first: str) -> Iterable[Columns]:
    """Return all columns of some rows, most of them as the database writes them: making datetimes takes longer than
    reading, and to Python 1 and true in JSON are equal."""
    fields = queryset.model._meta.concrete_fields
    said = [Cast(each.name, TextField()) if isinstance(each, AS_TEXT) else each.attname for each in fields]
    return queryset.values_list(first, *said)
