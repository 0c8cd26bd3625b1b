"""Recorded traffic: requests in batches of columns, in the order of their times.

A reader of some format goes in (:mod:`logs`, :mod:`jsonlines`); batches come out that :mod:`running` can count. Lines
that cannot be read are counted and remembered by number, never fatal. What the columns mean to a rule, a
:class:`Source` for each property says. Knows no rules.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter, le
from typing import Any, NamedTuple, Protocol

# Requests that stand at most this many lines from their place are put there.
HELD = 2000
SHOWN_BAD = 20

Column = Sequence[Any]


class Batch(NamedTuple):
    """Some requests, a list for each fact. ``times`` are milliseconds since 1970; ``columns`` are what sources index.

    ``limiters``, ``costs`` and ``statuses`` are None where the traffic does not tell them.
    """

    times: Sequence[int]
    columns: Sequence[Column]
    limiters: Column | None = None
    costs: Column | None = None
    statuses: Column | None = None


class Source(NamedTuple):
    """Where a property's text is found: ``read`` makes it of what stands in a column; without one it is ``fixed``."""

    column: int | None
    read: Callable[[Any], str | None] | None = None
    fixed: str | None = None


@dataclass(slots=True)
class Bad:
    """Lines that are no requests: how many, and the first of them by number, each with what is wrong."""

    total: int = 0
    shown: list[tuple[int, str]] = field(default_factory=list)

    def note(self, number: int, reason: str) -> None:
        """Note a line."""
        self.total += 1
        if len(self.shown) < SHOWN_BAD:
            self.shown.append((number, reason))


class Reader(Protocol):
    """A reader of one format. ``names_limiters``: its requests may say which limiter they asked; ``digested``: what
    clients wrote is there as digests only."""

    bad: Bad
    names_limiters: bool
    digested: bool

    def source(self, name: str) -> Source | None:
        """Return where a property is found, None when this traffic does not tell it."""

    def tells(self, name: str) -> bool:
        """Return whether a property was found, once all is read; of no requests, all is told."""

    def batches(self) -> Iterator[Batch]:
        """Yield the requests as they stand there."""


@dataclass(slots=True)
class Order:
    """How the times of a traffic ran: ``late`` requests stood too far from their place and were taken to have come
    with the one before; ``lateness`` is the greatest number of milliseconds by which one was."""

    requests: int = 0
    first: int | None = None
    last: int = 0
    late: int = 0
    lateness: int = 0


def in_order(batches: Iterable[Batch], order: Order) -> Iterator[Batch]:
    """Yield batches whose times never go back, and note in ``order`` what was found.

    Servers write a line when a request ends, so neighbours may have changed places. The clock of a replay cannot go
    back: what is later than ``HELD`` lines counts at the time that was reached.
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


def each(batch: Batch, change: Callable[[Column], Column]) -> Batch:
    """Return a batch with every one of its lists changed alike."""

    def optional(column: Column | None) -> Column | None:
        return None if column is None else change(column)

    rest = (optional(batch.limiters), optional(batch.costs), optional(batch.statuses))
    return Batch(change(batch.times), [change(column) for column in batch.columns], *rest)


def _part(batch: Batch, part: slice) -> Batch:
    return each(batch, itemgetter(part))


def _sorted(batch: Batch) -> Batch:
    positions = sorted(range(len(batch.times)), key=batch.times.__getitem__)
    return each(batch, lambda column: list(map(column.__getitem__, positions)))


def _joined(one: Batch, other: Batch) -> Batch:
    def both(a: Column | None, b: Column | None) -> Column | None:
        return None if a is None or b is None else [*a, *b]

    columns = [[*a, *b] for a, b in zip(one.columns, other.columns, strict=True)]
    rest = (both(one.limiters, other.limiters), both(one.costs, other.costs), both(one.statuses, other.statuses))
    return Batch([*one.times, *other.times], columns, *rest)
