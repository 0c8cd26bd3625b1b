"""The disagreements of this limiter and the legacy one in the last days, from all processes. Read by the admin.

Each process adds up its comparisons by limiter and hour. The background thread writes them to Redis every few seconds:
one hash of three numbers per hour, kept for eight days. A request pays for one addition.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ..conf import settings
from ..counters.aliases import current
from ..exceptions import CountersUnavailable
from ..runtime import background, reset
from ..runtime.clock import clock
from ..signals import ComparisonEvent

HOUR = 3600
DAY_HOURS = 24
KEPT_HOURS = 8 * DAY_HOURS
WRITE_SECONDS = 5.0
# Up to this share of divergences, a migration is safe.
TARGET = 0.005
FIELDS = ("compared", "diverged", "at_boundary")


class Comparisons(reset.Part):
    """The comparisons since the last write: three numbers by limiter and hour, changed under ``lock``."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int], list[int]] = {}
        self.lock = threading.Lock()

    def take(self) -> dict[tuple[str, int], list[int]]:
        """Return the numbers and clear them."""
        with self.lock:
            numbers, self.numbers = self.numbers, {}
        return numbers

    def forget(self) -> None:
        """Forget the numbers, so that no test sees another test's."""
        self.take()

    def after_fork(self) -> None:
        """Leave the numbers to the parent, which writes them."""
        self.lock = threading.Lock()
        self.numbers = {}

    def remembers(self) -> bool:
        """Return whether any comparison is not written yet."""
        return bool(self.numbers)


comparisons = reset.register("divergence", Comparisons())


@dataclass(frozen=True, slots=True)
class Hour:
    """The comparisons of one hour, which began at the POSIX time ``start``.

    ``at_boundary`` is the number of divergences within a second of a clock-aligned edge of a window.
    """

    start: int
    compared: int
    diverged: int
    at_boundary: int

    @property
    def share(self) -> float:
        """The share of comparisons that diverged, from 0 to 1."""
        return self.diverged / self.compared if self.compared else 0.0


@dataclass(frozen=True, slots=True)
class Divergence:
    """The comparisons of the last 24 clock hours, including the current one.

    ``last_exceeded`` is the latest hour of the last eight days with a share above the target, or None.
    """

    day: Hour
    last_exceeded: Hour | None

    def __str__(self) -> str:
        return f"{100 * self.day.share:.1f} % of {self.day.compared:,}"


def count(event: ComparisonEvent) -> None:
    """Count a comparison in the current hour."""
    if settings.LIVE:
        diverged = event.agreement == "diverge"
        with comparisons.lock:
            numbers = comparisons.numbers.setdefault((event.limiter, int(clock.now()) // HOUR), [0, 0, 0])
            numbers[0] += 1
            numbers[1] += diverged
            numbers[2] += diverged and event.boundary


def write() -> None:
    """Write the comparisons of this process. Comparisons that cannot be written are kept for the next time."""
    counts = comparisons.take()
    sums = {
        _name(limiter, hour): {field: number for field, number in zip(FIELDS, numbers, strict=True) if number}
        for (limiter, hour), numbers in counts.items()
    }
    if not sums:
        return
    try:
        current().add(sums, KEPT_HOURS * HOUR)
    except CountersUnavailable:
        _put_back(counts)


def _put_back(counts: dict[tuple[str, int], list[int]]) -> None:
    oldest = int(clock.now()) // HOUR - KEPT_HOURS
    with comparisons.lock:
        for key, numbers in counts.items():
            if key[1] > oldest:
                kept = comparisons.numbers.get(key, (0, 0, 0))
                comparisons.numbers[key] = [a + b for a, b in zip(kept, numbers, strict=True)]


def last_day(limiter: str) -> Divergence | None:
    """Return the comparisons of a limiter. Returns None if there were none in the last eight days.

    Raises CountersUnavailable.
    """
    write()
    now = int(clock.now()) // HOUR
    hours = range(now - KEPT_HOURS + 1, now + 1)
    stored = current().added([_name(limiter, hour) for hour in hours])
    read = [_hour(hour, numbers) for hour, numbers in zip(hours, stored, strict=True)]
    if not any(hour.compared for hour in read):
        return None
    day = read[-DAY_HOURS:]
    summed = (sum(getattr(hour, field) for hour in day) for field in FIELDS)
    exceeded = [hour for hour in read if hour.share > TARGET]
    return Divergence(Hour(day[0].start, *summed), exceeded[-1] if exceeded else None)


def _hour(hour: int, stored: dict[bytes, bytes]) -> Hour:
    texts = (stored.get(field.encode(), b"0") for field in FIELDS)
    return Hour(hour * HOUR, *(int(text) if text.isdigit() and len(text) < 19 else 0 for text in texts))


def _name(limiter: str, hour: int) -> str:
    return f"compared:{limiter}:{hour}"


def connect() -> None:
    """Register the writes with the background thread. Called once by the app config."""
    background.every(WRITE_SECONDS, write, at_exit=True)
