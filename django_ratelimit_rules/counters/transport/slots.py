"""Who holds which slot of a Redis Cluster, as last heard. Replies of its servers go in; knows no way to ask them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from .blocking import NothingRan

Address = tuple[str, int]


class SlotMap:
    """The servers of a cluster by slot: swapped whole, or a slot at a time, while other threads read."""

    def __init__(self, startup: Sequence[Address]) -> None:
        self._startup = tuple(startup)
        self._owners: list[Address | None] = []
        self._replicas: tuple[Address, ...] = ()

    @property
    def known(self) -> bool:
        """Whether anything was heard yet."""
        return bool(self._owners)

    def owner(self, slot: int) -> Address | None:
        """Return the master that holds a slot, None when nobody does."""
        return self._owners[slot]

    def masters(self) -> list[Address]:
        """Return all servers that hold something."""
        return list(dict.fromkeys(owner for owner in self._owners if owner))

    def servers(self) -> list[Address]:
        """Return all servers that there are as far as is known, masters first."""
        return list(dict.fromkeys((*self.masters(), *self._replicas, *self._startup)))

    def move(self, slot: int, address: Address) -> None:
        """Note that a slot has moved."""
        self._owners[slot] = address

    def learn(self, reply: Sequence[Any], teller: Address) -> None:
        """Take over what CLUSTER SLOTS says."""
        owners: list[Address | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        replicas: dict[Address, None] = {}
        for start, end, master, *others in reply:
            owners[start : end + 1] = [_address(master, teller)] * (end + 1 - start)
            replicas.update((_address(other, teller), None) for other in others)
        self._owners, self._replicas = owners, tuple(replicas)


def slot_of(key: str | bytes) -> int:
    """Return the slot of a key."""
    return key_slot(key if isinstance(key, bytes) else key.encode())


def named_by(error: NothingRan, teller: Address) -> Address:
    """Return the server that MOVED or ASK names; one without a host is at that of whoever told."""
    host, _, port = error.place.rpartition(":")
    return host or teller[0], int(port)


def _address(server: Sequence[Any], teller: Address) -> Address:
    host, port = server[0], int(server[1])
    host = host.decode() if isinstance(host, bytes) else host
    return host if host and host != "?" else teller[0], port
