"""Time checks against a bare EVALSHA of a minimal script, side by side in one run.

Run by hand: ``python -m tests.benchmarks.check``.

Rounds are interleaved and medians compared, because machines are noisy: read the ratios, not the microseconds.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

ROUNDS = int(os.environ.get("ROUNDS", "30"))
CALLS = int(os.environ.get("CALLS", "300"))

# What a limiter cannot do without: count each key, arm its expiry once, compare.
MINIMAL = """
local answer = {}
for i = 1, #KEYS do
  local count = redis.call('INCR', KEYS[i])
  if count == 1 then redis.call('PEXPIRE', KEYS[i], ARGV[2 * i]) end
  answer[2 * i - 1], answer[2 * i] = count, redis.call('PTTL', KEYS[i])
  if count > tonumber(ARGV[2 * i - 1]) then break end
end
return answer
"""


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from django.conf import settings

    from tests.servers import redis_server

    with redis_server(urlsplit(settings.REDIS_URL).port):
        run()


def run() -> None:
    from django_redis import get_redis_connection

    from django_ratelimit_rules import Limiter, Rule, limiter, rulesets
    from django_ratelimit_rules.counters.memory import MemoryCounters
    from django_ratelimit_rules.tiers import Tier, tier_rules

    client = get_redis_connection("default")
    sha = client.script_load(MINIMAL)
    subjects: dict[str, Callable[[], object]] = {}
    for size in (1, 2, 5):
        names = [f"rule_{number}" for number in range(size)]
        rules = [Rule(n, action="limit", characteristics=["user"], limit=10**9, period=3600) for n in names]
        rulesets.override(f"bench_{size}", {Tier.CODE: tier_rules(rules)})
        keys = [f"bench:{name}" for name in names]
        arguments = [10**9, 3_600_000] * size
        subjects[f"bare {size}"] = partial(client.evalsha, sha, size, *keys, *arguments)
        subjects[f"check {size}"] = partial(Limiter(f"bench_{size}").check, {"user": 42})
    blocked = [Rule("full", action="limit", characteristics=["user"], limit=1, period=3600)]
    rulesets.override("bench_blocked", {Tier.CODE: tier_rules(blocked)})
    subjects["blocked 1"] = partial(Limiter("bench_blocked").check, {"user": 42})

    times = interleaved(subjects)
    print(f"{ROUNDS} interleaved rounds of {CALLS} calls, median microseconds a call")
    for name, values in times.items():
        floor = "bare " + name.split()[1]
        ratio = statistics.median(a / b for a, b in zip(values, times[floor], strict=True))
        print(f"{name:12} {statistics.median(values) * 1e6:8.1f}   {ratio:5.2f} x the bare EVALSHA")

    memory = MemoryCounters()
    limiter.current = lambda: memory
    python = interleaved({name: call for name, call in subjects.items() if not name.startswith("bare")})
    print("Python alone (counters in memory):")
    for name, values in python.items():
        print(f"{name:12} {statistics.median(values) * 1e6:8.1f}")


def interleaved(subjects: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return seconds a call, one entry per round; every round times all subjects, so that drift hits them alike."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for call in subjects.values():
        call()
    for _ in range(ROUNDS):
        for name, call in subjects.items():
            started = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - started) / CALLS)
    return times


if __name__ == "__main__":
    main()
