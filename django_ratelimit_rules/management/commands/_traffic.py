"""Opens the traffic of a command: the name of a file goes in, and its reader with a progress bar comes out."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from django.utils.translation import gettext as _
from tqdm import tqdm

from ...engine import Ruleset
from ...monitoring import recording
from ...replay import reader_of
from ...replay.traffic.batches import Reader
from ...replay.traffic.formats import asked_for
from ...replay.traffic.json_lines import JsonLines

RECORD = "redis"


@contextmanager
def opened(traffic: str, rulesets: Sequence[Ruleset], stream: Any) -> Iterator[Reader]:
    """Open a file, ``-`` for the standard input, or the record in Redis.

    The progress bar is written to ``stream`` if that is a terminal. Raises OSError, CountersUnavailable.
    """
    if traffic == RECORD:
        size = recording.size()
        with _bar(stream, size, f" {_('requests')}") as bar:
            yield JsonLines(recording.lines(bar.update), asked_for(rulesets), digested=True)
        return
    with nullcontext(sys.stdin.buffer) if traffic == "-" else Path(traffic).open("rb") as file:
        size = Path(traffic).stat().st_size if traffic != "-" else 0
        with _bar(stream, size, "B") as bar:

            def read(number: int) -> None:
                # For a compressed file show the progress in the file, because its uncompressed size is not known.
                bar.update(file.tell() - bar.n if size else number)

            yield reader_of(cast(BufferedReader, file), rulesets, read)


def _bar(stream: Any, total: int, unit: str) -> Any:
    is_terminal = stream is not None and stream.isatty()
    return tqdm(
        total=total or None,
        unit=unit,
        unit_scale=unit == "B",
        file=stream,
        disable=not is_terminal,
        mininterval=0.2,
        desc=_("Replaying"),
    )
