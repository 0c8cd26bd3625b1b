"""The table: rows with a cell for each contestant, as Markdown."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from tests.benchmarks.timing import Samples, ratios, tenth_percentile

NOTHING = "\N{EN DASH}"
PACKAGES = [
    *("django", "redis", "hiredis", "django-redis", "django-ratelimit", "djangorestframework", "limits", "coredis"),
    *("django-smart-ratelimit", "django-trafficwatch", "gunicorn", "uvicorn"),
]


@dataclass
class Row:
    """One row. Cells are multiples of ``reference``. ``target`` is the required value of this app's cell."""

    title: str
    reference: str
    target: str
    cells: dict[str, str] = field(default_factory=dict)
    samples: str = ""


def multiples(samples: Samples, floor: str, *, inverse: bool = False) -> dict[str, str]:
    """Return a cell for each contestant: the median of its time in multiples of the floor, and the 10th percentile.

    With ``inverse``, the samples are seconds per call, and the cells are multiples of the floor's throughput.
    """
    cells = {}
    for name in samples:
        if name != floor and samples[name]:
            values = ratios(samples, name, floor)
            if inverse:
                values = [1 / value for value in values]
            cells[name] = f"{statistics.median(values):.2f} ({tenth_percentile(values):.2f})"
    return cells


def table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Return the rows as a Markdown table."""
    head = ["", "1.00 is", *columns, "to reach", "rounds x calls"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        cells = [row.cells.get(name, NOTHING) for name in columns]
        lines.append([row.title, row.reference, *cells, row.target, row.samples])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def machine(redis_version: str) -> str:
    """Return the environment of the figures: processor and versions."""
    versions = ", ".join(f"{name} {found}" for name, found in _versions(PACKAGES))
    system = f"{os.cpu_count()} cores of {_processor()}, Python {platform.python_version()}, Redis {redis_version}"
    return f"{system}; {versions}"


def _versions(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "an unknown processor"
