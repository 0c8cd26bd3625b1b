"""Counters in Redis, over a django-redis cache alias: one EVALSHA for a whole chain of hits.

Hits go in, tallies come out; whatever goes wrong on the way becomes CountersUnavailable.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError

from ..engine import Hit, Hits, Tally
from ..engine.plans import Terms, new_tuple
from ..engine.results import Number
from ..exceptions import CountersUnavailable
from ..runtime.steps import Steps, arun, run
from . import CHARGE, CHECK, PEEK, Verb
from .alias import FAILURES
from .shared_state import Beside
from .transport.blocking import is_sick
from .transport.breaker import Breaker
from .transport.topology import ServerUnavailable

SCRIPT = files(__package__).joinpath("hit.lua").read_bytes()
SHA = hashlib.sha1(SCRIPT, usedforsecurity=False).hexdigest()

# The flags of a hit, see the header of hit.lua.
_ENFORCED, _LOOKED = 1, 2
_VERBS = {CHECK: 0, PEEK: 1, CHARGE: 2}
_CALL, _HIT = struct.Struct("<Bdd"), struct.Struct("<BBddd")
COUNTERS_AT_ONCE = 200


class RedisCounters(Beside):
    """Counters of one cache alias; thread-safe, one for the process. See Counters for the contract."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.breaker = Breaker()

    def hit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = CHECK, missed: Number = 0) -> list[Tally]:
        """Count one call in a chain of hits; see Counters. Raises CountersUnavailable.

        ``missed`` is added to the count of the first counter if that one is still there: see denials.py.
        """
        return run(self.counting(hits, cost, verb, missed, blocking=True))

    async def ahit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = CHECK, missed: Number = 0) -> list[Tally]:
        """Async version of :meth:`hit`."""
        return await arun(self.counting(hits, cost, verb, missed))

    def counting(
        self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = CHECK, missed: Number = 0, *, blocking: bool = False
    ) -> Steps[list[Tally]]:
        """Return the steps of :meth:`hit`. Blocking steps ask at once, because a yield costs a check 2 percent."""
        breaker = self.breaker
        if breaker.until:
            self._enter()
        try:
            arguments = self._arguments(hits, cost, verb, missed)
            ask = (self._connections or self._connect()).ask
            try:
                if blocking:
                    reply = ask("EVALSHA", SHA, *arguments)
                else:
                    reply = yield ask, self._aask, ("EVALSHA", SHA, *arguments)
            except NoScriptError:
                # Nothing ran, so nothing was counted; EVAL puts the script back for the calls to come.
                reply = yield ask, self._aask, ("EVAL", SCRIPT, *arguments)
            tallies = _tallies(reply)
        except FAILURES as error:
            raise self._failed(error) from error
        if breaker.until:
            breaker.worked()
        return tallies

    def reset(self, keys: Iterable[str]) -> int:
        """Forget counters; return how many there were. Raises CountersUnavailable."""
        return run(self.forgetting(keys))

    async def areset(self, keys: Iterable[str]) -> int:
        """Async version of :meth:`reset`."""
        return await arun(self.forgetting(keys))

    def forgetting(self, keys: Iterable[str]) -> Steps[int]:
        """Return the steps of :meth:`reset`."""
        names = self._names(keys)
        if not names:
            return 0
        self._enter()
        try:
            reply = yield self._connect().ask, self._aask, ("DEL", *names)
        except FAILURES as error:
            raise self._failed(error) from error
        self.breaker.worked()
        return int(reply)

    def clear(self, limiter: str | None = None) -> int:
        """Forget all counters of one limiter, or of this app, by SCAN; return how many. For tests and operators.

        Raises CountersUnavailable. A Redis that did this is left alone no longer.
        """
        removed = sum(self._forget(keys) for keys, _ in self._scan(limiter))
        self.breaker.worked()
        return removed

    def keys(self, limiter: str, most: int, rounds: int = 100) -> tuple[list[str], bool]:
        """Return the keys of some counters of a limiter, and whether they are all. Raises CountersUnavailable.

        Each round looks at a thousand keys or so of that Redis, whoever they belong to.
        """
        namespace = self.namespace().encode()
        found: dict[str, None] = {}
        complete = False
        for _, (keys, last) in zip(range(rounds), self._scan(limiter), strict=False):
            found.update((key[len(namespace) :].decode(errors="replace"), None) for key in keys)
            complete = last and len(found) <= most
            if len(found) > most:
                break
        return list(found)[:most], complete

    def look(self, hits: Sequence[Hit]) -> list[tuple[Hit, Tally]]:
        """Return what counters of different calls say, some hundred in one go where they lie together; write nothing.

        Raises CountersUnavailable.
        """
        namespace = self.namespace()
        by_key = {namespace + hit.key: hit for hit in hits}
        found: list[tuple[Hit, Tally]] = []
        for group in self._connect().together(list(by_key)):
            for start in range(0, len(group), COUNTERS_AT_ONCE):
                chunk = [by_key[key] for key in group[start : start + COUNTERS_AT_ONCE]]
                found += zip(chunk, self.hit(chunk, 0, Verb.PEEK), strict=True)
        return found

    def begin_anew(self) -> None:
        """Close the breaker, in a forked child and for tests. A thread of the parent may have held its lock."""
        self.breaker = Breaker()

    def remembers(self) -> bool:
        """Return whether Redis failed last."""
        return self.breaker.is_open

    def _arguments(self, hits: Sequence[Hit], cost: Number, verb: Verb, missed: Number) -> list[Any]:
        """Return what follows the script: the number of keys, the keys, and the arguments that hit.lua describes."""
        if type(hits) is not Hits:
            hits = Hits.of(hits)
        namespace = self.namespace()
        chain = hits.chain
        if chain is None or chain.terms is None or verb is CHARGE:
            packed = b"".join(_packed(hits.terms, verb))
        else:
            packed = chain.wire
            if packed is None:
                packed = chain.wire = b"".join(_packed(hits.terms, verb))
        arguments = [
            len(hits.keys),
            *[namespace + key for key in hits.keys],
            _CALL.pack(_VERBS[verb], cost, missed) + packed,
        ]
        if hits.members is not None:
            arguments += ["" if member is None else member for member in hits.members]
        return arguments

    def _names(self, keys: Iterable[str]) -> list[str]:
        namespace = self.namespace()
        return [namespace + key for key in dict.fromkeys(keys)]

    def _enter(self) -> None:
        """Leave a failing Redis alone for a while."""
        pause = self.breaker.pause()
        if pause:
            raise CountersUnavailable(
                f"Redis of cache alias {self.alias!r} is left alone after a failure", retry_after=pause
            )

    def _failed(self, error: Exception) -> CountersUnavailable:
        """Note a failure; return what to raise. What ails one key or one script is no reason to leave Redis alone."""
        if isinstance(error, ServerUnavailable):
            # One of a cluster, which has a breaker of its own.
            pause = error.retry_after
        else:
            pause = self.breaker.failed() if is_sick(error) else 0.0
        return CountersUnavailable(
            f"Redis of cache alias {self.alias!r} failed: {type(error).__name__}: {error}", retry_after=pause
        )

    def _scan(self, limiter: str | None) -> Iterator[tuple[list[bytes], bool]]:
        """Yield the keys of one limiter's counters, or of all, from all servers: a round of SCAN at a time, and whether
        those were the last. Raises CountersUnavailable.
        """
        namespace = self.namespace()
        pattern = _glob_escape(namespace + "{") + ("*" if limiter is None else f"{limiter}[}}|]*")
        try:
            servers = self._connect().servers()
            for number, server in enumerate(servers, start=1):
                cursor = b"0"
                while True:
                    cursor, keys = server.ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
                    # With an empty KEY_PREFIX the pattern alone could meet keys of others.
                    ours = [key for key in keys if _OURS.match(key, len(namespace.encode()))]
                    yield ours, int(cursor) == 0 and number == len(servers)
                    if int(cursor) == 0:
                        break
        except FAILURES as error:
            raise CountersUnavailable(f"Redis of cache alias {self.alias!r} failed: {error}") from error

    def _forget(self, keys: Sequence[bytes]) -> int:
        return sum(int(self._aside("DEL", *group)) for group in self._connect().together(keys))


def _packed(terms: Iterable[Terms], verb: Verb) -> Iterable[bytes]:
    for rule, limit, period, enforced, looked, _ in terms:
        flags = (_ENFORCED if enforced else 0) | (_LOOKED if looked and verb is not CHARGE else 0)
        yield _HIT.pack(rule.counting.wire, flags, limit, period * 1000, (rule.ban_for or 0) * 1000)


def _tallies(reply: list[Any]) -> list[Tally]:
    """Return what the script said, which its header describes."""
    if reply[0] >= 0:
        # An odd length raises ValueError. A strict zip costs a fifth of a microsecond more.
        tallies = []
        for at in range(0, len(reply), 2):
            used, reset = reply[at : at + 2]
            tallies.append(new_tuple(Tally, (used, used, False, False, reset, 0)))
        return tallies
    if len(reply) == 6 and reply[0] == -1:
        # One counter: most refusals.
        _, used, count, state, reset, retry = reply
        return [new_tuple(Tally, (used, count, state > 0, state == 2, reset, retry))]
    if reply[0] == -2:
        reply = [_number(part) if type(part) is bytes else part for part in reply]
    fives = (reply[at : at + 5] for at in range(1, len(reply), 5))
    return [
        new_tuple(Tally, (used, count, state > 0, state == 2, int(reset), int(retry)))
        for used, count, state, reset, retry in fives
    ]


def _number(text: bytes) -> Number:
    number = float(text)
    return int(number) if number.is_integer() else number


def _glob_escape(text: str) -> str:
    return "".join(f"\\{character}" if character in r"*?[]\^-" else character for character in text)


_OURS = re.compile(rb"\{[a-z][a-z0-9_]*(?:\|[^{}]*)?\}(?:[A-Za-z0-9_-]{5}|[A-Za-z0-9_-]{15}):")
