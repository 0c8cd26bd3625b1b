"""Which format a file of traffic has: an open file goes in, the reader that fits comes out. Compressed files are read
as they are."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from io import BufferedIOBase, BufferedReader
from typing import Any, cast

from ..engine import Ruleset
from ..engine.properties import base_of
from .jsonlines import JsonLines
from .logs import AccessLog
from .traffic import Reader

LOOKED_AT = 1024
_GZIP = b"\x1f\x8b"


def reader_of(
    file: BufferedIOBase, rulesets: Iterable[Ruleset], read: Callable[[int], None] = lambda size: None
) -> Reader:
    """Return the reader of a file opened for bytes: JSON lines when it begins with a brace, else an access log.

    ``rulesets`` are those that will be run; ``read`` hears how many bytes were read.
    """
    buffered = file if isinstance(file, BufferedReader) else BufferedReader(cast(Any, file))
    if buffered.peek(2)[:2] == _GZIP:
        buffered = BufferedReader(cast(Any, gzip.GzipFile(fileobj=buffered)))
    start = buffered.peek(LOOKED_AT)[:LOOKED_AT].lstrip(b" \t\r\n\xef\xbb\xbf")
    if start.startswith(b"{"):
        return JsonLines.of_file(buffered, asked_for(rulesets), read)
    return AccessLog(buffered, read)


def asked_for(rulesets: Iterable[Ruleset]) -> list[str]:
    """Return the properties that rulesets ask for: where they ask for the user, an anonymous client's address too."""
    names = dict.fromkeys(name for ruleset in rulesets for name in ruleset.properties)
    if any(base_of(name) == "user" for name in names):
        names["ip"] = None
    return list(names)
