"""A large limiter, partitioned over all shards by one of its properties."""

from __future__ import annotations

import pytest

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.monitoring.fullest_counters import heaviest
from django_ratelimit_rules.testing import override_ruleset

RULES = [
    Rule("per_user", characteristics=["user"], limit=5, period=60),
    Rule("per_path", characteristics=["user", "path"], limit=3, period=60, action="log"),
]
USERS = 300


def test_partitioned_counters_lie_on_all_shards_in_like_numbers(cluster):
    with override_ruleset("huge", RULES, partition_by="user"):
        huge = Limiter("huge")
        for user in range(USERS):
            assert huge.check({"user": user, "path": "/"}).evaluations[1].used == 1
        shares = [len([key for key in keys if "{huge|" in key]) for keys in cluster.keys().values()]
        assert sum(shares) == 2 * USERS
        # About a third each. With 300 users, a deviation of more than half occurs once in a million runs.
        assert all(USERS / 3 < share < USERS for share in shares), shares
        found = heaviest("huge", most=2 * USERS)
        assert (found.looked, found.complete) == (2 * USERS, True)
        assert {heavy.who for heavy in found.counters if heavy.rule == "per_path"} == {f"{n},/" for n in range(USERS)}
        assert current().clear("huge") == 2 * USERS


def test_without_a_partition_they_all_lie_on_one(cluster):
    with override_ruleset("huge", RULES):
        for user in range(20):
            Limiter("huge").check({"user": user, "path": "/"})
        assert sorted(len(keys) for keys in cluster.keys().values())[:2] == [0, 0]


@pytest.mark.parametrize("user", ["a", "b", "c", "d"])
async def test_a_partitioned_limiter_decides_as_without_a_partition(cluster, user):
    with override_ruleset("huge", RULES, partition_by="user"):
        huge, who = Limiter("huge"), {"user": user, "path": "/"}
        assert [(await huge.acheck(who)).blocked for _ in range(6)] == [False] * 5 + [True]
        assert (await huge.apeek(who)).blocked
        assert await huge.areset(who) == 2
        assert not (await huge.acheck(who)).blocked
