"""The state that processes share in Redis, apart from the counters.

It holds announcements of changed rules, strings, sums, sets of clients, and the record of traffic. A name and a value
go in. Every key has the namespace of the counters, and an expiry. The breaker ignores these commands, because they do
not show whether counting works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from ..runtime.steps import Steps, arun, run
from .alias import Alias

REVISION_SECONDS = 60
ENTRIES_AT_ONCE = 2000


class SharedState(Alias):
    """A cache alias, with the state that processes share in it. Its methods raise CountersUnavailable."""

    def revision(self) -> str | None:
        """Return the token of the latest rule change that any process announced.

        Returns None if no process announced a change in the last 60 seconds.
        """
        reply = self._send("GET", self.namespace() + ":revision")
        return None if reply is None else bytes(reply).decode(errors="replace")

    def announce(self) -> None:
        """Announce to every process that rules changed."""
        self._send("SET", self.namespace() + ":revision", uuid4().hex, "EX", REVISION_SECONDS)

    def put(self, name: str, value: str, seconds: int) -> None:
        """Store a string for some seconds. Raises CountersUnavailable."""
        run(self._putting(name, value, seconds))

    async def aput(self, name: str, value: str, seconds: int) -> None:
        """Async version of :meth:`put`."""
        await arun(self._putting(name, value, seconds))

    def _putting(self, name: str, value: str, seconds: int) -> Steps[None]:
        yield from self._sending("SET", f"{self.namespace()}:{name}", value, "EX", seconds)

    def fetch(self, name: str) -> bytes | None:
        """Return the string that :meth:`put` stored. Returns None for an unknown name. Raises CountersUnavailable."""
        reply: bytes | None = self._send("GET", f"{self.namespace()}:{name}")
        return reply

    def add(self, sums: Mapping[str, Mapping[str, int]], seconds: int) -> None:
        """Add numbers to the fields of hashes, in one write. Each hash expires some seconds from now.

        Raises CountersUnavailable.
        """
        commands: list[tuple[Any, ...]] = []
        for name, fields in sums.items():
            key = f"{self.namespace()}:{name}"
            commands += [("HINCRBY", key, field, number) for field, number in fields.items()]
            commands.append(("EXPIRE", key, seconds))
        self._send_all(commands)

    def added(self, names: Sequence[str]) -> list[dict[bytes, bytes]]:
        """Return the hashes that :meth:`add` made. Raises CountersUnavailable."""
        replies = self._send_all([("HGETALL", f"{self.namespace()}:{name}") for name in names])
        return [_pairs(reply) for reply in replies]

    def mark(self, members: Mapping[str, Sequence[str]], now: int, seconds: int, most: int) -> None:
        """Put strings into sets. Each string is kept for some seconds after ``now``, a POSIX time.

        A set with more than ``most`` strings keeps the latest. Raises CountersUnavailable.
        """
        commands: list[tuple[Any, ...]] = []
        for name, strings in members.items():
            key = f"{self.namespace()}:{name}"
            scored = [part for string in strings for part in (now, string)]
            commands += [("ZADD", key, *scored), ("ZREMRANGEBYSCORE", key, "-inf", now - seconds)]
            commands += [("ZREMRANGEBYRANK", key, 0, -most - 1), ("EXPIRE", key, seconds)]
        self._send_all(commands)

    def marked(self, names: Sequence[str], since: int) -> list[int]:
        """Return for each set how many strings :meth:`mark` put into it after a POSIX time.

        Raises CountersUnavailable.
        """
        counts = [("ZCOUNT", f"{self.namespace()}:{name}", f"({since}", "+inf") for name in names]
        return [int(reply) for reply in self._send_all(counts)]

    def log(self, name: str, entries: Iterable[str], most: int, seconds: int) -> None:
        """Append strings to a stream that keeps the latest ``most``, or a few more. It expires some seconds from now.

        Raises CountersUnavailable.
        """
        key = f"{self.namespace()}:{name}"
        commands: list[tuple[Any, ...]] = [("XADD", key, "MAXLEN", "~", most, "*", "r", entry) for entry in entries]
        self._send_all([*commands, ("EXPIRE", key, seconds)])

    def logged(self, name: str) -> Iterator[list[bytes]]:
        """Yield the entries that :meth:`log` wrote in batches, the oldest first. Raises CountersUnavailable."""
        start = b"-"
        while replies := self._send("XRANGE", f"{self.namespace()}:{name}", start, "+", "COUNT", ENTRIES_AT_ONCE):
            yield [fields[1] for _, fields in replies]
            start = b"(" + replies[-1][0]

    def logged_size(self, name: str) -> int:
        """Return the number of entries that :meth:`logged` yields. Raises CountersUnavailable."""
        return int(self._send("XLEN", f"{self.namespace()}:{name}"))


def _pairs(reply: Any) -> dict[bytes, bytes]:
    # The reply is a dictionary in RESP3, and a flat list in RESP2.
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
