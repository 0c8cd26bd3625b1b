"""Many processes check one mixed chain, in parallel with other limiters. Each total must be exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter

from django_ratelimit_rules import Limiter
from django_ratelimit_rules.testing import override_ruleset

PROCESSES, CALLS, USERS = 4, 250, 5
YEAR = 31_536_000
CHAIN = [
    {"name": "seen", "action": "log", "characteristics": ["org"], "limit": 100, "period": YEAR},
    {"name": "org", "characteristics": ["org"], "limit": 300, "period": YEAR},
    {"name": "staff", "action": "skip", "match": {"user": "0"}},
    {"name": "user", "characteristics": ["user"], "limit": 70, "period": YEAR, "algorithm": "sliding_window"},
    {"name": "slow", "characteristics": ["user"], "limit": 60, "period": YEAR, "algorithm": "token_bucket"},
    {"name": "projects", "characteristics": ["org"], "limit": 40, "period": YEAR, "count_distinct": "project"},
]
BESIDE = [{"name": "all", "characteristics": ["user"], "limit": 10**6, "period": YEAR}]

PROGRAM = textwrap.dedent(
    """
    import asyncio, json, random, sys
    import django
    django.setup()
    from django_ratelimit_rules import Limiter
    from django_ratelimit_rules.testing import override_ruleset

    chain, beside, seed, calls, users = json.loads(sys.argv[1])
    rng = random.Random(seed)
    mixed, other = Limiter("mixed"), Limiter("beside")
    said = []

    def note(identifier, result):
        evaluations = [[e.rule, e.result, e.exceeded] for e in result.evaluations]
        said.append([identifier["user"], result.blocked, result.error, evaluations])

    async def some(count):
        identifiers = [who() for _ in range(count)]
        for identifier, result in zip(identifiers, await asyncio.gather(*map(mixed.acheck, identifiers))):
            note(identifier, result)

    def who():
        return {"org": 1, "user": str(rng.randrange(users)), "project": rng.randrange(60)}

    with override_ruleset("mixed", chain), override_ruleset("beside", beside):
        for number in range(calls // 10):
            for _ in range(5):
                identifier = who()
                note(identifier, mixed.check(identifier))
                other.check(identifier)
            asyncio.run(some(5))
    print(json.dumps(said))
    """
)


def test_totals_are_exact_with_parallel_limiters():
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps([CHAIN, BESIDE, seed, CALLS, USERS])],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(PROCESSES)
    ]
    said = [call for process in running for call in json.loads(process.communicate(timeout=120)[0])]
    assert len(said) == PROCESSES * CALLS
    assert not any(error for _, _, error, _ in said)

    reached: Counter[tuple[str, str]] = Counter()
    used: Counter[tuple[str, str]] = Counter()
    for user, blocked, _, evaluations in said:
        for rule, _, exceeded in evaluations:
            who = user if rule in ("user", "slow") else "1"
            reached[rule, who] += 1
            used[rule, who] += not blocked and not exceeded

    with override_ruleset("mixed", CHAIN), override_ruleset("beside", BESIDE):
        for user in map(str, range(USERS)):
            for evaluation in Limiter("mixed").peek({"org": 1, "user": user, "project": 0}).evaluations:
                who = user if evaluation.rule in ("user", "slow") else "1"
                if evaluation.rule != "projects":
                    assert evaluation.used == used[evaluation.rule, who], evaluation
                if evaluation.rule in ("seen", "org"):
                    assert evaluation.count == reached[evaluation.rule, who], evaluation
            calls_beside = Limiter("beside").peek({"user": user}).evaluations[0]
            assert calls_beside.used == calls_beside.count
        totals = [Limiter("beside").peek({"user": str(user)}).evaluations[0].used for user in range(USERS)]
    assert sum(totals) == PROCESSES * CALLS // 2
    assert used["seen", "1"] == 100
    assert used["org", "1"] <= 300
    assert any(blocked for _, blocked, _, _ in said)
