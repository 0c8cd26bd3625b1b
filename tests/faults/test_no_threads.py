"""A process that cannot start threads, or that is ending, still answers its checks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from django.conf import settings as django_settings

PROGRAM = textwrap.dedent(
    """
    import atexit, sys, threading
    import django
    django.setup()
    from django_ratelimit_rules import Limiter, Rule
    limiter = Limiter("threadless", rules=[Rule("all", limit=1, period=60)])
    if sys.argv[1] == "ending":
        atexit.register(lambda: print([limiter.check({}).blocked for _ in range(2)]))
    else:
        # More than the system has for the stack of any thread.
        threading.stack_size(1 << 46)
        print([limiter.check({}).blocked for _ in range(2)])
        threading.stack_size(0)
        blocked = limiter.check({}).blocked
        # Beside it one may stand for a moment that watches over a connection being made.
        names = [thread.name for thread in threading.enumerate()]
        print(blocked, names.count("ratelimit-rules-background"))
    """
)


def run(how: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "RATELIMIT_TEST_REDIS_URL": django_settings.REDIS_URL,
    }
    command = [sys.executable, "-c", PROGRAM, how]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)


def test_checks_of_a_process_that_gets_no_more_threads_continue():
    done = run("full")
    assert done.stdout.splitlines() == ["[False, True]", "True 1"]
    assert done.stderr.count("no thread can be started") == 1


def test_checks_while_the_process_ends_are_answered():
    assert run("ending").stdout == "[False, True]\n"
