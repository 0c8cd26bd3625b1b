"""The floor and this app as contestants. ``peers.py`` has the peers. All count persons in fixed windows of an hour.

Each factory takes a number of limits. It returns a function of a person's number, which returns whether the call is
allowed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from tests.benchmarks.timing import Call

HOUR = 3600
# Below 999,999, which django-smart-ratelimit returns after a failure of Redis.
NEVER_REACHED = 500_000
# The number of digits of user ids on a large site.
FIRST_PERSON = 1_000_000

ACall = Callable[[int], Awaitable[object]]

# The minimal work of a limiter: count each key, set its expiry once, compare.
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


@dataclass(frozen=True)
class Contestant:
    """One column of the table. ``package`` is its required package."""

    name: str
    check: Callable[[int, int], Call]
    acheck: Callable[[], ACall]
    package: str = "redis"

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None


def floor_check(limits: int, limit: int) -> Call:
    """A bare ``redis-py`` EVALSHA of a minimal script, on the client of the alias that all contestants use."""
    from django_redis import get_redis_connection

    client = get_redis_connection("default")
    evalsha, sha = client.evalsha, client.script_load(MINIMAL)
    arguments = [limit, HOUR * 1000] * limits
    prefixes = [f":1:bare:{number}:{limit}:" for number in range(limits)]

    def counted(person: int) -> object:
        return evalsha(sha, limits, *[f"{prefix}{FIRST_PERSON + person}" for prefix in prefixes], *arguments)

    return counted


def floor_acheck() -> ACall:
    """The same with ``redis.asyncio``, whose pool allows at most 100 connections by default."""
    from django.conf import settings
    from redis.asyncio import Redis

    client = Redis.from_url(settings.REDIS_URL, max_connections=1000)
    loaded: list[Any] = []

    async def counted(person: int) -> object:
        if not loaded:
            loaded.append(await client.script_load(MINIMAL))
        return await client.evalsha(loaded[0], 1, f":1:bare:0:{FIRST_PERSON + person}", NEVER_REACHED, HOUR * 1000)

    return counted


@cache
def our_limiter(limits: int, limit: int) -> Any:
    """This app's limiter with a number of matching rules. Its name has the length of the peers' names."""
    from django_ratelimit_rules import Limiter, Rule

    names = [f"per_user_{number}" for number in range(limits)]
    rules = [Rule(name, action="limit", characteristics=["user"], limit=limit, period=HOUR) for name in names]
    return Limiter(f"search_{limits}" if limit == NEVER_REACHED else "search_full", rules=rules)


def our_check(limits: int, limit: int) -> Call:
    check = our_limiter(limits, limit).check
    return lambda person: not check({"user": FIRST_PERSON + person}).blocked


def our_acheck() -> ACall:
    check = our_limiter(1, NEVER_REACHED).acheck

    async def passed(person: int) -> bool:
        return not (await check({"user": FIRST_PERSON + person})).blocked

    return passed


FLOOR = Contestant("bare EVALSHA", floor_check, floor_acheck)
OURS = Contestant("this app", our_check, our_acheck)
