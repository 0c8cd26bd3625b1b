"""What this app keeps in Redis beside its counters: news of changed rules, texts, sums, sets of clients, a record.

A name and what to keep go in; every key has the namespace of the counters, and an end. None of it goes through the
breaker: it says nothing about whether counting works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from ..runtime.steps import Steps, arun, run
from .alias import Client

REVISION_SECONDS = 60
ENTRIES_AT_ONCE = 2000


class Beside(Client):
    """A cache alias with what lies beside the counters."""

    def revision(self) -> str | None:
        """Return what stands for the latest rule change that any process announced, None when there is no news."""
        reply = self._aside("GET", self.namespace() + ":revision")
        return None if reply is None else bytes(reply).decode(errors="replace")

    def announce(self) -> None:
        """Tell every process that rules changed."""
        self._aside("SET", self.namespace() + ":revision", uuid4().hex, "EX", REVISION_SECONDS)

    def put(self, name: str, value: str, seconds: int) -> None:
        """Keep a text beside the counters for some seconds. Raises CountersUnavailable."""
        run(self._putting(name, value, seconds))

    async def aput(self, name: str, value: str, seconds: int) -> None:
        """Async version of :meth:`put`."""
        await arun(self._putting(name, value, seconds))

    def _putting(self, name: str, value: str, seconds: int) -> Steps[None]:
        yield from self._asking_aside("SET", f"{self.namespace()}:{name}", value, "EX", seconds)

    def fetch(self, name: str) -> bytes | None:
        """Return what :meth:`put` kept, None when there is nothing. Raises CountersUnavailable."""
        reply: bytes | None = self._aside("GET", f"{self.namespace()}:{name}")
        return reply

    def add(self, sums: Mapping[str, Mapping[str, int]], seconds: int) -> None:
        """Add numbers to the fields of hashes beside the counters, each kept for some seconds from now on, in one go.

        Raises CountersUnavailable.
        """
        commands: list[tuple[Any, ...]] = []
        for name, fields in sums.items():
            key = f"{self.namespace()}:{name}"
            commands += [("HINCRBY", key, field, number) for field, number in fields.items()]
            commands.append(("EXPIRE", key, seconds))
        self._aside_all(commands)

    def added(self, names: Sequence[str]) -> list[dict[bytes, bytes]]:
        """Return the hashes that :meth:`add` made, as they stand there. Raises CountersUnavailable."""
        replies = self._aside_all([("HGETALL", f"{self.namespace()}:{name}") for name in names])
        return [_pairs(reply) for reply in replies]

    def mark(self, members: Mapping[str, Sequence[str]], now: int, seconds: int, most: int) -> None:
        """Put texts into sets beside the counters, each kept for some seconds from ``now`` on, a POSIX time; of more
        than ``most`` in one set the latest. Raises CountersUnavailable."""
        commands: list[tuple[Any, ...]] = []
        for name, texts in members.items():
            key = f"{self.namespace()}:{name}"
            scored = [part for text in texts for part in (now, text)]
            commands += [("ZADD", key, *scored), ("ZREMRANGEBYSCORE", key, "-inf", now - seconds)]
            commands += [("ZREMRANGEBYRANK", key, 0, -most - 1), ("EXPIRE", key, seconds)]
        self._aside_all(commands)

    def marked(self, names: Sequence[str], since: int) -> list[int]:
        """Return how many texts :meth:`mark` put into sets after a POSIX time. Raises CountersUnavailable."""
        counts = [("ZCOUNT", f"{self.namespace()}:{name}", f"({since}", "+inf") for name in names]
        return [int(reply) for reply in self._aside_all(counts)]

    def log(self, name: str, entries: Iterable[str], most: int, seconds: int) -> None:
        """Add texts to a stream beside the counters, which holds ``most`` of them or a few more, for some seconds from
        now on. Raises CountersUnavailable."""
        key = f"{self.namespace()}:{name}"
        commands: list[tuple[Any, ...]] = [("XADD", key, "MAXLEN", "~", most, "*", "r", entry) for entry in entries]
        self._aside_all([*commands, ("EXPIRE", key, seconds)])

    def logged(self, name: str) -> Iterator[list[bytes]]:
        """Yield what :meth:`log` keeps, the oldest first, some at a time. Raises CountersUnavailable."""
        start = b"-"
        while replies := self._aside("XRANGE", f"{self.namespace()}:{name}", start, "+", "COUNT", ENTRIES_AT_ONCE):
            yield [fields[1] for _, fields in replies]
            start = b"(" + replies[-1][0]

    def logged_size(self, name: str) -> int:
        """Return how many texts :meth:`log` keeps. Raises CountersUnavailable."""
        return int(self._aside("XLEN", f"{self.namespace()}:{name}"))


def _pairs(reply: Any) -> dict[bytes, bytes]:
    # A dictionary in RESP3, a flat list before.
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
