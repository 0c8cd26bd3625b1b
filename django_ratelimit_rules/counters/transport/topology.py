"""The servers of a Redis Cluster, and the steps by which a command reaches the right one.

A command goes in. A generator of steps comes out: each step sends something to one server, and gets the reply or the
error back. This module neither waits nor opens connections: :mod:`cluster` makes the steps, in sync and async code. A
command is sent again only if the server reports that it did not run (MOVED, ASK, TRYAGAIN). After any other error it
may have counted, so the error is raised.

While a slot moves to another server, the keys of one script may be on both servers, or not exist yet. Then neither
server runs the script (TRYAGAIN). For slots with many keys that may last minutes. The keys of the check are therefore
brought together on the target server. MIGRATE moves the keys that are still on the source, as the operator's move would
do soon. A key that does not exist yet gets a placeholder: a string that the script does not accept as a counter. If the
server forbids this, the check waits for a short time.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError

from ...engine.messages import _, ngettext
from ...runtime import reset
from .blocking import NothingRan, detail, is_outage
from .breaker import Breaker
from .slots import (
    Address,
    SlotMap,
    named_by,
    slot_of,
)

Command: TypeAlias = tuple[Any, ...]

FAILURES = (RedisError, OSError, ValueError)
# Breakers stop only these commands, and only these commands open or close breakers.
COUNTING = frozenset({"EVALSHA", "EVAL", "DEL"})
# During a failure, one of the calls asks for the slots again after this number of seconds.
REFRESH_SECONDS = 0.5
# One refresh asks at most this number of servers, because each may cost a time-out.
MOST_ADVISERS = 3
MOST_REDIRECTIONS = 8
# Seconds between attempts at a slot whose keys are on two servers.
FIRST_WAIT, LONGEST_WAIT = 0.002, 0.05
# Milliseconds: the time-out of MIGRATE, and the life of a placeholder for a key that does not exist.
MIGRATE_MS, PLACEHOLDER_MS = 200, 1000
SCRIPTS = ("EVALSHA", "EVAL")


class ServerUnavailable(RedisConnectionError):
    """The server that holds a key is failing. ``retry_after`` is the number of seconds of its breaker's pause."""

    def __init__(self, message: str, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class Send(NamedTuple):
    """A step: send a command to a server, after ASKING if the slot is moving to that server."""

    address: Address
    command: Command
    asking: bool = False


class Wait(NamedTuple):
    """A step: wait some seconds."""

    seconds: float


Steps: TypeAlias = Generator[Send | Wait, Any, Any]


class Topology:
    """The slots and breakers of one cluster's servers. All threads and event loops of a process share it.

    A check waits at most ``patience`` seconds for keys that are being moved. ``credentials`` are the arguments by which
    MIGRATE authenticates at another server.
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
        """Return a server's own breaker, so that the failure of one server does not stop calls to others."""
        return self._breakers.get(address) or self._breakers.setdefault(address, Breaker())

    def loading(self) -> Steps:
        """Return the steps that load the slots, if they are not known yet. They raise RedisError or OSError."""
        if not self.slots.known:
            yield from self._refresh()

    def sending(self, command: Command) -> Steps:
        """Return the steps that send a command to the server of its keys, and return the reply.

        They raise RedisError or OSError, and ServerUnavailable if only that server fails.
        """
        yield from self.loading()
        slot = slot_of(command[3 if command[0] in SCRIPTS else 1])
        counting = command[0] in COUNTING
        address, asking, redirections, waited = self.slots.owner(slot), False, 0, 0.0
        while redirections < MOST_REDIRECTIONS:
            if counting and (address is None or self.breaker(address).is_open):
                address = yield from self._working_server(slot, address)
            if address is None:
                message = _("No server of the cluster holds slot %(slot)s", slot=slot)
                raise ServerUnavailable(message, REFRESH_SECONDS)
            try:
                reply = yield Send(address, command, asking)
            except NothingRan as error:
                self.breaker(address).worked()
                if error.word == "TRYAGAIN":
                    waited = yield from self._wait_for_move(slot, command, waited, error)
                    address, asking = self.slots.owner(slot), False
                else:
                    asking = error.word == "ASK"
                    address = yield from self._redirected(slot, address, error)
                    redirections += 1
            except FAILURES as error:
                if is_outage(error):
                    yield from self._refresh_if_due()
                if counting:
                    self._note_failure(address, error)
                raise
            else:
                if counting:
                    self.breaker(address).worked()
                if waited:
                    self._stuck.pop(slot, None)
                return reply
        message = ngettext(
            "Slot %(slot)s was redirected %(number)s time",
            "Slot %(slot)s was redirected %(number)s times",
            redirections,
            slot=slot,
        )
        raise ServerUnavailable(message, REFRESH_SECONDS)

    def _working_server(self, slot: int, address: Address | None) -> Steps:
        """Return the steps that find a working server for a slot: its owner, or a server that replaced a failing one.

        They raise ServerUnavailable during a pause of the owner. They return None if no server holds the slot.
        """
        pause = self.breaker(address).pause() if address else REFRESH_SECONDS
        if not pause:
            return address
        yield from self._refresh_if_due()
        owner = self.slots.owner(slot)
        if owner and owner != address and not self.breaker(owner).pause():
            return owner
        if address is None:
            return None
        message = _(
            "The server %(server)s failed, and is not used again for a short time", server=_host_and_port(address)
        )
        raise ServerUnavailable(message, pause)

    def _redirected(self, slot: int, address: Address, error: NothingRan) -> Steps:
        """Return the steps that note a move. They return the server that MOVED or ASK names."""
        named = named_by(error, address)
        if error.word == "MOVED":
            # Usually several slots move, so refresh them all. Note this move afterwards, because the server that the
            # refresh asks may not know it yet.
            yield from self._refresh_if_due()
            self.slots.move(slot, named)
            self._stuck.pop(slot, None)
        return named

    def _wait_for_move(self, slot: int, command: Command, waited: float, error: NothingRan) -> Steps:
        """Return the steps that wait while the keys of a check are on two servers. They return the seconds waited.

        They raise ServerUnavailable if the move lasts too long. During a pause after that, checks of this slot do not
        wait any more, so that a long move does not keep threads busy.
        """
        stuck = self._stuck.get(slot)
        pause = stuck.pause() if stuck and not waited else 0.0
        if not pause and waited >= self._patience:
            pause = self._stuck.setdefault(slot, Breaker()).failed()
        if pause:
            message = _("The keys of slot %(slot)s are being moved: %(error)s", slot=slot, error=str(error))
            raise ServerUnavailable(message, pause)
        together = False
        if command[0] in SCRIPTS:
            with suppress(*FAILURES):
                together = yield from self._gather(slot, command[3 : 3 + int(command[2])])
        seconds = min(max(waited, FIRST_WAIT), LONGEST_WAIT)
        if not together:
            yield Wait(seconds)
        return waited + seconds

    def _gather(self, slot: int, keys: Sequence[Any]) -> Steps:
        """Return the steps that bring all keys of a check to the server to which their slot moves.

        They return whether the script can run now, and raise RedisError or OSError. Placeholders for missing keys are
        made last, because MIGRATE would fail on a key that exists on the target.
        """
        source, target, keys_to_move = self.slots.owner(slot), None, []
        if source is None:
            return False
        for key in keys:
            try:
                if (yield Send(source, ("EXISTS", key))):
                    keys_to_move.append(key)
            except NothingRan as error:
                if error.word != "ASK":
                    return True
                target = named_by(error, source)
        if target is None:
            return True
        if keys_to_move:
            yield Send(source, ("MIGRATE", *target, "", 0, MIGRATE_MS, *self._credentials, "KEYS", *keys_to_move))
        for key in keys:
            yield Send(target, ("SET", key, "", "NX", "PX", PLACEHOLDER_MS), asking=True)
        return True

    def _note_failure(self, address: Address, error: Exception) -> None:
        """Open the server's breaker and raise ServerUnavailable, unless the error concerns only one key or script."""
        if isinstance(error, NoScriptError):
            self.breaker(address).worked()
        elif is_outage(error):
            pause = self.breaker(address).failed()
            server = _host_and_port(address)
            message = _("The server %(server)s failed: %(reason)s", server=server, reason=detail(error))
            raise ServerUnavailable(message, pause) from error

    def _refresh_if_due(self) -> Steps:
        """Return the steps that refresh the slots, unless a caller did so a moment ago. Failures change nothing."""
        if time.monotonic() - self._refreshed >= REFRESH_SECONDS:
            with suppress(*FAILURES):
                yield from self._refresh()

    def _refresh(self) -> Steps:
        """Return the steps that refresh the slots. They raise RedisError or OSError if no server reports them."""
        self._refreshed = time.monotonic()
        advisers = sorted(self.slots.servers(), key=lambda address: self.breaker(address).is_open)
        failure: Exception = RedisConnectionError(_("No server of the cluster is known"))
        for adviser in advisers[:MOST_ADVISERS]:
            try:
                reply = yield Send(adviser, ("CLUSTER", "SLOTS"))
            except FAILURES as error:
                failure = error
                if is_outage(error):
                    self.breaker(adviser).failed()
                continue
            if reply:
                self.slots.update(reply, adviser)
                return
            failure = RedisConnectionError(
                _("The server %(server)s is not in a cluster", server=_host_and_port(adviser))
            )
        raise failure

    def start_afresh(self) -> None:
        """Replace the breakers of all servers and slots by closed ones."""
        self._breakers, self._stuck = {}, {}

    def is_failing(self) -> bool:
        """Return whether the last call of any server or slot failed."""
        return bool(self._stuck) or any(breaker.is_open for breaker in list(self._breakers.values()))


def _host_and_port(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


class Topologies(reset.Part):
    """The topologies of this process."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Topology] = weakref.WeakSet()

    def forget(self) -> None:
        """Close the breakers of all servers, so that a test does not wait for another test's outage."""
        for topology in list(self.alive):
            topology.start_afresh()

    def after_fork(self) -> None:
        """Replace the breakers, because a thread of the parent may have held one of their locks."""
        self.forget()

    def remembers(self) -> bool:
        """Return whether the last call of any server of a cluster failed."""
        return any(topology.is_failing() for topology in list(self.alive))


topologies = reset.register("counters.transport.topology", Topologies())
