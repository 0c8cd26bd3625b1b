"""Which server of a Redis Cluster holds what, and the way of a command to it.

A command goes in; what to send where comes out, turn by turn, and is told what came of it. Nothing here waits or opens
a connection: :mod:`cluster` does, in both colours. A command is sent again only where the server says that it did not
run (MOVED, ASK, TRYAGAIN); after anything else it may have counted, and the caller is told.

While a slot goes from one server to another, neither runs a script of which some keys are here and some there, or
nowhere yet (TRYAGAIN). For slots of many keys that may last minutes. So the keys of the one check are brought together
where the slot goes: those still here by MIGRATE, as whoever moves the slot would do it in a moment; in the place of
those nowhere yet a text that the script takes for no counter. Where that is not allowed, the check waits a little.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError

from ...runtime import reset
from .blocking import NothingRan, is_sick
from .breaker import Breaker
from .slots import (
    Address,
    SlotMap,
    named_by,
    slot_of,
)

Command: TypeAlias = tuple[Any, ...]

FAILURES = (RedisError, OSError, ValueError)
# These are kept from a server that is left alone, and tell how it is; what is asked aside does neither.
COUNTING = frozenset({"EVALSHA", "EVAL", "DEL"})
# While something is amiss, who holds what is asked this often, in seconds, by one of the calls that come by.
REFRESH_SECONDS = 0.5
# No more servers than this are asked for it at a time, because each may cost a time-out.
MOST_ADVISERS = 3
MOST_REDIRECTIONS = 8
# Seconds between tries at a slot some of whose keys are elsewhere already.
FIRST_WAIT, LONGEST_WAIT = 0.002, 0.05
# Milliseconds that one server may take to hand counters to another, and that stand-ins for missing ones last.
MIGRATE_MS, STAND_IN_MS = 200, 1000
SCRIPTS = ("EVALSHA", "EVAL")


class ServerUnavailable(RedisConnectionError):
    """Say that the server that holds a key fails; ``retry_after`` is for how many seconds it is left alone."""

    def __init__(self, message: str, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class Send(NamedTuple):
    """A turn: send a command to a server; behind ASKING when its slot is on the way there."""

    address: Address
    command: Command
    asking: bool = False


class Wait(NamedTuple):
    """A turn: wait some seconds."""

    seconds: float


Way: TypeAlias = Generator[Send | Wait, Any, Any]


class Topology:
    """The ways in one cluster, and how each of its servers is; one for all threads and loops of a process.

    A check waits no longer than ``patience``, in seconds, for keys that are just moved. ``credentials`` are what
    MIGRATE needs to sign in at another server.
    """

    def __init__(self, startup: Sequence[Address], patience: float, credentials: Sequence[Any] = ()) -> None:
        self.slots = SlotMap(startup)
        self._patience = patience
        self._credentials = credentials
        self._breakers: dict[Address, Breaker] = {}
        self._stuck: dict[int, Breaker] = {}
        self._refreshed = 0.0
        topologies.alive.add(self)

    def breaker(self, address: Address) -> Breaker:
        """Return a server's own breaker: one that is dead is left alone, and those beside it are not."""
        return self._breakers.get(address) or self._breakers.setdefault(address, Breaker())

    def known(self) -> Way:
        """The way to know who holds what. Raises RedisError or OSError when no server tells."""
        if not self.slots.known:
            yield from self._refresh()

    def way(self, command: Command) -> Way:
        """The way of a command to the reply of the server that holds its first key; the others lie there too.

        Raises RedisError or OSError; ServerUnavailable when that one server fails.
        """
        yield from self.known()
        slot = slot_of(command[3 if command[0] in SCRIPTS else 1])
        counting = command[0] in COUNTING
        address, asking, redirections, waited = self.slots.owner(slot), False, 0, 0.0
        while redirections < MOST_REDIRECTIONS:
            if counting and (address is None or self.breaker(address).is_open):
                address = yield from self._well(slot, address)
            if address is None:
                raise ServerUnavailable(f"no server of the cluster holds slot {slot}", REFRESH_SECONDS)
            try:
                reply = yield Send(address, command, asking)
            except NothingRan as error:
                self.breaker(address).worked()
                if error.word == "TRYAGAIN":
                    waited = yield from self._wait(slot, command, waited, error)
                    address, asking = self.slots.owner(slot), False
                else:
                    asking = error.word == "ASK"
                    address = yield from self._redirected(slot, address, error)
                    redirections += 1
            except FAILURES as error:
                if is_sick(error):
                    yield from self._look_again()
                if counting:
                    self._note(address, error)
                raise
            else:
                if counting:
                    self.breaker(address).worked()
                if waited:
                    self._stuck.pop(slot, None)
                return reply
        raise ServerUnavailable(f"slot {slot} was redirected {redirections} times", REFRESH_SECONDS)

    def _well(self, slot: int, address: Address | None) -> Way:
        """The way to a server that is not left alone: while it is, somebody else may have taken over what it held."""
        pause = self.breaker(address).pause() if address else REFRESH_SECONDS
        if not pause:
            return address
        yield from self._look_again()
        owner = self.slots.owner(slot)
        if owner and owner != address and not self.breaker(owner).pause():
            return owner
        if address is None:
            return None
        raise ServerUnavailable(f"{address[0]}:{address[1]} is left alone after a failure", pause)

    def _redirected(self, slot: int, address: Address, error: NothingRan) -> Way:
        """The way to the server that MOVED or ASK names."""
        named = named_by(error, address)
        if error.word == "MOVED":
            # Hardly a slot moves alone. Who is asked may not have heard of this move yet: it is noted after that.
            yield from self._look_again()
            self.slots.move(slot, named)
            self._stuck.pop(slot, None)
        return named

    def _wait(self, slot: int, command: Command, waited: float, error: NothingRan) -> Way:
        """The way past a moment in which some keys of a check are here and others there. Raises when it does not end.

        Then the slot is tried without waiting for a while, so that a long move costs no thread its time.
        """
        stuck = self._stuck.get(slot)
        pause = stuck.pause() if stuck and not waited else 0.0
        if not pause and waited >= self._patience:
            pause = self._stuck.setdefault(slot, Breaker()).failed()
        if pause:
            raise ServerUnavailable(f"the keys of slot {slot} are being moved: {error}", pause)
        together = False
        if command[0] in SCRIPTS:
            with suppress(*FAILURES):
                together = yield from self._gather(slot, command[3 : 3 + int(command[2])])
        seconds = min(max(waited, FIRST_WAIT), LONGEST_WAIT)
        if not together:
            yield Wait(seconds)
        return waited + seconds

    def _gather(self, slot: int, keys: Sequence[Any]) -> Way:
        """The way to having all keys of a check where their slot goes; whether they are. Raises RedisError or OSError.

        What stands in for a missing key must not be in the way of one that is still here: it is made after these left.
        """
        source, target, here = self.slots.owner(slot), None, []
        if source is None:
            return False
        for key in keys:
            try:
                if (yield Send(source, ("EXISTS", key))):
                    here.append(key)
            except NothingRan as error:
                if error.word != "ASK":
                    return True
                target = named_by(error, source)
        if target is None:
            return True
        if here:
            yield Send(source, ("MIGRATE", *target, "", 0, MIGRATE_MS, *self._credentials, "KEYS", *here))
        for key in keys:
            yield Send(target, ("SET", key, "", "NX", "PX", STAND_IN_MS), asking=True)
        return True

    def _note(self, address: Address, error: Exception) -> None:
        """Note a failure of a server, and raise it; what ails one key or script says nothing about the server."""
        if isinstance(error, NoScriptError):
            self.breaker(address).worked()
        elif is_sick(error):
            pause = self.breaker(address).failed()
            raise ServerUnavailable(f"{address[0]}:{address[1]}: {type(error).__name__}: {error}", pause) from error

    def _look_again(self) -> Way:
        """The way to know who holds what now, for one caller in a while; if nobody tells, what was known stands."""
        if time.monotonic() - self._refreshed >= REFRESH_SECONDS:
            with suppress(*FAILURES):
                yield from self._refresh()

    def _refresh(self) -> Way:
        """The way to know who holds what now. Raises RedisError or OSError when no server tells."""
        self._refreshed = time.monotonic()
        advisers = sorted(self.slots.servers(), key=lambda address: self.breaker(address).is_open)
        failure: Exception = RedisConnectionError("no server of the cluster is known")
        for adviser in advisers[:MOST_ADVISERS]:
            try:
                reply = yield Send(adviser, ("CLUSTER", "SLOTS"))
            except FAILURES as error:
                failure = error
                if is_sick(error):
                    self.breaker(adviser).failed()
                continue
            if reply:
                self.slots.learn(reply, adviser)
                return
            failure = RedisConnectionError(f"{adviser[0]}:{adviser[1]} belongs to no cluster")
        raise failure

    def start_afresh(self) -> None:
        """Replace the breakers of all servers and slots by closed ones."""
        self._breakers, self._stuck = {}, {}

    def is_failing(self) -> bool:
        """Return whether any server or slot failed last."""
        return bool(self._stuck) or any(breaker.is_open for breaker in list(self._breakers.values()))


class Topologies(reset.Part):
    """The topologies of this process."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Topology] = weakref.WeakSet()

    def forget(self) -> None:
        """Close the breakers of all servers, so that a test does not wait for another test's outage."""
        for topology in list(self.alive):
            topology.start_afresh()

    def after_fork(self) -> None:
        """Replace the breakers, one of whose locks a thread of the parent may have held."""
        self.forget()

    def remembers(self) -> bool:
        """Return whether any server of a cluster failed last."""
        return any(topology.is_failing() for topology in list(self.alive))


topologies = reset.register("counters.transport.topology", Topologies())
