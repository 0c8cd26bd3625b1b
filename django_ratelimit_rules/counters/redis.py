"""Counters in the Redis of a django-redis cache alias: one EVALSHA for a whole chain of hits.

Hits go in, tallies come out. Every failure becomes CountersUnavailable.
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
from ..engine.messages import _
from ..engine.plans import Terms, new_tuple
from ..engine.results import Number
from ..exceptions import CountersUnavailable
from ..runtime.steps import Steps, arun, run
from . import CHARGE, CHECK, PEEK, Verb
from .alias import FAILURES
from .shared_state import SharedState
from .transport.blocking import is_outage
from .transport.breaker import Breaker
from .transport.topology import ServerUnavailable

SCRIPT = files(__package__).joinpath("hit.lua").read_bytes()
SHA = hashlib.sha1(SCRIPT, usedforsecurity=False).hexdigest()

# The flags of a hit. The header of hit.lua explains them.
_ENFORCED, _LOOKED = 1, 2
_VERBS = {CHECK: 0, PEEK: 1, CHARGE: 2}
_CALL, _HIT = struct.Struct("<Bdd"), struct.Struct("<BBddd")
COUNTERS_AT_ONCE = 200


class RedisCounters(SharedState):
    """Counters and shared state of one cache alias, as Counters and Store describe them.

    It is thread-safe, and the process has one object for each alias.
    """

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.breaker = Breaker()

    def hit(self, hits: Sequence[Hit], cost: Number = 1, verb: Verb = CHECK, missed: Number = 0) -> list[Tally]:
        """Count one call in a chain of hits, as Counters describes it. Raises CountersUnavailable.

        ``missed`` is the cost of calls that the denial cache refused. It is added to the count of the first counter, if
        that counter still exists.
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
                # Nothing ran, so nothing was counted. EVAL also stores the script for the next calls.
                reply = yield ask, self._aask, ("EVAL", SCRIPT, *arguments)
            tallies = _tallies(reply)
        except FAILURES as error:
            raise self._failed(error) from error
        if breaker.until:
            breaker.worked()
        return tallies

    def reset(self, keys: Iterable[str]) -> int:
        """Delete counters. Return how many there were. Raises CountersUnavailable."""
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
        """Delete all counters of one limiter, or of this app, by SCAN. Return how many there were.

        This serves tests and operators. Success closes the breaker. Raises CountersUnavailable.
        """
        removed = sum(self._delete(keys) for keys, _last in self._scan(limiter))
        self.breaker.worked()
        return removed

    def keys(self, limiter: str, most: int, rounds: int = 100) -> tuple[list[str], bool]:
        """Return the keys of at most ``most`` counters of a limiter, and whether there are no others.

        Each of the rounds reads about a thousand keys of that Redis, including keys of other programs. Raises
        CountersUnavailable.
        """
        namespace = self.namespace().encode()
        names: dict[str, None] = {}
        complete = False
        for _round, (keys, last) in zip(range(rounds), self._scan(limiter), strict=False):
            names.update((key[len(namespace) :].decode(errors="replace"), None) for key in keys)
            complete = last and len(names) <= most
            if len(names) > most:
                break
        return list(names)[:most], complete

    def look(self, hits: Sequence[Hit]) -> list[tuple[Hit, Tally]]:
        """Return the tallies of counters of different calls, up to 200 counters of one server at once. Writes nothing.

        Raises CountersUnavailable.
        """
        namespace = self.namespace()
        by_key = {namespace + hit.key: hit for hit in hits}
        tallies: list[tuple[Hit, Tally]] = []
        for group in self._connect().together(list(by_key)):
            for start in range(0, len(group), COUNTERS_AT_ONCE):
                chunk = [by_key[key] for key in group[start : start + COUNTERS_AT_ONCE]]
                tallies += zip(chunk, self.hit(chunk, 0, Verb.PEEK), strict=True)
        return tallies

    def start_afresh(self) -> None:
        """Replace the breaker, for tests and in a forked child, where a thread of the parent may have held its lock."""
        self.breaker = Breaker()

    def remembers(self) -> bool:
        """Return whether the last call to Redis failed."""
        return self.breaker.is_open

    def _arguments(self, hits: Sequence[Hit], cost: Number, verb: Verb, missed: Number) -> list[Any]:
        """Return the arguments after the script: the number of keys, the keys, and the arguments of hit.lua."""
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
        """Raise CountersUnavailable during the breaker's pause after a failure."""
        pause = self.breaker.pause()
        if pause:
            message = _(
                "Redis of cache alias %(alias)s failed, and is not used again for a short time", alias=repr(self.alias)
            )
            raise CountersUnavailable(message, retry_after=pause)

    def _failed(self, error: Exception) -> CountersUnavailable:
        """Note a failure. Return the exception to raise. The breaker ignores errors of one key or one script."""
        if isinstance(error, ServerUnavailable):
            # The failing server of a cluster has its own breaker.
            pause = error.retry_after
        else:
            pause = self.breaker.failed() if is_outage(error) else 0.0
        return self._failure(error, pause)

    def _scan(self, limiter: str | None) -> Iterator[tuple[list[bytes], bool]]:
        """Yield the keys of the counters of one limiter, or of all limiters, from all servers.

        Each item has the keys of one round of SCAN, and whether it was the last round. Raises CountersUnavailable.
        """
        namespace = self.namespace()
        pattern = _glob_escape(namespace + "{") + ("*" if limiter is None else f"{limiter}[}}|]*")
        try:
            servers = self._connect().servers()
            for number, server in enumerate(servers, start=1):
                cursor = b"0"
                while True:
                    cursor, keys = server.ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
                    # With an empty KEY_PREFIX, the pattern alone could match keys of other programs.
                    counters = [key for key in keys if _COUNTER_KEY.match(key, len(namespace.encode()))]
                    yield counters, int(cursor) == 0 and number == len(servers)
                    if int(cursor) == 0:
                        break
        except FAILURES as error:
            raise self._failure(error) from error

    def _delete(self, keys: Sequence[bytes]) -> int:
        return sum(int(self._send("DEL", *group)) for group in self._connect().together(keys))


def _packed(terms: Iterable[Terms], verb: Verb) -> Iterable[bytes]:
    for rule, limit, period, enforced, looked, _rest in terms:
        flags = (_ENFORCED if enforced else 0) | (_LOOKED if looked and verb is not CHARGE else 0)
        yield _HIT.pack(rule.counting.wire, flags, limit, period * 1000, (rule.ban_for or 0) * 1000)


def _tallies(reply: list[Any]) -> list[Tally]:
    """Return the tallies in a reply of the script. The header of hit.lua describes the reply."""
    if reply[0] >= 0:
        # An odd length raises ValueError here. A strict zip would cost 0.2 microseconds more.
        tallies = []
        for at in range(0, len(reply), 2):
            used, reset = reply[at : at + 2]
            tallies.append(new_tuple(Tally, (used, used, False, False, reset, 0)))
        return tallies
    if len(reply) == 6 and reply[0] == -1:
        # A refusal by one counter, as most refusals are.
        _code, used, count, state, reset, retry = reply
        return [new_tuple(Tally, (used, count, state > 0, state == 2, reset, retry))]
    if reply[0] == -2:
        reply = [_number(part) if type(part) is bytes else part for part in reply]
    fives = (reply[at : at + 5] for at in range(1, len(reply), 5))
    return [
        new_tuple(Tally, (used, count, state > 0, state == 2, int(reset), int(retry)))
        for used, count, state, reset, retry in fives
    ]


def _number(digits: bytes) -> Number:
    number = float(digits)
    return int(number) if number.is_integer() else number


def _glob_escape(text: str) -> str:
    return "".join(f"\\{character}" if character in r"*?[]\^-" else character for character in text)


_COUNTER_KEY = re.compile(rb"\{[a-z][a-z0-9_]*(?:\|[^{}]*)?\}(?:[A-Za-z0-9_-]{5}|[A-Za-z0-9_-]{15}):")
