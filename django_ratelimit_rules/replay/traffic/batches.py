"""Recorded traffic: requests in batches of columns, in the order of their times.

The reader of a format goes in (:mod:`access_log`, :mod:`json_lines`). Batches come out that :mod:`runner` can count. A
line that cannot be read is counted and noted by number, but does not end the replay. A :class:`Source` for each
property tells its column. Knows no rules.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter, le
from typing import Any, NamedTuple, Protocol

# A request at most this many lines away from its place by time is moved there.
HELD = 2000
SHOWN_BAD = 20

Column = Sequence[Any]


class Batch(NamedTuple):
    """Some requests, as one list for each field. ``times`` are milliseconds since 1970.

    ``columns`` are indexed by sources. ``limiters``, ``costs`` and ``statuses`` are None if the traffic lacks them.
    """

    times: Sequence[int]
    columns: Sequence[Column]
    limiters: Column | None = None
    costs: Column | None = None
    statuses: Column | None = None


class Source(NamedTuple):
    """The source of a property's value: ``read`` of a column's value, or ``fixed`` if ``column`` is None."""

    column: int | None
    read: Callable[[Any], str | None] | None = None
    fixed: str | None = None


@dataclass(slots=True)
class Bad:
    """Lines that hold no request: their number, and the first of them as pairs of line number and reason."""

    total: int = 0
    shown: list[tuple[int, str]] = field(default_factory=list)

    def note(self, number: int, reason: str) -> None:
        """Count a line, and keep its reason if it is among the first."""
        self.total += 1
        if len(self.shown) < SHOWN_BAD:
            self.shown.append((number, reason))


class Reader(Protocol):
    """A reader of one format.

    ``names_limiters`` is True if its requests may name their limiter. ``digested`` is True if it holds values of
    clients as digests only.
    """

    bad: Bad
    names_limiters: bool
    digested: bool

    def source(self, name: str) -> Source | None:
        """Return the source of a property. Returns None if this traffic lacks it."""

    def contains(self, name: str) -> bool:
        """Return whether the traffic holds a property. Complete once all is read. True for traffic without requests."""

    def batches(self) -> Iterator[Batch]:
        """Yield the requests in the order of the file."""


@dataclass(slots=True)
class Order:
    """The times of a traffic: its first and last, in milliseconds since 1970, and its late requests.

    ``late`` requests were too far from their place, so they got the time of the request before. ``lateness`` is the
    greatest correction in milliseconds.
    """

    requests: int = 0
    first: int | None = None
    last: int = 0
    late: int = 0
    lateness: int = 0


def in_order(batches: Iterable[Batch], order: Order) -> Iterator[Batch]:
    """Yield batches in the order of their times, and note late requests in ``order``.

    Servers log a request when it ends, so neighbours may be swapped. The clock of a replay cannot go back. So a request
    that is more than ``HELD`` lines late counts at the time already reached.
    """
    held: Batch | None = None
    for batch in batches:
        if held is not None:
            batch = _joined(held, batch)
        if not all(map(le, batch.times, islice(batch.times, 1, None))):
            batch = _sorted(batch)
        size = max(0, len(batch.times) - HELD)
        if size:
            yield _noted(_part(batch, slice(size)), order)
        held = _part(batch, slice(size, None))
    if held is not None and held.times:
        yield _noted(held, order)


def _noted(batch: Batch, order: Order) -> Batch:
    times = batch.times
    late = bisect_left(times, order.last) if order.first is not None else 0
    if order.first is None:
        order.first = times[0]
    if late:
        order.late += late
        order.lateness = max(order.lateness, order.last - times[0])
        batch = batch._replace(times=[order.last] * late + list(times[late:]))
    order.requests += len(times)
    order.last = batch.times[-1]
    return batch


def change_columns(batch: Batch, change: Callable[[Column], Column]) -> Batch:
    """Return a batch with a function applied to each of its lists."""

    def optional(column: Column | None) -> Column | None:
        return None if column is None else change(column)

    rest = (optional(batch.limiters), optional(batch.costs), optional(batch.statuses))
    return Batch(change(batch.times), [change(column) for column in batch.columns], *rest)


def _part(batch: Batch, part: slice) -> Batch:
    return change_columns(batch, itemgetter(part))


def _sorted(batch: Batch) -> Batch:
    positions = sorted(range(len(batch.times)), key=batch.times.__getitem__)
    return change_columns(batch, lambda column: list(map(column.__getitem__, positions)))


def _joined(first: Batch, second: Batch) -> Batch:
    def joined(a: Column | None, b: Column | None) -> Column | None:
        return None if a is None or b is None else [*a, *b]

    columns = [[*a, *b] for a, b in zip(first.columns, second.columns, strict=True)]
    rest = (
        joined(first.limiters, second.limiters),
        joined(first.costs, second.costs),
        joined(first.statuses, second.statuses),
    )
    return Batch([*first.times, *second.times], columns, *rest)
