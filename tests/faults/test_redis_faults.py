"""All faults of Redis, on servers that are really broken, including reports 19 and 20.

The failure mode answers, no check waits without end, and counting is exact again after the fault.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import redis

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.runtime import log_sampling
from django_ratelimit_rules.testing import override_ruleset
from tests.faults.conftest import LIMIT, MODES, TIMEOUT
from tests.faults.rig import Proxy, Server, busy, deaf_port
from tests.servers import wait_until

CALLS = LIMIT + 3
Block = contextlib.AbstractContextManager[None]


@dataclass(frozen=True)
class Fault:
    """A way to break Redis during a block.

    ``kept`` is False if the server loses its data. ``reaches`` is True if calls may be counted although their replies
    are lost. ``waits`` is True if a call has to wait for its time-out.
    """

    name: str
    broken: Callable[[Server, Proxy], Block]
    kept: bool = True
    reaches: bool = False
    waits: bool = False


@contextlib.contextmanager
def _killed(server: Server, proxy: Proxy):
    server.kill()
    yield
    server.start()


@contextlib.contextmanager
def _unreachable(server: Server, proxy: Proxy):
    server.kill()
    with deaf_port(server.port):
        yield
    server.start()


@contextlib.contextmanager
def _set(server: Server, change: tuple[object, ...], back: tuple[object, ...]):
    server.client.execute_command(*change)
    try:
        yield
    finally:
        server.client.execute_command(*back)


def _told(*change: object, back: tuple[object, ...]):
    return lambda server, proxy: _set(server, change, back)


@contextlib.contextmanager
def _password_changed(server: Server, proxy: Proxy):
    with _set(server, ("CONFIG", "SET", "requirepass", "new"), ("CONFIG", "SET", "requirepass", "")):
        # Connections that signed in before stay open. Close them, as a restart of the site or a time-out does.
        server.client.client_kill_filter(skipme=True, _type="normal")
        yield


@contextlib.contextmanager
def _too_many_clients(server: Server, proxy: Proxy):
    with _set(server, ("CONFIG", "SET", "maxclients", 1), ("CONFIG", "SET", "maxclients", 10_000)):
        server.client.client_kill_filter(skipme=True, _type="normal")
        yield


FAULTS = [
    Fault("killed and restarted", _killed, kept=False),
    Fault("connections are never made", _unreachable, kept=False, waits=True),
    Fault("process frozen", lambda server, proxy: server.frozen(), reaches=True, waits=True),
    Fault("paused", _told("CLIENT", "PAUSE", 60_000, "WRITE", back=("CLIENT", "UNPAUSE")), reaches=True, waits=True),
    Fault("busy with a script", lambda server, proxy: busy(server)),
    Fault("read-only replica", _told("REPLICAOF", "127.0.0.1", 1, back=("REPLICAOF", "NO", "ONE"))),
    Fault("out of memory", _told("CONFIG", "SET", "maxmemory", 1, back=("CONFIG", "SET", "maxmemory", 0))),
    Fault(
        "too few replicas",
        _told("CONFIG", "SET", "min-replicas-to-write", 1, back=("CONFIG", "SET", "min-replicas-to-write", 0)),
    ),
    Fault("password changed", _password_changed),
    Fault(
        "scripts forbidden",
        _told("ACL", "SETUSER", "default", "-@scripting", back=("ACL", "SETUSER", "default", "+@all")),
    ),
    Fault("answers late", lambda server, proxy: proxy.broken("late"), reaches=True, waits=True),
    Fault("answers a byte at a time", lambda server, proxy: proxy.broken("trickle"), reaches=True, waits=True),
    Fault("too many clients", _too_many_clients),
    Fault("answers never", lambda server, proxy: proxy.broken("never"), reaches=True, waits=True),
    Fault("hears nothing", lambda server, proxy: proxy.broken("pass", requests="never"), waits=True),
    Fault("resets in mid-reply", lambda server, proxy: proxy.broken("cut"), reaches=True),
]
THROUGH_PROXY = {"answers late", "answers a byte at a time", "answers never", "hears nothing", "resets in mid-reply"}
faults = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
STATUSES = {
    "open": [200] * CALLS,
    "closed": [503] * CALLS,
    "local": [200] * LIMIT + [429] * (CALLS - LIMIT),
}


def assert_answered_by_the_failure_mode(site, mode: str) -> None:
    answers = [site.get(mode) for _ in range(CALLS)]
    assert [answer.status_code for answer in answers] == STATUSES[mode]
    named = {name.lower() for answer in answers for name in answer.headers if "ratelimit" in name.lower()}
    assert named == set()


@faults
def test_the_failure_mode_answers_and_counting_is_exact_again_afterwards(site, server, proxy, use, fault):
    use(proxy.port if fault.name in THROUGH_PROXY else server.port)
    assert [site.get(mode).status_code for mode in MODES] == [200] * 3
    assert [site.used(mode) for mode in MODES] == [1] * 3
    before = site.errors()
    site.turns = 0
    with fault.broken(server, proxy):
        started = time.monotonic()
        for mode in MODES:
            assert_answered_by_the_failure_mode(site, mode)
        # A few of the 24 calls wait for a time-out. If each waited for a second, all would take 24 seconds.
        assert time.monotonic() - started < 10
    if site.colour == "asgi" and fault.waits:
        assert site.turns > 100
    assert site.errors() - before == {f"fault_{mode}": CALLS for mode in MODES}
    assert [line.split()[1] for line in site.lines()] == [f"fault_{mode}" for mode in MODES]

    wait_until(lambda: site.used("open") is not None, what="the first command to Redis after the pause")
    # From here on, each failure is logged again.
    log_sampling.forget()
    for mode in MODES:
        start = site.used(mode)
        kept = int(fault.kept)
        assert kept <= start <= kept + (CALLS if fault.reaches else 0)
        answers = [site.get(mode) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200 if start + n < LIMIT else 429 for n in range(3)]
        assert all("RateLimit" in answer for answer in answers), site.lines()
        assert site.used(mode) == min(start + 3, max(LIMIT, start))
    assert len(site.lines()) == 3


def test_a_redis_that_was_never_there_is_found_when_it_comes(site, use):
    # Report 19.
    with Server() as server:
        use(server.port)
        for mode in MODES:
            assert_answered_by_the_failure_mode(site, mode)
        server.start()
        wait_until(lambda: site.used("open") is not None, what="Redis to be found")
        assert [site.get("closed").status_code for _ in range(LIMIT + 1)] == [200] * LIMIT + [429]


@pytest.mark.parametrize("ignored", [None, True, False])
def test_ignored_exceptions_of_django_redis_do_not_affect_the_counters(site, settings, use, ignored):
    # Report 19.
    with Server() as nobody:
        use(nobody.port, **({} if ignored is None else {"IGNORE_EXCEPTIONS": ignored}))
        settings.DJANGO_REDIS_IGNORE_EXCEPTIONS = bool(ignored)
        for mode in MODES:
            assert_answered_by_the_failure_mode(site, mode)


@pytest.mark.parametrize("mode", ["closed", "open"])
def test_a_lost_script_costs_no_call(site, server, use, mode):
    # Report 20.
    use(server.port)
    server.client.script_flush()
    remaining = []
    for _ in range(3):
        answer = site.get(mode)
        assert answer.status_code == 200
        remaining.append(answer["RateLimit"].split(";")[1])
        server.client.script_flush()
    assert remaining == ["r=4", "r=3", "r=2"]
    assert site.lines() == []


def test_scripts_flushed_under_load_lose_no_call_and_count_none_twice(server, use):
    use(server.port, SOCKET_TIMEOUT=5)
    done = threading.Event()

    def flush() -> None:
        with redis.Redis(port=server.port) as client:
            while not done.is_set():
                client.script_flush()

    results = []
    with override_ruleset("flushed", [Rule("all", limit=10**6, period=3600)], failure_mode="closed"):

        def ask() -> None:
            results.extend([Limiter("flushed").check({}) for _ in range(100)])

        flushing = threading.Thread(target=flush)
        asking = [threading.Thread(target=ask) for _ in range(4)]
        flushing.start()
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        done.set()
        flushing.join()
        assert not any(result.error for result in results)
        assert sorted(result.evaluations[0].used for result in results) == list(range(1, 401))


@pytest.mark.parametrize("manner", ["never", "late", "cut"])
def test_a_call_whose_answer_is_lost_is_sent_once(site, server, proxy, use, manner):
    use(proxy.port)
    site.get("open")
    counted, sent = site.used("open"), server.evalshas()
    with proxy.broken(manner):
        assert site.get("open").status_code == 200
    wait_until(lambda: server.evalshas() == sent + 1, what="the call")
    assert server.client.keys("*fault_open*")
    wait_until(lambda: site.used("open") is not None, what="the first command to Redis after the pause")
    assert site.used("open") == counted + 1


def test_a_late_reply_is_not_given_to_another_call(site, server, proxy, use):
    use(proxy.port)
    site.get("open")
    for mode in ("open", "local"):
        with proxy.broken("late"):
            site.get(mode)
        wait_until(lambda: site.used("closed") is not None, what="the first command to Redis after the pause")
        assert site.used("closed") == 0


def test_an_outage_costs_no_time_out_per_call(server, use):
    use(server.port)
    with override_ruleset("flood", [Rule("all", limit=10**6, period=3600)]):
        limiter = Limiter("flood")
        limiter.check({})
        with server.frozen():
            started = time.monotonic()
            asked = 0
            while time.monotonic() - started < 1:
                assert limiter.check({}).error
                asked += 1
        # Only a few calls can wait for a time-out in one second.
        assert asked > 20 / TIMEOUT


@override_ruleset("api", [Rule("all", limit=5, period=60)])
def test_a_connection_that_signs_in_a_byte_at_a_time_is_given_up(proxy, use):
    use(proxy.port)
    with proxy.broken("trickle"):
        started = time.monotonic()
        assert Limiter("api").check({}).error
        # A complete sign-in would take more than half a minute.
        assert time.monotonic() - started < 10
    wait_until(lambda: not Limiter("api").check({}).error, what="the failure to be over")
