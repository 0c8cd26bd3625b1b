"""Formats of traffic: an open file goes in, the reader of its format comes out. Files may be compressed by gzip."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from io import BufferedIOBase, BufferedReader
from typing import Any, cast

from ...engine import Ruleset
from ...engine.properties import base_of
from .access_log import AccessLog
from .batches import Reader
from .json_lines import JsonLines

LOOKED_AT = 8192
# Bytes to skip at the beginning of a line. The last three are a byte order mark.
BLANKS = b" \t\r\n\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


def reader_of(
    file: BufferedIOBase, rulesets: Iterable[Ruleset], read: Callable[[int], None] = lambda size: None
) -> Reader:
    """Return the reader of a file opened for bytes.

    The file is JSON lines if most of its first lines begin with a brace, else an access log. A single bad line does not
    decide, because the first line of a file may be cut off. ``rulesets`` are the rulesets to run. ``read`` is called
    with the number of bytes of each read.
    """
    buffered = file if isinstance(file, BufferedReader) else BufferedReader(cast(Any, file))
    if buffered.peek(2)[:2] == _GZIP:
        buffered = BufferedReader(cast(Any, gzip.GzipFile(fileobj=buffered)))
    begins = [line.lstrip(BLANKS)[:1] for line in buffered.peek(LOOKED_AT).split(b"\n")]
    if b"{" in begins and 2 * begins.count(b"{") >= len(begins) - begins.count(b""):
        return JsonLines.of_file(buffered, asked_for(rulesets), read)
    return AccessLog(buffered, read)


def asked_for(rulesets: Iterable[Ruleset]) -> list[str]:
    """Return the properties that rulesets use. ``user`` adds ``ip``, which counts anonymous clients."""
    names = dict.fromkeys(name for ruleset in rulesets for name in ruleset.properties)
    if any(base_of(name) == "user" for name in names):
        names["ip"] = None
    return list(names)
