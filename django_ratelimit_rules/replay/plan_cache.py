"""Which counters a recorded request counts in, found by look-ups: :func:`engine.plan`, remembered.

A ruleset tells requests apart by the conditions that hold and by the values it counts by, and by nothing else. So each
column of a traffic gets a *code* for what its text says to the rules, and requests with the same codes have the same
plan, which the engine made once. Knows neither formats nor clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..engine import Plan, Ruleset, plan
from ..engine.matching import ValueOf
from ..engine.properties import base_of
from .fast_counters import (
    Cell,
    Way,
    cell_of,
    way_of,
)
from .traffic.batches import Column, Reader, Source

# Texts and chains remembered; beyond that all is looked up anew, which costs time and changes nothing.
MOST_REMEMBERED = 300_000

Conditions = list[Callable[[str | None], bool]]


class Refusal(NamedTuple):
    """Who was refused, by which rule."""

    rule: str
    who: str


class Chain:
    """The counters of one kind of request, in order.

    ``calls`` counts those that went through all of them; ``ended``, by hit, those that it blocked; ``over`` those that
    exceeded a hit that blocks nobody. ``refusals`` are who is blocked, by hit, once somebody was.
    """

    __slots__ = ("calls", "cells", "ended", "hits", "looked", "over", "refusals", "skip", "value_of", "ways")

    def __init__(self, planned: Plan, cells: list[Cell], value_of: ValueOf) -> None:
        hits = self.hits = tuple(planned.hits)
        self.skip = planned.skip
        self.cells = cells
        self.value_of = value_of
        self.ways: list[Way] = [way_of(hit, cell) for hit, cell in zip(hits, cells, strict=True)]
        self.looked = [pair for pair in zip(hits, cells, strict=True) if pair[0].looked]
        self.calls = 0
        self.ended = [0] * len(hits)
        self.over = [0] * len(hits)
        self.refusals: dict[int, Refusal] = {}


class Codes(dict[Any, int]):
    """The codes of one column's texts. ``texts`` are, by code, what a text of this kind says of each property."""

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
        """Start anew."""
        self.clear()
        self._known.clear()
        self.texts.clear()


class Chains(dict[tuple[int, ...], Chain]):
    """The chains of a ruleset, by the codes of the columns it looks at."""

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
        """The properties that the ruleset asks for and the traffic, once it is read, did not tell."""
        return [name for name in self._names if not self._reader.tells(name)]

    def of(self, columns: Sequence[Column], size: int) -> Iterator[Chain]:
        """Return the chain of each of ``size`` requests."""
        codes = [map(code.__getitem__, columns[at]) for at, code in zip(self._columns, self._codes, strict=True)]
        return map(self.__getitem__, zip(*codes, strict=True) if codes else [()] * size)

    def __missing__(self, codes: tuple[int, ...]) -> Chain:
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
        chain = self[codes] = Chain(planned, cells, value_of)
        return chain

    def crowded(self) -> bool:
        """Whether it is time to :meth:`forget`."""
        return len(self) + sum(map(len, self._codes)) > MOST_REMEMBERED

    def forget(self, now: int) -> None:
        """Forget all but the counters that live."""
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
    """Return the properties whose very text matters."""
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
        for asked, condition in conditions
        if asked == name
    ]
