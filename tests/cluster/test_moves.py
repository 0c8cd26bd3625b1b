"""Slots move from one master to another during checks. No call is lost or counted twice."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from redis.crc import key_slot

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.testing import override_ruleset
from tests.cluster.conftest import alias
from tests.cluster.load import load
from tests.clusters import Cluster, Node, text
from tests.servers import wait_until

BY_USER = Rule("by_user", characteristics=["user"], limit=5, period=60)
BY_TEAM = Rule("by_team", characteristics=["team"], limit=100, period=60)


def slot_of_limiter(name: str) -> int:
    return key_slot(f"{{{name}}}".encode())


class Move:
    """A limiter's slot during its move from one master to another."""

    def __init__(self, cluster: Cluster, limiter: str) -> None:
        self.cluster, self.slot = cluster, slot_of_limiter(limiter)
        self.source, self.target = cluster.begin_move(self.slot)
        self.ended = False

    def counter_of(self, value: int) -> None:
        """Move the one counter of a user or a team."""
        (key,) = [key for key in keys_of(self.source) if key.endswith(f":{value}")]
        self.source.ask("MIGRATE", "127.0.0.1", self.target.port, "", 0, 5000, "KEYS", key)

    def end(self) -> None:
        if not self.ended:
            self.cluster.end_move(self.slot, self.source, self.target)
            self.ended = True


def keys_of(node: Node) -> list[str]:
    return [text(key) for key in node.ask("KEYS", "*{*")]


@pytest.fixture
def moved(cluster):
    """Return a function that begins to move a limiter's slot."""
    moves: list[Move] = []

    def begin(limiter: str) -> Move:
        moves.append(Move(cluster, limiter))
        return moves[-1]

    yield begin
    for move in moves:
        move.end()


def test_a_moved_slot_is_followed_and_its_counter_continues(moved):
    with override_ruleset("gone", [BY_USER]):
        limiter = Limiter("gone")
        assert limiter.check({"user": 1}).most_restrictive.used == 1
        moved("gone").end()
        assert [limiter.check({"user": 1}).most_restrictive.used for _ in range(2)] == [2, 3]
        assert limiter.reset({"user": 1}) == 1


def test_counters_on_both_sides_of_a_move_count_on(moved):
    with override_ruleset("halfway", [BY_USER]):
        limiter = Limiter("halfway")
        for user in (1, 2):
            limiter.check({"user": user})
        move = moved("halfway")
        move.counter_of(1)
        # One counter has moved, one has not, and one is new. The target does not know the script.
        move.target.ask("SCRIPT FLUSH")
        results = [limiter.check({"user": user}) for user in (1, 2, 3, 1, 2, 3)]
        assert [result.most_restrictive.used for result in results] == [2, 2, 1, 3, 3, 2]
        assert not any(result.error for result in results)
        assert len(keys_of(move.target)) == 2
        move.end()
        assert [limiter.check({"user": user}).most_restrictive.used for user in (1, 2, 3)] == [4, 4, 3]


@pytest.fixture
def signed_in(cluster, settings):
    """Return a function that makes the alias sign in as a user with the given rights."""

    def sign_in(*rights: str) -> None:
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", "app", "on", ">s3cret", "~*", *rights)
        settings.CACHES = {"default": alias(cluster, "app:s3cret@")}

    yield sign_in
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "app")


@pytest.fixture
def may_not_migrate(signed_in):
    """An alias with a user who may count, but may not migrate counters from one server to another."""
    signed_in("+@all", "-migrate")


@pytest.mark.parametrize("rights", [None, "+@all"], ids=["as anybody", "as a user with a password"])
def test_a_check_with_counters_on_both_servers_migrates_them_and_counts(moved, signed_in, rights):
    if rights:
        signed_in(rights)
    with override_ruleset("split", [BY_USER, BY_TEAM]):
        limiter = Limiter("split")
        limiter.check({"user": 1, "team": 9})
        move = moved("split")
        move.counter_of(9)
        # Pairs of counters: one on each server, a new one and one on the target, and two new ones.
        for user, team, used in ((1, 9, [2, 2]), (2, 9, [1, 3]), (3, 8, [1, 1])):
            result = limiter.check({"user": user, "team": team})
            assert not result.error
            assert [evaluation.used for evaluation in result.evaluations] == used
        assert keys_of(move.source) == []
        move.end()
        assert [each.used for each in limiter.check({"user": 1, "team": 9}).evaluations] == [3, 4]


def test_a_placeholder_of_a_counter_expires_at_once(moved):
    rules = [BY_USER, Rule("none", limit=0, period=60), BY_TEAM]
    with override_ruleset("refused", rules):
        Limiter("refused").check({"user": 1, "team": 9})
        move = moved("refused")
        assert Limiter("refused").check({"user": 2, "team": 8}).blocked
        wait_until(
            lambda: not [key for key in keys_of(move.target) if key.endswith(":8")], what="the placeholder to expire"
        )


def test_a_user_who_may_not_migrate_counters_waits_for_the_move(moved, may_not_migrate):
    with override_ruleset("split", [BY_USER, BY_TEAM]):
        limiter = Limiter("split")
        limiter.check({"user": 1, "team": 9})
        move = moved("split")
        move.counter_of(9)
        before = replies(move.source, "TRYAGAIN")
        results = []
        waiting = threading.Thread(target=lambda: results.append(limiter.check({"user": 1, "team": 9})))
        waiting.start()
        wait_until(lambda: replies(move.source, "TRYAGAIN") > before + 1, what="the check to be delayed")
        assert not results
        move.end()
        waiting.join()
        (result,) = results
        assert [evaluation.used for evaluation in result.evaluations] == [2, 2]
        assert not result.error


def test_a_move_that_does_not_end_is_answered_by_the_failure_mode_and_hurts_no_other_slot(moved, may_not_migrate):
    rules = [BY_USER, BY_TEAM]
    with override_ruleset("stuck", rules, failure_mode="closed"), override_ruleset("beside", rules):
        limiter = Limiter("stuck")
        limiter.check({"user": 1, "team": 9})
        move = moved("stuck")
        move.counter_of(9)
        assert limiter.check({"user": 1, "team": 9}).error
        # Only a few calls wait for the end of the move, not each call.
        before = replies(move.source, "TRYAGAIN")
        assert limiter.check({"user": 1, "team": 9}).error
        assert replies(move.source, "TRYAGAIN") == before + 1
        assert not Limiter("beside").check({"user": 1, "team": 9}).error
        move.end()
        result = limiter.check({"user": 1, "team": 9})
        assert [evaluation.used for evaluation in result.evaluations] == [2, 2]


def replies(node: Node, error: str) -> int:
    """Return the number of a server's replies with an error."""
    for line in text(node.ask("INFO", "errorstats")).splitlines():
        if line.startswith(f"errorstat_{error}:"):
            return int(line.rpartition("=")[2])
    return 0


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_resharding_under_load_loses_no_call_and_admits_exactly_the_limit(moved, colour):
    users, limit = 300, 5
    rules = [BY_USER, Rule("all", limit=10**6, period=60)]
    with override_ruleset("resharded", rules, failure_mode="closed"):
        with load("resharded", lambda number: {"user": number % users}, colour) as calls:
            wait_until(lambda: len(calls.results) > users, what="calls")
            for _ in range(3):
                moved("resharded").end()
            wait_until(lambda: calls.admitted >= users * limit, 30, "every user to reach the limit")
            wait_until(lambda: len(calls.results) > users * (limit + 2), 30, "calls over the limit")
        assert calls.failed == 0
        assert calls.admitted == users * limit
        assert len(current().keys("resharded", 1000)[0]) == users + 1
    assert Counter(result.blocked for result in calls.results)[True] > 0
