"""Keeps the snapshot of rules fresh in every process, from a daemon thread: a check never asks the database.

A change saved through Django is announced in Redis when it commits; the thread looks there twice per
``RATELIMIT_RULES_REFRESH_SECONDS``, and at the rules file. A change made behind Django's back is found by a plain
reload every 15 seconds.
The thread starts with the first check (never at import) and again after a fork.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from django.apps import AppConfig
from django.db import connections, router, transaction
from django.db.models.signals import post_migrate

from . import rulesets, signals
from .conf import settings
from .counters.aliases import current
from .exceptions import CountersUnavailable
from .runtime import log_sampling

logger = logging.getLogger(__name__)

RELOAD_SECONDS = 15.0
# However seldom a site wants announcements looked for: what is changed behind Django's back is found within 30 seconds.
LONGEST_SLEEP = 5.0
# How long a fork waits for the thread at most.
FORK_WAITS = 3.0


class Task:
    """What the thread does beside its own: a function, and how many seconds apart. ``called`` is when, by the
    monotonic clock."""

    def __init__(self, function: Callable[[], None], seconds: float) -> None:
        self.function = function
        self.seconds = seconds
        self.called = 0.0

    def call_when_due(self) -> None:
        """Call the function unless it was called a moment ago."""
        now = time.monotonic()
        if now - self.called >= self.seconds:
            self.called = now
            self.function()

    def call_at_exit(self) -> None:
        """Call it once more: a process that is stopped takes nothing along."""
        # Whatever is gone by then, Redis too, must not show in its last words.
        with suppress(Exception):
            self.function()


tasks: dict[Callable[[], None], Task] = {}


def also(function: Callable[[], None], seconds: float) -> None:
    """Have the thread call a function every so many seconds, and the process when it ends. It must be quick."""
    if function not in tasks:
        tasks[function] = task = Task(function, seconds)
        atexit.register(task.call_at_exit)


class Refresher:
    """The thread of this process, and what it knows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Held while the thread is at work. Reentrant, in case that forks.
        self._at_work = threading.RLock()
        self._thread: threading.Thread | None = None
        self._reset()

    def _reset(self) -> None:
        self._revision: str | None = None
        self._loaded = 0.0
        # Whether a change is still to be announced: Redis was away when it was saved.
        self._silent = False

    def ensure(self) -> None:
        """Start the thread unless it runs. Called by every check, so it does next to nothing."""
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="ratelimit-rules-refresher", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # No more threads for this process, or it is ending: a check must not fail for that.
                if log_sampling.due("refresher.start"):
                    logger.warning("The rules stay as they are, because no thread can be started: %s", error)
            else:
                self._thread = thread

    def announce(self) -> None:
        """Tell every process that rules changed; where Redis is away, the thread does it as soon as it is back."""
        self._silent = False
        try:
            current().announce()
        except CountersUnavailable as error:
            self._silent = True
            self.ensure()
            if log_sampling.due("refresher.announce"):
                logger.warning(
                    "A rule change is announced when Redis is back; until then others may miss it: %s", error
                )

    def wait(self) -> None:
        """Let the thread finish what it is at before this process forks, for a moment: what it holds of a database
        library's own locks, such as SQLite's, nobody would ever release in the child."""
        _thread_state.waited = self._at_work.acquire(timeout=FORK_WAITS)

    def go_on(self) -> None:
        """Let the thread of the parent go on after a fork."""
        if _thread_state.waited:
            self._at_work.release()

    def forget(self) -> None:
        """Forget the thread: after a fork the child has none, but has the parent's snapshot, which may be old."""
        self._lock = threading.Lock()
        self._at_work = threading.RLock()
        self._thread = None
        self._reset()

    def _run(self) -> None:
        while True:
            with self._at_work:
                self._work()
            time.sleep(min(max(0.05, settings.REFRESH_SECONDS / 2), LONGEST_SLEEP))

    def _work(self) -> None:
        try:
            self._look()
        except Exception:
            # The thread must outlive whatever a database, a key function or a cache backend raises.
            if log_sampling.due("refresher"):
                logger.exception("The rules could not be refreshed; the last good ones stay in force")
        for function, task in list(tasks.items()):
            try:
                task.call_when_due()
            except Exception:
                if log_sampling.due(f"refresher.{function.__module__}"):
                    logger.exception("A task of the refresher's thread failed; it is called again")

    def _look(self) -> None:
        rulesets.expire()
        if rulesets.file_changed():
            rulesets.reload_file()
        now = time.monotonic()
        try:
            revision = current().revision()
        except CountersUnavailable:
            # Nobody can tell us, so look for ourselves.
            news = now - self._loaded >= settings.REFRESH_SECONDS
        else:
            news = revision is not None and revision != self._revision
            self._revision = revision or self._revision
            if self._silent:
                self.announce()
        if not news and now - self._loaded < RELOAD_SECONDS:
            return
        connection = connections[_database()]
        if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
            # Nobody else can write there, and a second connection would lock the tables of a running test.
            return
        try:
            if rulesets.reload():
                self._loaded = now
            else:
                # Ask again at the next look, whatever the news was.
                self._revision = None
        finally:
            connection.close()


def _database() -> str:
    from .models import Ruleset

    return str(router.db_for_write(Ruleset))


_thread_state = threading.local()
_refresher = Refresher()
ensure = _refresher.ensure
os.register_at_fork(before=_refresher.wait, after_in_parent=_refresher.go_on, after_in_child=_refresher.forget)


def rules_written(*, using: str | None = None, **_: object) -> None:
    """Put a change in force when its transaction commits, never before; receiver of ``signals.rules_changed``."""
    _thread_state.dirty = True
    transaction.on_commit(_committed, using=using)


def _committed() -> None:
    # One reload for all rows that a transaction wrote.
    if not getattr(_thread_state, "dirty", False):
        return
    _thread_state.dirty = False
    rulesets.reload()
    _refresher.announce()


def _migrated(*, app_config: AppConfig, using: str, **_: object) -> None:
    """Follow what migrations and ``flush`` do to the rows, without a signal for each; receiver of ``post_migrate``."""
    if app_config.name == __package__ and using == _database():
        rulesets.follow()


def connect() -> None:
    """Listen for rule changes; called once by the app config."""
    signals.rules_changed.connect(rules_written, dispatch_uid="django_ratelimit_rules.refresher")
    post_migrate.connect(_migrated, dispatch_uid="django_ratelimit_rules.refresher")
