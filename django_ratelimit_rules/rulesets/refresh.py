"""Keeps the snapshot of rules up to date in every process, so that a check never queries the database.

A change saved through Django is announced in Redis when it commits. The background thread looks for announcements and
for changes of the rules file, twice per ``RATELIMIT_RULES_REFRESH_SECONDS``. A reload every 15 seconds finds changes
that were made without Django.
"""

from __future__ import annotations

import logging
import threading
import time

from django.apps import AppConfig
from django.db import connections, router, transaction
from django.db.models.signals import post_migrate

from .. import rulesets, signals
from ..conf import settings
from ..counters.aliases import current
from ..exceptions import CountersUnavailable
from ..runtime import background, log_sampling, reset

logger = logging.getLogger(__name__)

APP = "django_ratelimit_rules"
RELOAD_SECONDS = 15.0


class Follower(reset.Part):
    """The last announcement that this process has seen, and the time of its last complete load."""

    def __init__(self) -> None:
        self.after_fork()

    def remembers(self) -> bool:
        """Return whether a change has yet to be announced."""
        return self._silent

    def forget(self) -> None:
        """Drop the announcement that has yet to be made.

        Keep the time of the last load, because a load between two tests would miss the rows of a test's transaction.
        """
        self._silent = False

    def after_fork(self) -> None:
        """Forget everything, because the child has the parent's snapshot, which may be old."""
        self._revision: str | None = None
        self._loaded = 0.0
        # Whether a change has yet to be announced, because Redis was unavailable when it was saved.
        self._silent = False

    def announce(self) -> None:
        """Announce to every process that rules changed.

        If Redis is unavailable, the thread repeats the announcement as soon as Redis is back.
        """
        self._silent = False
        try:
            current().announce()
        except CountersUnavailable as error:
            self._silent = True
            background.ensure()
            if log_sampling.due("refresh.announce"):
                logger.warning(
                    "Redis is unavailable, so a rule change will be announced later. Other processes may miss it until"
                    " then: %s",
                    error,
                )

    def look(self) -> None:
        """Reload the rules if they may have changed. The background thread calls this."""
        try:
            self._look()
        except Exception:
            # The thread must survive every exception of a database, a key function or a cache backend.
            if log_sampling.due("refresh"):
                logger.exception("The rules could not be refreshed, so the last good rules stay in force")

    def _look(self) -> None:
        rulesets.expire()
        if rulesets.file_changed():
            rulesets.reload_file()
        now = time.monotonic()
        try:
            revision = current().revision()
        except CountersUnavailable:
            # Redis reports no changes, so reload without an announcement.
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
            # No other process can write there, and a second connection would lock the tables of a running test.
            return
        try:
            if rulesets.reload():
                self._loaded = now
            else:
                # Load again at the next look, even without a new announcement.
                self._revision = None
        finally:
            connection.close()


def _database() -> str:
    from ..models import Ruleset

    return str(router.db_for_write(Ruleset))


_thread_state = threading.local()
follower = reset.register("rulesets.refresh", Follower())


def rules_written(*, using: str | None = None, **_: object) -> None:
    """Put a change in force when its transaction commits, never earlier. Receives ``signals.rules_changed``."""
    _thread_state.dirty = True
    transaction.on_commit(_committed, using=using)


def _committed() -> None:
    # Reload only once for all rows that a transaction wrote.
    if not getattr(_thread_state, "dirty", False):
        return
    _thread_state.dirty = False
    rulesets.reload()
    follower.announce()


def _migrated(*, app_config: AppConfig, using: str, **_: object) -> None:
    """Reload rows that migrations and ``flush`` changed without a signal for each row. Receives ``post_migrate``."""
    if app_config.name == APP and using == _database():
        rulesets.follow()


def connect() -> None:
    """Listen for rule changes. The app config calls this once."""
    background.every(0, follower.look)
    signals.rules_changed.connect(rules_written, dispatch_uid="django_ratelimit_rules.rulesets.refresh")
    post_migrate.connect(_migrated, dispatch_uid="django_ratelimit_rules.rulesets.refresh")
