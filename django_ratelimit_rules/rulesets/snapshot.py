"""Holds the rules of the file, the admin and code in one snapshot per process, which is replaced as a whole.

A limiter's name goes in, and its :class:`engine.Ruleset` comes out of memory. The first check loads the rules. After
that :mod:`.refresh` keeps the snapshot up to date in a separate thread, so that a check never queries the database. A
reload that fails keeps the last good rules. Nothing here counts or reads requests.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from .. import signals
from ..conf import settings
from ..engine import Rule, Ruleset
from ..exceptions import InvalidRulesFile
from ..runtime import log_sampling, reset
from ..runtime.clock import clock
from .file import Stamp, read, stamp_of
from .rows import Rows
from .tiers import (
    EffectiveRuleset,
    Snapshot,
    Tier,
    TierRules,
    Tiers,
    tier_rules,
)

logger = logging.getLogger(__name__)


# No file has this stamp. It differs from None, the stamp of a missing file, so that the first load logs a missing file.
UNREAD: Stamp = (-1, -1, -1)


class Rules(reset.Part):
    """The rules of this process: the tiers as they were loaded, the snapshot, and the overrides of tests."""

    def __init__(self) -> None:
        self._renew_locks()
        self.code: dict[str, TierRules] = {}
        self._file: dict[str, TierRules] = {}
        self._file_stamp: Stamp | None = UNREAD
        self._admin: dict[str, TierRules] = {}
        self._rows = Rows()
        self._snapshot: Snapshot | None = None
        self._overrides: dict[str, Snapshot] = {}

    def _renew_locks(self) -> None:
        # A holder of `lock` only moves rules in memory, so that a check may wait for it. `loading` is held while the
        # database or the file is read, by one reader at a time. Take `lock` after `loading`, never before, because
        # another order could deadlock.
        self.lock = threading.RLock()
        self.loading = threading.RLock()

    def get(self, limiter: str) -> Ruleset:
        """Return the ruleset in force for a limiter. The first call of a process loads the rules."""
        return self.effective(limiter).ruleset

    def loaded(self, limiter: str) -> Ruleset | None:
        """Return the ruleset in force for a limiter, None before the first load."""
        # Each check comes here, so this repeats two lines of effective() and saves their calls.
        snapshot = self._overrides.get(limiter) or self._snapshot
        if snapshot is None:
            return None
        return snapshot.get(limiter).ruleset if clock.now() < snapshot.until else self.get(limiter)

    def needs_no_load(self, limiter: str) -> bool:
        """Return whether :meth:`get` needs no database."""
        return self._snapshot is not None or limiter in self._overrides

    async def aget(self, limiter: str) -> Ruleset:
        """Async version of :meth:`get`. The first load runs in a thread, because Django's ORM requires that."""
        if not self.needs_no_load(limiter):
            await sync_to_async(self._first_load)()
        return self.get(limiter)

    def effective(self, limiter: str) -> EffectiveRuleset:
        """Return the ruleset in force for a limiter, each rule with its tier."""
        snapshot = self._overrides.get(limiter) or self._snapshot or self._first_load()
        if clock.now() >= snapshot.until:
            self.expire()
            snapshot = self._snapshot_of(limiter)
        return snapshot.get(limiter)

    def stated(self, limiter: str) -> Tiers:
        """Return the rules of each tier for a limiter, including hidden and expired rules."""
        return self._snapshot_of(limiter).tiers.get(limiter, {})

    def _snapshot_of(self, limiter: str) -> Snapshot:
        return self._overrides.get(limiter) or self._snapshot or self._first_load()

    def in_force(self) -> list[EffectiveRuleset]:
        """Return all loaded rulesets, with overrides applied. Loads nothing."""
        loaded = self._snapshot.tiers if self._snapshot else {}
        return [self.effective(limiter) for limiter in {**loaded, **self._overrides}]

    def expire(self) -> None:
        """Join rulesets again if one of their rules has expired since the last join."""
        now = clock.now()
        with self.lock:
            for limiter, overriding in list(self._overrides.items()):
                if now >= overriding.until:
                    self._overrides[limiter] = Snapshot(overriding.tiers)
            if self._snapshot is not None and now >= self._snapshot.until:
                self._swap()

    def rejoin(self) -> None:
        """Join all rules again. Call this after the clock was replaced, which changes the rules that have expired."""
        with self.lock:
            for limiter, overriding in list(self._overrides.items()):
                self._overrides[limiter] = Snapshot(overriding.tiers)
            if self._snapshot is not None:
                self._snapshot = Snapshot(self._snapshot.tiers)
            self._announce()

    def limiters(self) -> set[str]:
        """Return the names of all limiters that a tier has rules or a mode for."""
        return {*(self._snapshot or self._first_load()).tiers, *self._overrides}

    def define(
        self, limiter: str, rules: Iterable[Rule | Mapping[str, Any]], partition_by: str | None = None
    ) -> TierRules:
        """Set the code rules of a limiter. Raises InvalidRule for invalid rules.

        Raises ImproperlyConfigured if the limiter already has code rules.
        """
        tier = tier_rules(rules, partition_by=partition_by)
        with self.lock:
            if limiter in self.code:
                raise ImproperlyConfigured(
                    f"Limiter {limiter!r} has two sets of code rules. Define the rules once, and use"
                    f" Limiter({limiter!r}) elsewhere."
                )
            self.code[limiter] = tier
            if self._snapshot is not None:
                self._swap()
        return tier

    @contextmanager
    def isolated_code(self, *, empty: bool = False) -> Iterator[None]:
        """Restore the code rules at the end of a block. With ``empty`` the block begins without code rules."""
        with self.lock:
            before = self.code
            self._replace_code({} if empty else dict(before))
        try:
            yield
        finally:
            with self.lock:
                self._replace_code(before)

    def _replace_code(self, code: dict[str, TierRules]) -> None:
        changed, self.code = code != self.code, code
        if changed and self._snapshot is not None:
            self._swap()

    def overridden(self) -> set[str]:
        """Return the names of the limiters whose rules are overridden."""
        return set(self._overrides)

    def override(self, limiter: str, tiers: Tiers | None) -> Snapshot | None:
        """Put tiers in force for a limiter in this process. None ends the override.

        Return the previous override, or None if there was none.
        """
        with self.lock:
            before = self._overrides.get(limiter)
            if tiers is None:
                self._overrides.pop(limiter, None)
            else:
                self._overrides[limiter] = Snapshot({limiter: tiers})
            self._announce()
            return before

    def restore(self, limiter: str, before: Snapshot | None) -> None:
        """Restore the override that :meth:`override` returned."""
        with self.lock:
            if before is None:
                self._overrides.pop(limiter, None)
            else:
                self._overrides[limiter] = before
            self._announce()

    def reload(self) -> bool:
        """Load all rules, and replace the snapshot if they changed. Return whether the database responded.

        Never raises.
        """
        with self.loading:
            before = (self._file, self._admin)
            self._reload_file()
            try:
                admin = self._rows.load()
            except Exception:
                # Keep the last good rules if the database is unavailable, locked or not migrated.
                if log_sampling.due("rulesets.reload"):
                    logger.exception(
                        "The rules could not be loaded from the database, so the last good rules stay in force"
                    )
                admin, worked = self._admin, False
            else:
                worked = True
            with self.lock:
                self._admin = admin
                if self._snapshot is None or self._file is not before[0] or self._admin is not before[1]:
                    self._swap()
            return worked

    def are_loaded(self) -> bool:
        """Return whether this process has loaded the rules."""
        return self._snapshot is not None

    def follow(self) -> None:
        """Reload all rules if they were loaded before. Never raises."""
        if self.are_loaded():
            self.reload()

    def file_changed(self) -> bool:
        """Return whether the rules file differs from the file at the last read."""
        return settings.FILE is not None and stamp_of(settings.FILE) != self._file_stamp

    def reload_file(self) -> None:
        """Read the rules file and replace the snapshot if there is one. Never raises."""
        with self.loading:
            self._reload_file()
            with self.lock:
                # Leave the first snapshot to a complete load. The background thread may get here before the first
                # check, and a snapshot of the file only would lack the admin's rules.
                if self._snapshot is not None:
                    self._swap()

    def _reload_file(self) -> None:
        """Read the rules file if it changed. A file that cannot be read, or has an error, changes nothing."""
        if settings.FILE is None:
            if self._file:
                self._file = {}
        elif self.file_changed():
            self._file_stamp = stamp_of(settings.FILE)
            try:
                self._file = read(settings.FILE)
            except InvalidRulesFile as error:
                logger.error("The rules file is rejected as a whole, so the last good file stays in force. %s", error)

    def _first_load(self) -> Snapshot:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._load()
        else:
            self._load_aside()
        assert self._snapshot is not None
        return self._snapshot

    def _load(self) -> None:
        with self.loading:
            if self._snapshot is None:
                self.reload()

    def _load_aside(self) -> None:
        """Load in a thread for a synchronous check on an event loop, where Django's ORM refuses to work.

        Otherwise the admin's rules would block no client until the background thread has loaded them.
        """
        thread = threading.Thread(target=self._load_and_close, name="ratelimit-rules-first-load")
        try:
            thread.start()
        except RuntimeError:
            # The process cannot start a thread, or it is ending. Load the other tiers without the database.
            self._load()
        else:
            thread.join()

    def _load_and_close(self) -> None:
        try:
            self._load()
        finally:
            connections.close_all()

    def _swap(self) -> None:
        """Replace the snapshot by a new one of the loaded tiers."""
        tiers: dict[str, dict[Tier, TierRules]] = {}
        for tier, by_limiter in ((Tier.FILE, self._file), (Tier.ADMIN, self._admin), (Tier.CODE, self.code)):
            for limiter, stated in by_limiter.items():
                tiers.setdefault(limiter, {})[tier] = stated
        before, self._snapshot = self._snapshot, Snapshot(tiers)
        if before is not None:
            self._snapshot.keep(before)
        self._announce()

    def _announce(self) -> None:
        signals.rules_loaded.send_robust(sender=Snapshot)

    def setting_changed(self, name: str) -> None:
        """Reload the rules for another file. Join them again for settings that rulesets hold."""
        if name == "RATELIMIT_RULES_FILE":
            self.forget()
        if name in ("SECRET_KEY", "RATELIMIT_RULES_IPV6_PREFIX", "RATELIMIT_RULES_FAILURE_MODE"):
            for snapshot in [*self._overrides.values(), *([self._snapshot] if self._snapshot else [])]:
                snapshot.joined = {}

    def after_fork(self) -> None:
        """Replace the locks, because a thread of the parent may have held one."""
        self._renew_locks()

    def remembers(self) -> bool:
        """Return whether any rules are loaded."""
        return self._snapshot is not None

    def forget(self) -> None:
        """Forget the loaded rules, so that the next check loads them. Tests need this after they roll back silently.

        Code rules and overrides stay, because no load restores them.
        """
        with self.loading, self.lock:
            self._snapshot, self._admin, self._file, self._file_stamp = None, {}, {}, UNREAD
            self._rows.forget()


rules = reset.register("rulesets", Rules())
get = rules.get
aget = rules.aget
needs_no_load = rules.needs_no_load
loaded = rules.loaded
effective = rules.effective
stated = rules.stated
in_force = rules.in_force
expire = rules.expire
rejoin = rules.rejoin
limiters = rules.limiters
define = rules.define
isolated_code = rules.isolated_code
override = rules.override
restore = rules.restore
reload = rules.reload
are_loaded = rules.are_loaded
follow = rules.follow
file_changed = rules.file_changed
reload_file = rules.reload_file
forget = rules.forget
