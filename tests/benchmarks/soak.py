"""Minutes of mixed load with edits, script flushes and server restarts: totals exact, memory and connections flat.

Run by hand: ``python -m tests.benchmarks.soak``. The default is 10 minutes. Use ``MINUTES=1`` for a short run. These
run on one machine:

- a Redis that writes each command to disk before it replies (appendonly, fsync always)
- two processes with threads and one with an event loop, each paced
- this process, which edits a rule every two seconds, flushes scripts, and kills and restarts the server every 30

For each user, the counter's ``used`` must be at least the number of accepted calls. It may be higher only by calls
whose reply was lost when the server was killed, because Redis may have counted them. A call that is counted twice, or
not at all, fails the run.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

MINUTES = float(os.environ.get("MINUTES", "10"))
PACE = float(os.environ.get("CALLS_A_SECOND", "150"))
USERS = 20
YEAR = 31_536_000
RESTART_SECONDS = 30
KINDS = ("threads", "threads", "tasks")
LIMITS = (10**6, 10**7)


def worker(kind: str, seed: int) -> None:
    """Check until the end. Report the results and the memory of this process each minute."""
    import asyncio
    import threading

    import django

    django.setup()
    from django_ratelimit_rules import Limiter

    limiter, beside = Limiter("soak"), Limiter("soak_beside")
    told: Counter[str] = Counter()
    chosen = random.Random(seed)
    stopping = threading.Event()
    lock = threading.Lock()

    def note(user: str, result: Any) -> None:
        with lock:
            told["calls"] += 1
            if result.error:
                told[f"unsure:{user}"] += 1
                told["errors"] += 1
            elif not result.blocked:
                told[f"accepted:{user}"] += 1
                if not result.matched:
                    told["unmatched"] += 1

    def ask_in_threads() -> None:
        while not stopping.is_set():
            user = str(chosen.randrange(USERS))
            note(user, limiter.check({"user": user, "path": f"/{chosen.randrange(5)}"}))
            beside.check({"user": user}, cost=chosen.choice([1, 2, 0.5]))
            time.sleep(chosen.expovariate(PACE / 3))

    async def ask_in_tasks() -> None:
        while not stopping.is_set():
            users = [str(chosen.randrange(USERS)) for _ in range(20)]
            for user, result in zip(
                users, await asyncio.gather(*[limiter.acheck({"user": u}) for u in users]), strict=True
            ):
                note(user, result)
            cancelled = asyncio.create_task(beside.acheck({"user": "cancelled"}))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
            await asyncio.sleep(20 / PACE)

    if kind == "threads":
        running = [threading.Thread(target=ask_in_threads) for _ in range(3)]
    else:
        running = [threading.Thread(target=asyncio.run, args=(ask_in_tasks(),))]
    for thread in running:
        thread.start()
    for _ in sys.stdin:
        with lock:
            said = dict(told)
        print(json.dumps({"rss": _rss(), "threads": threading.active_count(), "told": said}), flush=True)
    stopping.set()
    for thread in running:
        thread.join()
    print(json.dumps({"rss": _rss(), "threads": threading.active_count(), "told": told}), flush=True)


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class Store:
    """A Redis that keeps each acknowledged count, even if it is killed."""

    def __init__(self, folder: str) -> None:
        from tests.servers import free_port

        self.port, self._folder = free_port(), folder
        self.kills = 0
        self.start()

    def start(self) -> None:
        import redis

        from tests.servers import redis_binary, wait_until

        options = ("--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", self._folder)
        command = [redis_binary(), "--port", str(self.port), "--bind", "127.0.0.1", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = redis.Redis(port=self.port)

        def answers() -> bool:
            try:
                return bool(self.client.ping())
            except redis.RedisError:
                return False

        wait_until(answers, 30, "Redis")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.kills += 1

    def figures(self) -> tuple[int, int]:
        """Return the used memory and the number of connections."""
        return int(self.client.info("memory")["used_memory"]), len(self.client.client_list())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "RATELIMIT_TEST_REDIS_URL": f"redis://127.0.0.1:{store.port}",
            "RATELIMIT_TEST_DB": f"{folder}/soak.sqlite3",
        }
        try:
            soak(store)
        finally:
            store.kill()


def soak(store: Store) -> None:
    """Run the workers, disturb them, and compare."""
    import django

    django.setup()
    from django.core.management import call_command

    from django_ratelimit_rules.models import Rule, Ruleset

    call_command("migrate", verbosity=0)
    ruleset = Ruleset.objects.create(name="soak")
    Rule.objects.create(ruleset=ruleset, name="seen", action="log", characteristics=["path"], limit=5, period=1)
    edited = Rule.objects.create(
        ruleset=ruleset, name="by_user", characteristics=["user"], limit=LIMITS[0], period=YEAR
    )
    other = Ruleset.objects.create(name="soak_beside")
    Rule.objects.create(
        ruleset=other, name="r", characteristics=["user"], limit=10**6, period=60, algorithm="token_bucket"
    )
    command = [sys.executable, "-m", "tests.benchmarks.soak"]
    workers = [
        subprocess.Popen([*command, kind, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for seed, kind in enumerate(KINDS)
    ]
    ends = time.monotonic() + MINUTES * 60
    next_report, next_kill = time.monotonic() + 15, time.monotonic() + RESTART_SECONDS
    disturbances: Counter[str] = Counter()
    print("minute  calls   errors  Redis MB  connections  workers MB (threads)")
    started = time.monotonic()
    while time.monotonic() < ends:
        edited.limit = LIMITS[disturbances["edits"] % 2]
        edited.save()
        disturbances["edits"] += 1
        store.client.script_flush()
        disturbances["flushes"] += 1
        if time.monotonic() >= next_kill:
            store.kill()
            time.sleep(0.3)
            store.start()
            next_kill = time.monotonic() + RESTART_SECONDS
        if time.monotonic() >= next_report:
            report(started, store, [ask(each) for each in workers])
            next_report += max(15, MINUTES * 6)
        time.sleep(2)
    time.sleep(6)
    said = [finish(each) for each in workers]
    report(started, store, said)
    compare(store, said, disturbances)


def ask(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    said: dict[str, Any] = json.loads(process.stdout.readline())
    return said


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(process.communicate(timeout=60)[0].splitlines()[-1])
    return said


def report(started: float, store: Store, said: list[dict[str, Any]]) -> None:
    memory, connections = store.figures()
    told = sum((Counter(each["told"]) for each in said), Counter())
    weights = ", ".join(f"{each['rss'] / 1e6:.0f} ({each['threads']})" for each in said)
    minutes = (time.monotonic() - started) / 60
    print(
        f"{minutes:6.1f} {told['calls']:7} {told['errors']:7} {memory / 1e6:9.2f} {connections:12}  {weights}",
        flush=True,
    )


def compare(store: Store, said: list[dict[str, Any]], disturbances: Counter[str]) -> None:
    """Compare the results of the callers with the counters."""
    from django_ratelimit_rules import Limiter

    told = sum((Counter(each["told"]) for each in said), Counter())
    wrong, slack, exact = 0, 0, 0
    for user in map(str, range(USERS)):
        used = Limiter("soak").peek({"user": user}).evaluations[-1].used
        accepted, unsure = told[f"accepted:{user}"], told[f"unsure:{user}"]
        wrong += not accepted <= used <= accepted + unsure
        slack += used - accepted
        exact += used == accepted
    print(f"edits {disturbances['edits']}, script flushes {disturbances['flushes']}, kills {store.kills}")
    print(
        f"{told['calls']} calls, {told['errors']} answered by the failure mode;"
        f" counted though the answer was lost: {slack}; counters exact to the call: {exact} of {USERS};"
        f" counters that differ from the callers' results: {wrong}"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        worker(sys.argv[1], int(sys.argv[2]))
    else:
        main()
