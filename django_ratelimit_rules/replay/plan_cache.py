"""A cache of plans: :func:`engine.plan` runs once for each kind of recorded request.

A ruleset distinguishes requests by two things: the conditions that hold, and the values that it counts by. So each
string of a column gets a *code*. Strings that the rules cannot distinguish share one. Requests with the same codes
share a plan. Knows neither formats nor clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..engine import Plan, Ruleset, plan
from ..engine.matching import ValueOf
from ..engine.properties import base_of
from .fast_counters import (
    Cell,
    FastPath,
    cell_of,
    fast_path_of,
)
from .traffic.batches import Column, Reader, Source

# Bound on remembered strings and plans. Beyond it the cache is emptied, which costs time but changes no result.
MOST_REMEMBERED = 300_000

Conditions = list[Callable[[str | None], bool]]


class Refusal(NamedTuple):
    """A refused client and the rule that refused it."""

    rule: str
    who: str


class CachedPlan:
    """The plan of one kind of request: its counters in order, and its calls.

    ``calls`` is the number of calls that passed all counters. ``ended`` and ``over`` are numbers by hit: the calls that
    the hit blocked, and the calls that exceeded it without being blocked. ``refusals`` are the blocked clients by hit.
    """

    __slots__ = ("calls", "cells", "ended", "fast_paths", "hits", "looked", "over", "refusals", "skip", "value_of")

    def __init__(self, planned: Plan, cells: list[Cell], value_of: ValueOf) -> None:
        hits = self.hits = tuple(planned.hits)
        self.skip = planned.skip
        self.cells = cells
        self.value_of = value_of
        self.fast_paths: list[FastPath] = [fast_path_of(hit, cell) for hit, cell in zip(hits, cells, strict=True)]
        self.looked = [pair for pair in zip(hits, cells, strict=True) if pair[0].looked]
        self.calls = 0
        self.ended = [0] * len(hits)
        self.over = [0] * len(hits)
        self.refusals: dict[int, Refusal] = {}


class Codes(dict[Any, int]):
    """The codes of one column's strings. ``texts`` are the values of all properties in the column, by code."""

    def __init__(self, views: list[tuple[str, Source, Conditions, bool]]) -> None:
        self._views = views
        self._known: dict[tuple[Any, ...], int] = {}
        self.texts: list[dict[str, str | None]] = []

    def __missing__(self, raw: Any) -> int:
        texts = {name: source.read(raw) if source.read else source.fixed for name, source, _, _ in self._views}
        seen: list[object] = []
        for name, _, conditions, counted in self._views:
            text = texts[name]
            seen += [condition(text) for condition in conditions]
            if counted:
                seen.append(text)
        code = self._known.setdefault(tuple(seen), len(self._known))
        if code == len(self.texts):
            self.texts.append(texts)
        self[raw] = code
        return code

    def forget(self) -> None:
        """Forget all codes."""
        self.clear()
        self._known.clear()
        self.texts.clear()


class PlanCache(dict[tuple[int, ...], CachedPlan]):
    """The plans of a ruleset, by the codes of the columns that it reads."""

    def __init__(self, ruleset: Ruleset, reader: Reader) -> None:
        self.ruleset = ruleset
        self.cells: dict[str, Cell] = {}
        self._reader = reader
        self._names: list[str] = []
        self._fixed: dict[str, str | None] = {}
        self._columns: list[int] = []
        self._codes: list[Codes] = []
        self._place: dict[str, int] = {}
        self._view(reader)

    @property
    def untold(self) -> list[str]:
        """The properties that the ruleset uses but the traffic lacks. Complete once the traffic is read."""
        return [name for name in self._names if not self._reader.contains(name)]

    def of(self, columns: Sequence[Column], size: int) -> Iterator[CachedPlan]:
        """Return the plan of each of ``size`` requests."""
        codes = [map(code.__getitem__, columns[at]) for at, code in zip(self._columns, self._codes, strict=True)]
        return map(self.__getitem__, zip(*codes, strict=True) if codes else [()] * size)

    def __missing__(self, codes: tuple[int, ...]) -> CachedPlan:
        def value_of(name: str) -> str | None:
            at = self._place.get(name)
            return self._fixed.get(name) if at is None else self._codes[at].texts[codes[at]][name]

        planned = plan(self.ruleset, value_of)
        cells = []
        for hit in planned.hits:
            cell = self.cells.get(hit.key)
            if cell is None:
                cell = self.cells[hit.key] = cell_of(hit)
            cells.append(cell)
        cached = self[codes] = CachedPlan(planned, cells, value_of)
        return cached

    def crowded(self) -> bool:
        """Return whether to call :meth:`forget` now."""
        return len(self) + sum(map(len, self._codes)) > MOST_REMEMBERED

    def forget(self, now: int) -> None:
        """Forget all plans, codes and expired counters. ``now`` is in milliseconds since 1970."""
        self.clear()
        for codes in self._codes:
            codes.forget()
        self.cells = {key: cell for key, cell in self.cells.items() if cell.expires > now}

    def _view(self, reader: Reader) -> None:
        counted = _counted(self.ruleset)
        by_column: dict[int, list[tuple[str, Source, Conditions, bool]]] = {}
        for name in dict.fromkeys((*self.ruleset.properties, *counted)):
            source = reader.source(name)
            self._names.append(name)
            if source is None:
                continue
            if source.column is None:
                self._fixed[name] = source.fixed
            else:
                view = (name, source, _conditions(self.ruleset, name), name in counted)
                by_column.setdefault(source.column, []).append(view)
        for place, (column, views) in enumerate(by_column.items()):
            self._columns.append(column)
            self._codes.append(Codes(views))
            self._place.update((name, place) for name, *_ in views)


def _counted(ruleset: Ruleset) -> dict[str, None]:
    """Return the properties that rules count by, for which each value gets a code of its own."""
    names = dict.fromkeys(
        name
        for rule in ruleset.rules
        for name in (*rule.characteristics, *((rule.count_distinct,) if rule.count_distinct else ()))
    )
    if any(base_of(name) == "user" for name in names):
        # Anonymous clients are counted by their address.
        names["ip"] = None
    return names


def _conditions(ruleset: Ruleset, name: str) -> Conditions:
    return [
        condition
        for rule in ruleset.rules
        for conditions in rule.matcher.alternatives
        for property_name, condition in conditions
        if property_name == name
    ]
