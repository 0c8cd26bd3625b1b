"""Traffic as JSON lines, including our own recordings: one object per line goes in, requests as columns come out.

``time`` is in seconds since 1970 or an ISO 8601 string. ``timestamp`` and ``@timestamp`` mean the same. ``limiter``,
``cost`` and ``status`` are optional. ``identifier`` is an object of properties. Without it, all other fields are
properties. A property that the object lacks is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _

from ...engine.messages import Message
from ...engine.properties import apply_filters, base_of, normalise
from ...engine.results import Number
from ...engine.rules import check_name
from ...engine.values import canonical
from ...runtime.language import localized
from .access_log import Bytes, chunks_of
from .batches import Bad, Batch, Source

TIMES = ("time", "timestamp", "@timestamp")
OUR_FIELDS = (*TIMES, "limiter", "cost", "status", "identifier")
MAX_TIME = 253_402_300_800
MAX_REASON = 200
# Columns before those of the properties.
LIMITER, COST, STATUS = range(3)


class JsonLines:
    """The reader of JSON lines. ``lines`` yields lists of lines, ``names`` are the properties that the rules use."""

    names_limiters = True

    def __init__(self, lines: Iterable[Sequence[str]], names: Iterable[str], digested: bool = False) -> None:
        self.digested = digested
        self._lines = lines
        # A property with a filter may have been recorded with it. Otherwise its value is computed without it first.
        wanted = dict.fromkeys(spelled for name in names for spelled in (name, base_of(name)))
        self._places = {name: place for place, name in enumerate(wanted)}
        self._spelled: dict[str, str | None] = {}
        self._filled: set[str] | None = None
        self.bad = Bad()

    @classmethod
    def of_file(cls, file: Bytes, names: Iterable[str], read: Callable[[int], None] = lambda size: None) -> JsonLines:
        """Return the reader of a file opened for bytes."""
        return cls((chunk.split("\n") for chunk in chunks_of(file, read)), names)

    def batches(self) -> Iterator[Batch]:
        """See :class:`Reader`."""
        number = 0
        for lines in self._lines:
            rows = []
            for line in lines:
                number += 1
                try:
                    if line.strip():
                        rows.append(self._row(line))
                except (TypeError, ValueError, RecursionError) as error:
                    self.bad.note(number, _reason(error))
            if rows:
                times, limiters, costs, statuses, *columns = zip(*rows, strict=True)
                self._note(columns)
                yield Batch(times, columns, limiters, costs, statuses)

    def source(self, name: str) -> Source | None:
        """See :class:`Reader`."""
        return Source(self._places[name], _itself) if name in self._places else None

    def contains(self, name: str) -> bool:
        """See :class:`Reader`."""
        return self._filled is None or not self._filled.isdisjoint((name, base_of(name)))

    def _note(self, columns: Iterable[Sequence[str | None]]) -> None:
        filled = self._filled = self._filled or set()
        filled.update(
            name
            for name, column in zip(self._places, columns, strict=True)
            if name not in filled and any(text is not None for text in column)
        )

    def _row(self, line: str) -> list[Any]:
        row = json.loads(line.encode("latin-1"))
        if not isinstance(row, dict):
            raise ValueError(_("expected an object, found %(type)s") % {"type": type(row).__name__})
        properties = row.get("identifier", row)
        if not isinstance(properties, dict):
            raise ValueError(_("identifier is not an object"))
        texts = self._texts(properties, properties is row)
        limiter = row.get("limiter")
        status = row.get("status")
        head = [_time(row), limiter and check_name(limiter, "limiter"), _cost(row.get("cost", 1))]
        head.append(None if status is None else canonical(status, "status"))
        return head + [texts[name] if name in texts else _filtered(name, texts) for name in self._places]

    def _texts(self, properties: Mapping[str, Any], flat: bool) -> dict[str, str | None]:
        texts = {}
        for name, value in properties.items():
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
            # No rule can use an invalid name.
            return None
        if len(self._spelled) < 1000:
            self._spelled[name] = spelled
        return spelled


def _itself(text: str | None) -> str | None:
    return text


def _filtered(name: str, texts: Mapping[str, str | None]) -> str | None:
    return apply_filters(name, texts.get(base_of(name)))


def _reason(error: Exception) -> str:
    """Return an error's message in the active language, at most 200 characters of it."""
    message = error.args[0] if error.args else ""
    return (localized(message) if isinstance(message, Message) else str(error))[:MAX_REASON]


def _time(row: Mapping[str, Any]) -> int:
    """Return the time of a row in milliseconds since 1970. Raises ValueError."""
    value = next((row[name] for name in TIMES if name in row), None)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(_("time %(time)r is not an ISO 8601 string") % {"time": value[:40]}) from None
        value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MAX_TIME:
        raise ValueError(_("time must be seconds since 1970, or an ISO 8601 string"))
    return round(value * 1000)


def _cost(cost: object) -> Number:
    if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < math.inf:
        raise ValueError(_("cost must be a finite number of 0 or more"))
    return cost
