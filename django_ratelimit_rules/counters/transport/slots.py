"""The servers of a Redis Cluster by slot, as last reported. Replies of the servers go in. It makes no connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from .blocking import NothingRan

Address = tuple[str, int]


class SlotMap:
    """The servers of a cluster by slot. Updates replace the whole map or one slot, while other threads read it."""

    def __init__(self, startup: Sequence[Address]) -> None:
        self._startup = tuple(startup)
        self._owners: list[Address | None] = []
        self._replicas: tuple[Address, ...] = ()

    @property
    def known(self) -> bool:
        """Whether any server has reported the slots yet."""
        return bool(self._owners)

    def owner(self, slot: int) -> Address | None:
        """Return the master that holds a slot. Returns None if no server holds it."""
        return self._owners[slot]

    def masters(self) -> list[Address]:
        """Return all servers that hold slots."""
        return list(dict.fromkeys(owner for owner in self._owners if owner))

    def servers(self) -> list[Address]:
        """Return all known servers, masters first."""
        return list(dict.fromkeys((*self.masters(), *self._replicas, *self._startup)))

    def move(self, slot: int, address: Address) -> None:
        """Note that a slot has moved."""
        self._owners[slot] = address

    def update(self, reply: Sequence[Any], sender: Address) -> None:
        """Replace the map by the reply to CLUSTER SLOTS."""
        owners: list[Address | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        replicas: dict[Address, None] = {}
        for start, end, master, *others in reply:
            owners[start : end + 1] = [_address(master, sender)] * (end + 1 - start)
            replicas.update((_address(other, sender), None) for other in others)
        self._owners, self._replicas = owners, tuple(replicas)


def slot_of(key: str | bytes) -> int:
    """Return the slot of a key."""
    return key_slot(key if isinstance(key, bytes) else key.encode())


def named_by(error: NothingRan, sender: Address) -> Address:
    """Return the server that MOVED or ASK names. Without a host it has the host of the sender."""
    host, _, port = error.place.rpartition(":")
    return host or sender[0], int(port)


def _address(server: Sequence[Any], sender: Address) -> Address:
    host, port = server[0], int(server[1])
    host = host.decode() if isinstance(host, bytes) else host
    return host if host and host != "?" else sender[0], port
