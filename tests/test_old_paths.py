"""Documented names that moved in 1.1 are still imported from their old paths, with a warning."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

OLD = {
    "versions": ("rulesets.history", {"Author", "apply", "begin", "changing", "finish", "plain", "restore"}),
    "live": ("monitoring.last_hour", {"heaviest", "last_hour"}),
    "counters.cluster": ("counters.transport.cluster", {"ClusterConnectionFactory"}),
}


@pytest.mark.parametrize("path", OLD)
def test_an_old_path_works_and_warns_with_the_new_one(path, monkeypatch):
    new, names = OLD[path]
    name = f"django_ratelimit_rules.{path}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.warns(DeprecationWarning, match="will be removed in 1.2") as caught:
        old = import_module(name)
    (warning,) = caught
    assert name in str(warning.message)
    assert f"django_ratelimit_rules.{new}" in str(warning.message)
    assert names <= set(old.__all__)
    for each in old.__all__:
        assert getattr(old, each) is not None


def test_old_names_are_the_new_ones(monkeypatch):
    from django_ratelimit_rules.counters.transport.cluster import ClusterConnectionFactory
    from django_ratelimit_rules.monitoring import fullest_counters, last_hour
    from django_ratelimit_rules.rulesets import history

    for path in OLD:
        monkeypatch.delitem(sys.modules, f"django_ratelimit_rules.{path}", raising=False)
    with pytest.warns(DeprecationWarning, match="deprecated"):
        versions, live, cluster = [import_module(f"django_ratelimit_rules.{path}") for path in OLD]
    assert (versions.Author, versions.changing, versions.FIRST) == (history.Author, history.changing, history.FIRST)
    assert (live.last_hour, live.heaviest) == (last_hour.of_limiter, fullest_counters.heaviest)
    assert cluster.ClusterConnectionFactory is ClusterConnectionFactory
