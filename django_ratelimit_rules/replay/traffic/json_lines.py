"""Traffic as JSON lines, and as recorded by ourselves: one object a line, requests as columns come out.

``time`` is seconds since 1970 or an ISO 8601 text; ``limiter``, ``cost`` and ``status`` are optional; ``identifier`` is
an object of properties, or else all other fields are its properties. ``timestamp`` and ``@timestamp`` are read as
``time``. What an identifier does not hold is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ...engine.properties import apply_filters, base_of, normalise
from ...engine.results import Number
from ...engine.rules import check_name
from ...engine.values import canonical
from .access_log import Bytes, chunks_of
from .batches import Bad, Batch, Source

TIMES = ("time", "timestamp", "@timestamp")
OUR_FIELDS = (*TIMES, "limiter", "cost", "status", "identifier")
MAX_TIME = 253_402_300_800
# Columns before those of the properties.
LIMITER, COST, STATUS = range(3)


class JsonLines:
    """The reader of JSON lines: of lists of lines, and for the properties that will be asked for."""

    names_limiters = True

    def __init__(self, lines: Iterable[Sequence[str]], names: Iterable[str], digested: bool = False) -> None:
        self.digested = digested
        self._lines = lines
        # A filtered property may have been recorded as such, or be made of the one it filters.
        wanted = dict.fromkeys(each for name in names for each in (name, base_of(name)))
        self._places = {name: place for place, name in enumerate(wanted)}
        self._spelled: dict[str, str | None] = {}
        self._told: set[str] | None = None
        self.bad = Bad()

    @classmethod
    def of_file(cls, file: Bytes, names: Iterable[str], read: Callable[[int], None] = lambda size: None) -> JsonLines:
        """Read a file opened for bytes."""
        return cls((chunk.split("\n") for chunk in chunks_of(file, read)), names)

    def batches(self) -> Iterator[Batch]:
        """See Reader."""
        number = 0
        for lines in self._lines:
            rows = []
            for line in lines:
                number += 1
                try:
                    if line.strip():
                        rows.append(self._row(line))
                except (TypeError, ValueError, RecursionError) as error:
                    self.bad.note(number, str(error)[:200])
            if rows:
                times, limiters, costs, statuses, *columns = zip(*rows, strict=True)
                self._note(columns)
                yield Batch(times, columns, limiters, costs, statuses)

    def source(self, name: str) -> Source | None:
        """See Reader."""
        return Source(self._places[name], _itself) if name in self._places else None

    def tells(self, name: str) -> bool:
        """See Reader."""
        return self._told is None or not self._told.isdisjoint((name, base_of(name)))

    def _note(self, columns: Iterable[Sequence[str | None]]) -> None:
        told = self._told = self._told or set()
        told.update(
            name
            for name, column in zip(self._places, columns, strict=True)
            if name not in told and any(text is not None for text in column)
        )

    def _row(self, line: str) -> list[Any]:
        said = json.loads(line.encode("latin-1"))
        if not isinstance(said, dict):
            raise ValueError(f"expected an object, found {type(said).__name__}")
        facts = said.get("identifier", said)
        if not isinstance(facts, dict):
            raise ValueError("identifier is not an object")
        texts = self._texts(facts, facts is said)
        limiter = said.get("limiter")
        status = said.get("status")
        head = [_time(said), limiter and check_name(limiter, "limiter"), _cost(said.get("cost", 1))]
        head.append(None if status is None else canonical(status, "status"))
        return head + [texts[name] if name in texts else _filtered(name, texts) for name in self._places]

    def _texts(self, facts: Mapping[str, Any], flat: bool) -> dict[str, str | None]:
        texts = {}
        for name, value in facts.items():
            if flat and name in OUR_FIELDS:
                continue
            spelled = self._spelled.get(name) or self._spell(name)
            if spelled in self._places:
                texts[spelled] = value if type(value) is str else canonical(value, name)
        return texts

    def _spell(self, name: str) -> str | None:
        try:
            spelled = normalise(name)
        except ValueError:
            # A name that is no property's can stand in no rule.
            return None
        if len(self._spelled) < 1000:
            self._spelled[name] = spelled
        return spelled


def _itself(text: str | None) -> str | None:
    return text


def _filtered(name: str, texts: Mapping[str, str | None]) -> str | None:
    return apply_filters(name, texts.get(base_of(name)))


def _time(said: Mapping[str, Any]) -> int:
    """Return milliseconds. Raises ValueError."""
    value = next((said[name] for name in TIMES if name in said), None)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"time {value[:40]!r} is not ISO 8601 text") from None
        value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MAX_TIME:
        raise ValueError("time must be seconds since 1970, or an ISO 8601 text")
    return round(value * 1000)


def _cost(cost: object) -> Number:
    if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < math.inf:
        raise ValueError("cost must be a finite number of 0 or more")
    return cost
