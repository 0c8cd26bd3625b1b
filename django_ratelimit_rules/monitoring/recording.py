"""A recording of traffic for replays: a sampled, capped stream in Redis of clients, limiters and times.

Off unless ``RATELIMIT_RULES_RECORD`` is a share of clients. A check puts the values of its identifier into a bounded
buffer of this process. The background thread writes the buffer every few seconds, so that no request waits. Either all
calls of a client are recorded or none, because a share of them would show nothing about limits. Values that clients
wrote (headers, cookies, query, body) are stored as digests only.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from zlib import crc32

from ..conf import settings
from ..counters.aliases import current
from ..engine import KeyWriter, Plan, Ruleset
from ..engine.matching import ValueOf
from ..engine.properties import PROPERTIES, is_client_written
from ..engine.results import Number
from ..exceptions import CallableFailed, CountersUnavailable
from ..identifiers import RequestIdentifier, registry
from ..runtime import background, log_sampling, reset
from ..runtime.clock import clock

logger = logging.getLogger(__name__)

STREAM = "record"
KEPT_SECONDS = 7 * 86400
WRITE_SECONDS = 2.0
# Bound on unwritten calls. Calls beyond it are not recorded.
MOST_WAITING = 5000
MAX_VALUE = 200
LINES_AT_ONCE = 2000
# The start of each line, before the time.
START = b'{"time":'

Entry = tuple[int, str, dict[str, str], Number, KeyWriter]


class Waiting(reset.Part):
    """The calls that are not written yet."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()

    def forget(self) -> None:
        """Forget the calls, so that no test sees another test's."""
        self.entries.clear()

    def after_fork(self) -> None:
        """Leave the calls to the parent, which writes them."""
        self.entries.clear()

    def remembers(self) -> bool:
        """Return whether any call is not written yet."""
        return bool(self.entries)


waiting = reset.register("recording", Waiting())


def note(
    ruleset: Ruleset, planned: Plan | None, value_of: ValueOf, cost: Number, request: RequestIdentifier | None
) -> None:
    """Record a check if its client is in the sample. Never raises, and loads nothing."""
    try:
        if len(waiting.entries) < MOST_WAITING and _chosen(ruleset.keys, planned, value_of, request):
            texts = _texts(ruleset, value_of, request)
            waiting.entries.append((int(clock.now() * 1000), ruleset.limiter, texts, cost, ruleset.keys))
    except Exception:
        # A fault in the recording must not change the decision.
        if log_sampling.due("recording"):
            logger.exception("A check of limiter %s could not be recorded", ruleset.limiter)


def _chosen(keys: KeyWriter, planned: Plan | None, value_of: ValueOf, request: RequestIdentifier | None) -> bool:
    share = settings.RECORD
    if share >= 1:
        return True
    client = value_of("ip")
    if client:
        client = keys.part("ip", client, value_of)
    elif request is None:
        client = value_of("user")
    if not client and planned is not None and planned.hits.keys:
        client = planned.hits.keys[0]
    return crc32((client or "").encode("utf-8", "surrogatepass")) < share * 2**32


def _texts(ruleset: Ruleset, value_of: ValueOf, request: RequestIdentifier | None) -> dict[str, str]:
    names = ("ip", "user", *ruleset.properties, *registry.of_project())
    if request is not None:
        recorded = [row.name for row in PROPERTIES.values() if row.recorded]
        for name in recorded:
            value_of(name)
        # Leave out properties that the check did not ask for, because a record is not worth a query.
        names = (*recorded, *filter(request.is_known, names))
    texts = {}
    for name in dict.fromkeys(names):
        with suppress(CallableFailed, TypeError):
            text = value_of(name)
            if text is not None:
                texts[name] = text
    return texts


def write() -> None:
    """Write the waiting calls. Calls that cannot be written are lost."""
    entries = [waiting.entries.popleft() for _ in range(len(waiting.entries))]
    if entries:
        with suppress(CountersUnavailable):
            current().log(STREAM, map(_line, entries), max(1, int(settings.RECORD_MAX)), KEPT_SECONDS)


def _line(entry: Entry) -> str:
    time_ms, limiter, texts, cost, keys = entry
    row: dict[str, Any] = {"time": time_ms / 1000, "limiter": limiter}
    if cost != 1:
        row["cost"] = cost
    row["identifier"] = {name: _kept(keys, name, text) for name, text in texts.items()}
    return json.dumps(row, separators=(",", ":"))


def _kept(keys: KeyWriter, name: str, text: str) -> str:
    """Return a value, or its digest as in a counter's key if a client wrote the value or it is long."""
    if is_client_written(name) or len(text) > MAX_VALUE:
        return "#" + keys.digest(text.encode("utf-8", "surrogatepass"))
    return text


def size() -> int:
    """Return the number of recorded calls. Raises CountersUnavailable."""
    write()
    return current().logged_size(STREAM)


def lines(read: Callable[[int], object] = lambda number: None) -> Iterator[list[str]]:
    """Yield lists of recorded calls as JSON lines, in the order of their times.

    Calls ``read`` with the length of each list. Raises CountersUnavailable.
    """
    write()
    # Each process writes the calls of some seconds at once, so neighbours in time may be thousands of lines apart.
    entries = sorted((entry for batch in current().logged(STREAM) for entry in batch), key=_time_of)
    for start in range(0, len(entries), LINES_AT_ONCE):
        batch = entries[start : start + LINES_AT_ONCE]
        read(len(batch))
        # Latin-1, like the lines of files, so that each byte is one character.
        yield [entry.decode("latin-1") for entry in batch]


def _time_of(entry: bytes) -> float:
    try:
        return float(entry[len(START) :].partition(b",")[0])
    except ValueError:
        return 0.0


def connect() -> None:
    """Register the writes with the background thread. Called once by the app config."""
    background.every(WRITE_SECONDS, write, at_exit=True)
