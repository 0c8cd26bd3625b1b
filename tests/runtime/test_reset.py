"""The parts of a process: each can be reset for tests, and starts empty in a forked worker."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest

import django_ratelimit_rules
from django_ratelimit_rules import Limiter, Rule, limiter, testing
from django_ratelimit_rules.conf import settings as app_settings
from django_ratelimit_rules.counters import denial_cache
from django_ratelimit_rules.counters.aliases import of_alias
from django_ratelimit_rules.counters.transport.topology import Topology
from django_ratelimit_rules.engine import FailureMode
from django_ratelimit_rules.exceptions import CountersUnavailable
from django_ratelimit_rules.legacy import divergence
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.monitoring import exceeding_clients, last_hour, metrics, recording
from django_ratelimit_rules.rulesets import refresh, snapshot
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.runtime import log_sampling, reset
from django_ratelimit_rules.testing import override_ruleset, reset_counters
from tests.forks import in_child, needs_fork
from tests.servers import AWAY

PACKAGE = Path(django_ratelimit_rules.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
FULL = Rule("full", characteristics=["ip"], limit=0, period=60)
# Parts without a reset: the next test can use the thread and open connections, and metrics only grow.
KEEPING = {"background", "counters.transport.blocking", "metrics"}


def check(address: str = "203.0.113.7", **options) -> None:
    with override_ruleset("search", [FULL], **options):
        Limiter("search").check({"ip": address})


def count_locally(settings) -> None:
    settings.CACHES = AWAY
    check(failure_mode=FailureMode.LOCAL)


def compare(settings) -> None:
    with override_ruleset("search", [FULL], mode="dry_run"):
        Limiter("search").compare({"ip": "203.0.113.7"}, False)


def record(settings) -> None:
    settings.RATELIMIT_RULES_RECORD = 1
    check()


def refuse_again(settings) -> None:
    settings.RATELIMIT_RULES_DENIAL_CACHE = 10
    # Keep the override, because its end would announce other rules, and drop the refusal.
    override_ruleset("search", [FULL]).__enter__()
    Limiter("search").check({"ip": "203.0.113.7"})


def fail_to_announce(settings) -> None:
    settings.CACHES = AWAY
    refresh.follower.announce()


def fail(settings) -> None:
    of_alias().breaker.failed()


def fail_in_a_cluster(settings) -> None:
    global_topologies.append(Topology([("127.0.0.1", 1)], 1.0))
    global_topologies[0].breaker(("127.0.0.1", 1)).failed()


def write_text(settings) -> None:
    Ruleset.objects.create(name="search")
    ruleset_text.stored_text()


# Keep a reference, because the process holds topologies weakly.
global_topologies: list[Topology] = []
TEACHERS = {
    "counters.aliases": fail,
    "counters.denial_cache": refuse_again,
    "counters.transport.topology": fail_in_a_cluster,
    "decisions": lambda settings: check(),
    "divergence": compare,
    "exceeding_clients": lambda settings: check(),
    "last_hour": lambda settings: check(),
    "limiter": count_locally,
    "log_sampling": lambda settings: log_sampling.due("test"),
    "recording": record,
    "rulesets": lambda settings: Limiter("unheard_of").check({}),
    "rulesets.refresh": fail_to_announce,
    "rulesets.text": write_text,
}


@pytest.fixture
def _quiet_thread(monkeypatch):
    """Stop the background thread from writing data that a test looks for."""
    for task in reset.parts["background"].tasks.values():
        monkeypatch.setattr(task, "called", time.monotonic() + 60)
    yield
    for name in list(snapshot.rules.overridden()):
        snapshot.override(name, None)
    global_topologies.clear()


@pytest.mark.django_db
@pytest.mark.usefixtures("_quiet_thread")
@pytest.mark.parametrize("name", sorted(reset.parts.keys() - KEEPING))
def test_a_reset_forgets_each_part(name, settings):
    part = reset.parts[name]
    TEACHERS[name](settings)
    assert part.remembers()
    testing.reset()
    assert not part.remembers()


def test_every_part_either_forgets_or_is_known_to_keep():
    assert set(reset.parts) == TEACHERS.keys() | KEEPING


def test_a_part_has_a_name_of_its_own():
    with pytest.raises(ValueError, match="'limiter' is taken"):
        reset.register("limiter", reset.Part())


def test_code_rules_and_counters_in_redis_outlive_a_reset(redis_client):
    shop = Limiter("reset_test_shop", rules=[Rule("one", limit=1, period=60)])
    shop.check({})
    testing.reset()
    assert shop.check({}).blocked
    assert reset_counters("reset_test_shop") == 1
    assert not shop.check({}).blocked


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_rebinds_its_globals_or_listens_to_the_process_itself(source):
    text = source.read_text()
    assert not re.search(r"^\s*global\s", text, re.MULTILINE)
    if source != PACKAGE / "runtime" / "reset.py":
        assert "register_at_fork" not in text
        assert "setting_changed.connect" not in text


def test_one_hook_serves_all_parts():
    text = (PACKAGE / "runtime" / "reset.py").read_text()
    assert (text.count("register_at_fork("), text.count("setting_changed.connect(")) == (1, 1)


def test_a_changed_setting_is_read_again(settings):
    assert app_settings.KEY_PREFIX == "rl"
    settings.RATELIMIT_RULES_KEY_PREFIX = "other"
    assert app_settings.KEY_PREFIX == "other"


# --- forks

LOCKS = {
    "snapshot": lambda: snapshot.rules.lock,
    "loading": lambda: snapshot.rules.loading,
    "local": lambda: limiter.local.counters.lock,
    "divergence": lambda: divergence.comparisons.lock,
}


@needs_fork
@pytest.mark.parametrize("name", LOCKS)
def test_a_forked_worker_has_fresh_locks(name):
    lock, held, let_go = LOCKS[name](), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            let_go.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(10)
        assert in_child(lambda: LOCKS[name]() is not lock and LOCKS[name]().acquire(blocking=False)) == 0
    finally:
        let_go.set()
        thread.join()


@needs_fork
def test_a_fork_waits_for_the_lock_of_the_metrics_and_replaces_it():
    lock, held = metrics.pending.lock, threading.Event()

    def hold():
        with lock:
            held.set()
            time.sleep(0.2)  # The fork has to wait for this time.

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    assert in_child(lambda: metrics.pending.lock is not lock and metrics.pending.lock.acquire(blocking=False)) == 0
    thread.join()


@needs_fork
@pytest.mark.usefixtures("_quiet_thread")
def test_a_forked_worker_counts_nothing_twice(settings):
    settings.RATELIMIT_RULES_RECORD = 1
    check()
    with override_ruleset("compared", [FULL], mode="dry_run"):
        Limiter("compared").compare({"ip": "203.0.113.7"}, False)
    parts = [reset.parts[name] for name in ("last_hour", "exceeding_clients", "recording", "divergence")]
    assert all(part.remembers() for part in parts)

    def write() -> bool:
        nothing = not any(part.remembers() for part in parts)
        for module in (last_hour, exceeding_clients, recording, divergence):
            module.write()
        return nothing

    assert in_child(write) == 0
    assert all(part.remembers() for part in parts)
    with override_ruleset("search", [FULL]):
        assert last_hour.of_limiter("search").all.totals.calls == 1
    assert exceeding_clients.of_rules("search", ["full"])["full"].number == 1
    assert recording.size() == 2
    assert divergence.last_day("compared").day.compared == 1


@needs_fork
def test_a_forked_worker_tries_redis_at_once():
    of_alias().breaker.failed()
    assert in_child(lambda: not of_alias().breaker.is_open) == 0
    assert of_alias().breaker.is_open


@needs_fork
def test_a_part_that_fails_at_a_fork_is_logged_and_stops_no_other(caplog, monkeypatch):
    class Failing(reset.Part):
        def before_fork(self) -> None:
            raise CountersUnavailable("test")

    monkeypatch.setattr(reset, "parts", {"failing": Failing(), **reset.parts})
    lock = snapshot.rules.lock
    assert in_child(lambda: snapshot.rules.lock is not lock) == 0
    assert "Failing.before_fork" in caplog.text


@needs_fork
def test_denials_of_the_parent_are_no_concern_of_a_child(settings):
    settings.RATELIMIT_RULES_DENIAL_CACHE = 10
    with override_ruleset("search", [FULL]):
        Limiter("search").check({"ip": "203.0.113.7"})
        assert denial_cache.refusals.remembers()
        assert in_child(lambda: not denial_cache.refusals.remembers()) == 0
        assert denial_cache.refusals.remembers()
