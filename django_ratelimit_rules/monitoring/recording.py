"""Our own record of traffic: a sampled, capped stream in Redis of who asked which limiter when, for replays.

Off unless ``RATELIMIT_RULES_RECORD`` states a share of clients. A check leaves what its identifier says in a bounded
buffer of this process; the refresher's thread writes it every few seconds, so that a request waits for nothing. A
client is recorded with all its calls or with none: a share of each client's calls would tell nothing about limits.
What clients wrote (headers, cookies, query, body) is kept as digests only.
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
# Calls that wait to be written; more than that in a few seconds are not recorded.
MOST_WAITING = 5000
MAX_VALUE = 200
LINES_AT_ONCE = 2000
# What each line begins with; the time follows.
START = b'{"time":'

Entry = tuple[int, str, dict[str, str], Number, KeyWriter]


class Waiting(reset.Part):
    """The calls that wait to be written."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()

    def forget(self) -> None:
        """Forget the calls, so that no test sees another test's."""
        self.entries.clear()

    def after_fork(self) -> None:
        """Leave the calls to the parent, which writes them."""
        self.entries.clear()

    def remembers(self) -> bool:
        """Return whether any call waits."""
        return bool(self.entries)


waiting = reset.register("recording", Waiting())


def note(
    ruleset: Ruleset, planned: Plan | None, value_of: ValueOf, cost: Number, request: RequestIdentifier | None
) -> None:
    """Record a check, if its client is one of those that are recorded. Never raises, and loads nothing."""
    try:
        if len(waiting.entries) < MOST_WAITING and _chosen(ruleset.keys, planned, value_of, request):
            texts = _texts(ruleset, value_of, request)
            waiting.entries.append((int(clock.now() * 1000), ruleset.limiter, texts, cost, ruleset.keys))
    except Exception:
        # The decision stands, whatever ails its record.
        if log_sampling.due("recording"):
            logger.exception("A check of limiter %s could not be recorded", ruleset.limiter)


def _chosen(keys: KeyWriter, planned: Plan | None, value_of: ValueOf, request: RequestIdentifier | None) -> bool:
    share = settings.RECORD
    if share >= 1:
        return True
    who = value_of("ip")
    if who:
        who = keys.part("ip", who, value_of)
    elif request is None:
        who = value_of("user")
    if not who and planned is not None and planned.hits.keys:
        who = planned.hits.keys[0]
    return crc32((who or "").encode("utf-8", "surrogatepass")) < share * 2**32


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
    """Write what waits. What cannot be written is lost."""
    entries = [waiting.entries.popleft() for _ in range(len(waiting.entries))]
    if entries:
        with suppress(CountersUnavailable):
            current().log(STREAM, map(_line, entries), max(1, int(settings.RECORD_MAX)), KEPT_SECONDS)


def _line(entry: Entry) -> str:
    time_ms, limiter, texts, cost, keys = entry
    said: dict[str, Any] = {"time": time_ms / 1000, "limiter": limiter}
    if cost != 1:
        said["cost"] = cost
    said["identifier"] = {name: _kept(keys, name, text) for name, text in texts.items()}
    return json.dumps(said, separators=(",", ":"))


def _kept(keys: KeyWriter, name: str, text: str) -> str:
    """Return a value as a counter's key has it, where a client wrote it or it is long."""
    if is_client_written(name) or len(text) > MAX_VALUE:
        return "#" + keys.digest(text.encode("utf-8", "surrogatepass"))
    return text


def size() -> int:
    """Return how many calls are recorded. Raises CountersUnavailable."""
    write()
    return current().logged_size(STREAM)


def lines(read: Callable[[int], object] = lambda number: None) -> Iterator[list[str]]:
    """Yield what is recorded as JSON lines in the order of their times, some at a time; ``read`` hears how many.

    Raises CountersUnavailable.
    """
    write()
    # Each process writes what came in some seconds at once, so that neighbours may stand thousands of lines apart.
    entries = sorted((entry for some in current().logged(STREAM) for entry in some), key=_time_of)
    for start in range(0, len(entries), LINES_AT_ONCE):
        some = entries[start : start + LINES_AT_ONCE]
        read(len(some))
        # As readers of files have them, who read every byte as a character.
        yield [entry.decode("latin-1") for entry in some]


def _time_of(entry: bytes) -> float:
    try:
        return float(entry[len(START) :].partition(b",")[0])
    except ValueError:
        return 0.0


def connect() -> None:
    """Be called by the refresher; called once by the app config."""
    background.every(WRITE_SECONDS, write, at_exit=True)
