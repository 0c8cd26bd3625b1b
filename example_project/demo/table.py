"""Format rows of strings and numbers as the lines of a table.

The last column takes the remaining width. It wraps at spaces, but not at no-break spaces, which are printed as spaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

GAP = "  "
NARROWEST = 24

Cell = str | int


def lines(headings: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> Iterator[str]:
    """Yield the lines of a table, ``width`` wide if the last column allows it. Numbers are aligned right."""
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *texts, strict=True)][:-1]
    rest = max(NARROWEST, width - sum(widths) - len(GAP) * len(widths))
    to_the_right = [any(isinstance(cell, int) for cell in column) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str], last: str) -> str:
        aligned = [
            cell.rjust(size) if right else cell.ljust(size)
            for cell, size, right in zip(cells, widths, to_the_right, strict=False)
        ]
        return GAP.join([*aligned, last.replace("\N{NO-BREAK SPACE}", " ")]).rstrip()

    yield line(headings, headings[-1])
    yield line(["─" * size for size in widths], "─" * rest)
    for cells in texts:
        first, *more = wrap(cells[-1], rest, break_on_hyphens=False) or [""]
        yield line(cells, first)
        yield from (line([""] * len(widths), text) for text in more)


def _text(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else cell
