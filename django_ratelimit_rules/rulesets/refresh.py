"""Keeps the snapshot of rules fresh in every process, from the background thread: a check never asks the database.

A change saved through Django is announced in Redis when it commits; the thread looks there twice per
``RATELIMIT_RULES_REFRESH_SECONDS``, and at the rules file. A change made behind Django's back is found by a plain
reload every 15 seconds.
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
    """What this process knows of rule changes: the last announcement, and when it last loaded everything."""

    def __init__(self) -> None:
        self.after_fork()

    def remembers(self) -> bool:
        """Return whether a change is still to be announced."""
        return self._silent

    def forget(self) -> None:
        """Drop the announcement that is still to be made.

        Leave the last look as it is, because a look between two tests would miss the rows of a test's transaction.
        """
        self._silent = False

    def after_fork(self) -> None:
        """Forget all of it, because the child has the parent's snapshot, which may be old."""
        self._revision: str | None = None
        self._loaded = 0.0
        # Whether a change is still to be announced: Redis was away when it was saved.
        self._silent = False

    def announce(self) -> None:
        """Tell every process that rules changed; where Redis is away, the thread does it as soon as it is back."""
        self._silent = False
        try:
            current().announce()
        except CountersUnavailable as error:
            self._silent = True
            background.ensure()
            if log_sampling.due("refresh.announce"):
                logger.warning(
                    "A rule change is announced when Redis is back; until then others may miss it: %s", error
                )

    def look(self) -> None:
        """Load the rules anew if something says that they changed. Called by the background thread."""
        try:
            self._look()
        except Exception:
            # The thread must outlive whatever a database, a key function or a cache backend raises.
            if log_sampling.due("refresh"):
                logger.exception("The rules could not be refreshed; the last good ones stay in force")

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
    from ..models import Ruleset

    return str(router.db_for_write(Ruleset))


_thread_state = threading.local()
follower = reset.register("rulesets.refresh", Follower())


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
    follower.announce()


def _migrated(*, app_config: AppConfig, using: str, **_: object) -> None:
    """Follow what migrations and ``flush`` do to the rows, without a signal for each; receiver of ``post_migrate``."""
    if app_config.name == APP and using == _database():
        rulesets.follow()


def connect() -> None:
    """Listen for rule changes; called once by the app config."""
    background.every(0, follower.look)
    signals.rules_changed.connect(rules_written, dispatch_uid="django_ratelimit_rules.rulesets.refresh")
    post_migrate.connect(_migrated, dispatch_uid="django_ratelimit_rules.rulesets.refresh")
