"""Sentinel, cluster and partition: the shown aliases and rules count on real servers."""

from __future__ import annotations

import re

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.testing import override_ruleset
from tests.clusters import redis_cluster, watched_master
from tests.docs.pages import take
from tests.docs.running import define

(SENTINEL,) = take("docs/redis.md#sentinel")
(CLUSTER,) = take("docs/redis.md#redis-cluster")
(PARTITION,) = take("docs/redis.md#one-limiter-on-all-servers")


def count(settings, example: str) -> int:
    """Use the configuration of an example, and count twice."""
    for name, value in define(patient(example)).items():
        if name.isupper():
            setattr(settings, name, value)
    with override_ruleset("search", [Rule("clients", characteristics=["ip"], limit=9, period=60)], mode="enforce"):
        for _ in range(2):
            (evaluation,) = Limiter("search").check({"ip": "192.0.2.1"}).evaluations
    return evaluation.used


def patient(example: str) -> str:
    """Return an example with time-outs that are long enough for a busy machine."""
    return re.sub(r"TIMEOUT\": 0\.2", 'TIMEOUT": 5', example)


def test_sentinel_counts_on_the_master(settings, tmp_path):
    with watched_master(tmp_path) as watched:
        example = SENTINEL.replace("redis://primary", f"redis://{watched.name}")
        for number, sentinel in enumerate(watched.sentinels, start=1):
            example = example.replace(f'("10.0.0.{number}", 26379)', f'("127.0.0.1", {sentinel.port})')
        assert count(settings, example) == 2


def test_a_cluster_counts(settings, tmp_path):
    with redis_cluster(tmp_path) as cluster:
        example = CLUSTER
        for number, location in enumerate(cluster.locations(), start=1):
            example = example.replace(f"redis://10.0.0.{number}:6379/0", location)
        assert count(settings, example) == 2


def test_a_partition_puts_the_counters_of_one_user_together_and_of_two_apart(keys):
    ruleset = ruleset_text.load(PARTITION, "page.yaml")["api"]
    with override_ruleset("api", ruleset.rules, partition_by=ruleset.partition_by):
        for user in (42, 43):
            assert len(Limiter("api").check({"user": user, "route": "items"}).evaluations) == 2
    assert sorted({key[key.index("{") : key.index("}") + 1] for key in keys()}) == ["{api|42}", "{api|43}"]
