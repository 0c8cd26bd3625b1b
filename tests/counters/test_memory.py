"""What only the store in memory does: it has a bound, and keeps to it at little cost."""

from __future__ import annotations

from django_ratelimit_rules.counters.memory import MemoryCounters
from tests.counters.conftest import make_hit


def test_more_counters_than_it_holds_cost_no_sweep_each():
    store = MemoryCounters(max_counters=1000)
    sweeps, before = 0, store._counters
    for number in range(3000):
        store.hit([make_hit(value=str(number))])
        sweeps += store._counters is not before
        before = store._counters
        assert len(store._counters) <= 1000
    assert sweeps < 20
    # The newest are kept.
    assert store.hit([make_hit(value="2999")])[0].used == 2
