"""Real servers that replace one another: a Redis Cluster whose slots can be moved, and a master under Sentinel."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from tests.servers import free_port, redis_binary, wait_until

SLOTS = 16384
MASTERS = 3
# Milliseconds of silence after which nodes consider another node dead. Tests with failing servers use the first.
# Other tests use the second, so that a busy machine's pause is not considered a failure.
NODE_TIMEOUT, PATIENCE = 1000, 15_000
# Send pings often, because Redis lists a replica only after its first message from the master.
OPTIONS = [
    *("--save", "", "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"),
]
CLUSTER_OPTIONS = [
    *(*OPTIONS, "--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT)),
    *("--cluster-allow-replica-migration", "no"),
]


class Node:
    """One server, which can be killed. A restarted server keeps its port and its saved data."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._command = [redis_binary(), *options, "--port", str(self.port), "--dir", str(folder)]
        folder.mkdir(exist_ok=True)
        self._client = redis.Redis(port=self.port, socket_timeout=5, protocol=2, retry=Retry(NoBackoff(), 0))
        self._client.response_callbacks.clear()
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, *command: Any) -> Any:
        """Run a command on this node, without following redirections. Return the raw reply."""
        return self._client.execute_command(*command)

    def answers(self) -> bool:
        try:
            return bool(self.ask("PING"))
        except redis.ConnectionError:
            return False

    def offset(self) -> int:
        """Return the replication offset."""
        role = self.ask("ROLE")
        return int(role[1] if role[0] == b"master" else role[4])

    def kept(self) -> int:
        """Return the value of the one plain counter of the limiter ``failover`` on a replica without a master."""
        wait_until(lambda: self.ask("ROLE")[3] != b"connected", what="the replica to miss its master")
        (key,) = self.ask("KEYS", "*{failover}*")
        return int(self.ask("GET", key).split()[0])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._client.close()

    def hang(self) -> None:
        """Stop the process, so that it neither replies nor closes connections until it is resumed or killed."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    @property
    def runs(self) -> bool:
        return self._process.poll() is None


class ClusterNode(Node):
    """One server of a cluster."""

    def __init__(self, folder: Path) -> None:
        self.bus_port = free_port()
        super().__init__(folder, *CLUSTER_OPTIONS, "--cluster-port", str(self.bus_port))

    def id(self) -> str:
        return text(self.ask("CLUSTER MYID"))

    def kept(self) -> int:
        self.ask("READONLY")
        return super().kept()


class Cluster:
    """Six nodes. Tests change which of them are masters."""

    def __init__(self, folder: Path) -> None:
        self.nodes = [ClusterNode(folder / str(number)) for number in range(2 * MASTERS)]

    def locations(self, who: str = "") -> list[str]:
        """Return three of the nodes as the LOCATION of a cache alias. ``who`` is ``user:password@``."""
        return [f"redis://{who}{node.address}/0" for node in self.nodes[:MASTERS]]

    def create(self) -> None:
        """Join the nodes, as redis-cli --cluster create does. redis-cli is not installed with each server."""
        wait_until(lambda: all(node.answers() for node in self.nodes), what="six nodes")
        first, *others = self.nodes
        for epoch, node in enumerate(self.nodes, start=1):
            node.ask("CLUSTER SET-CONFIG-EPOCH", epoch)
        for number, node in enumerate(self.nodes[:MASTERS]):
            start, end = (SLOTS * at // MASTERS for at in (number, number + 1))
            node.ask("CLUSTER ADDSLOTSRANGE", start, end - 1)
        for node in others:
            first.ask("CLUSTER MEET", "127.0.0.1", node.port, node.bus_port)
        wait_until(
            lambda: all(self._known(node) == len(self.nodes) for node in self.nodes),
            what="all nodes to know one another",
        )
        for master, replica in zip(self.nodes[:MASTERS], self.nodes[MASTERS:], strict=True):
            replica.ask("CLUSTER REPLICATE", master.id())
        self.wait_until_well()
        self.promote_after(PATIENCE)

    def promote_after(self, silence: int) -> None:
        """Let a replica take over after some milliseconds of silence of its master."""
        for node in self.nodes:
            node.ask("CONFIG", "SET", "cluster-node-timeout", silence)

    def wait_until_well(self) -> None:
        """Start or resume all nodes. Wait until all nodes agree that each shard has a master and a replica."""
        for node in self.nodes:
            node.resume() if node.runs else node.start()
        wait_until(self._is_well, 30, "the cluster to be well")

    def owner(self, slot: int, beside: Node | None = None) -> ClusterNode:
        """Return the master of a slot, as reported by a server other than the given one."""
        for start, end, master, *_ in self._running(beside).ask("CLUSTER SLOTS"):
            if start <= slot <= end:
                return self._node(master)
        raise LookupError(f"no master holds slot {slot}")

    def owner_of(self, key: str, beside: Node | None = None) -> ClusterNode:
        return self.owner(key_slot(key.encode()), beside)

    def replica(self, slot: int) -> ClusterNode:
        """Return the replica of the master of a slot."""
        for start, end, _, replica in self._running().ask("CLUSTER SLOTS"):
            if start <= slot <= end:
                return self._node(replica)
        raise LookupError(f"no master holds slot {slot}")

    def replica_of(self, key: str) -> ClusterNode:
        return self.replica(key_slot(key.encode()))

    def begin_move(self, slot: int) -> tuple[ClusterNode, ClusterNode]:
        """Begin to move a slot from its master to another one, and return both."""
        source = self.owner(slot)
        target = next(node for node in self.masters() if node is not source)
        target.ask("CLUSTER SETSLOT", slot, "IMPORTING", source.id())
        source.ask("CLUSTER SETSLOT", slot, "MIGRATING", target.id())
        return source, target

    def end_move(self, slot: int, source: ClusterNode, target: ClusterNode) -> None:
        """Move the keys of a slot, and announce its new master to all masters, first to the new one."""
        while keys := source.ask("CLUSTER GETKEYSINSLOT", slot, 10):
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        for node in [target, *(node for node in self.masters() if node is not target)]:
            node.ask("CLUSTER SETSLOT", slot, "NODE", target.id())

    def masters(self) -> list[ClusterNode]:
        return list({self._node(master).port: self._node(master) for _, _, master, *_ in self._slots()}.values())

    def flush(self) -> None:
        """Delete all keys, on replicas too, and the servers' scripts."""
        # A replica that still loads its master's old data would restore it after a promotion. A master that was just
        # promoted is not yet known to all nodes, and is found in the next turn.
        wait_until(self._flushed, what="all nodes to be empty")

    def _flushed(self) -> bool:
        for node in self.nodes:
            if node.ask("ROLE")[0] == b"master":
                node.ask("FLUSHALL")
                node.ask("SCRIPT FLUSH")
        return all(node.ask("DBSIZE") == 0 and self._in_step(node) for node in self.nodes)

    def keys(self) -> dict[str, list[str]]:
        """Return all keys by the address of their master."""
        return {node.address: [text(key) for key in node.ask("KEYS", "*")] for node in self.masters()}

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()

    def _slots(self) -> list[Any]:
        slots: list[Any] = self._running().ask("CLUSTER SLOTS")
        return slots

    def _running(self, beside: Node | None = None) -> ClusterNode:
        return next(node for node in self.nodes if node.runs and node is not beside)

    def _node(self, said: Iterable[Any]) -> ClusterNode:
        _, port, *_ = said
        return next(node for node in self.nodes if node.port == port)

    @staticmethod
    def _known(node: Node) -> int:
        return len([line for line in text(node.ask("CLUSTER NODES")).splitlines() if "handshake" not in line])

    def _is_well(self) -> bool:
        if not all(node.answers() for node in self.nodes):
            return False
        views = [node.ask("CLUSTER SLOTS") for node in self.nodes]
        return (
            all("cluster_state:ok" in text(node.ask("CLUSTER INFO")) for node in self.nodes)
            and all(len(owners) == 2 for view in views for _, _, *owners in view)
            and len({str(sorted((start, end, master[1]) for start, end, master, *_ in view)) for view in views}) == 1
            and all(self._in_step(node) for node in self.nodes)
        )

    @staticmethod
    def _in_step(node: Node) -> bool:
        role = node.ask("ROLE")
        return text(role[0]) == "master" or text(role[3]) == "connected"


class Watched:
    """A master and a replica, watched by three Sentinels."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.servers = [Node(folder / name, *OPTIONS) for name in ("first", "second")]
        self.sentinels: list[Node] = []
        # Use a new name in each test, because django-redis keeps a pool for each name.
        self.name = f"primary-{self.servers[0].port}"

    def create(self) -> None:
        """Make a server the other's replica first, because Sentinels look for replicas only every ten seconds."""
        first, second = self.servers
        wait_until(lambda: first.answers() and second.answers(), what="two servers")
        second.ask("REPLICAOF", "127.0.0.1", first.port)
        wait_until(lambda: first.ask("ROLE")[2], what="the replica to be in sync")
        self.sentinels += [self._sentinel(self._folder / str(number)) for number in range(3)]
        wait_until(lambda: all(self._knows_all(node) for node in self.sentinels), what="the Sentinels to know all")

    def master(self) -> Node:
        """Return the master, as reported by a Sentinel."""
        _, port = self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)
        return next(node for node in self.servers if node.port == int(port))

    def stop(self) -> None:
        for node in (*self.sentinels, *self.servers):
            node.kill()

    def _sentinel(self, folder: Path) -> Node:
        folder.mkdir()
        config = folder / "sentinel.conf"
        config.write_text(
            f"bind 127.0.0.1\nsentinel monitor {self.name} 127.0.0.1 {self.servers[0].port} 2\n"
            f"sentinel down-after-milliseconds {self.name} {NODE_TIMEOUT}\nsentinel failover-timeout {self.name} 5000\n"
        )
        return Node(folder, str(config), "--sentinel")

    def _knows_all(self, sentinel: Node) -> bool:
        if not sentinel.answers():
            return False
        said = iter(sentinel.ask("SENTINEL", "MASTER", self.name))
        facts = {text(name): text(value) for name, value in zip(said, said, strict=True)}
        return (facts["num-other-sentinels"], facts["num-slaves"]) == ("2", "1")


def text(reply: Any) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)


@contextlib.contextmanager
def redis_cluster(folder: Path) -> Iterator[Cluster]:
    """Run a cluster of three masters with a replica each."""
    cluster = Cluster(folder)
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.stop()


@contextlib.contextmanager
def watched_master(folder: Path) -> Iterator[Watched]:
    """Run a master and a replica under Sentinel."""
    watched = Watched(folder)
    try:
        watched.create()
        yield watched
    finally:
        watched.stop()
