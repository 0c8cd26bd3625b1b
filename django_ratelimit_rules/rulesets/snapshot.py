"""Where rules come from: the rules file, the admin's rows and code, held in one snapshot per process, swapped whole.

A limiter's name goes in, its :class:`engine.Ruleset` comes out of memory; nothing here counts or looks at requests.
Loading happens at the first check. From then on :mod:`refresh` keeps the snapshot fresh from a thread of its own, so
that a check never asks the database. A reload that fails keeps the last good rules.
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


# No file has this stamp, nor has one that is not there, which is to be complained about as well.
UNREAD: Stamp = (-1, -1, -1)


class Rules(reset.Part):
    """The rules of this process: what each tier said when it was loaded, the snapshot, and the overrides of tests."""

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
        # A holder of `lock` only moves rules in memory, so that a check may wait for it. A database or a file is read
        # under `loading`, by one reader at a time. `lock` is taken after it, never before.
        self.lock = threading.RLock()
        self.loading = threading.RLock()

    def get(self, limiter: str) -> Ruleset:
        """Return the ruleset in force for a limiter; the first call of a process loads the rules."""
        return self.effective(limiter).ruleset

    def loaded(self, limiter: str) -> Ruleset | None:
        """Return the ruleset in force for a limiter, None before the first load."""
        # Each check comes here, so this repeats two lines of effective() and saves their calls.
        snapshot = self._overrides.get(limiter) or self._snapshot
        if snapshot is None:
            return None
        return snapshot.get(limiter).ruleset if clock.now() < snapshot.until else self.get(limiter)

    def needs_no_load(self, limiter: str) -> bool:
        """Whether :meth:`get` asks no database."""
        return self._snapshot is not None or limiter in self._overrides

    async def aget(self, limiter: str) -> Ruleset:
        """As :meth:`get`; the first load of a process waits in a thread, as Django's database layer wants it."""
        if not self.needs_no_load(limiter):
            await sync_to_async(self._first_load)()
        return self.get(limiter)

    def effective(self, limiter: str) -> EffectiveRuleset:
        """Return the ruleset in force for a limiter, each rule with the tier it came from."""
        snapshot = self._overrides.get(limiter) or self._snapshot or self._first_load()
        if clock.now() >= snapshot.until:
            self.expire()
            snapshot = self._snapshot_of(limiter)
        return snapshot.get(limiter)

    def stated(self, limiter: str) -> Tiers:
        """Return what each tier says of a limiter, what is hidden or expired as well."""
        return self._snapshot_of(limiter).tiers.get(limiter, {})

    def _snapshot_of(self, limiter: str) -> Snapshot:
        return self._overrides.get(limiter) or self._snapshot or self._first_load()

    def in_force(self) -> list[EffectiveRuleset]:
        """Return all rulesets that some tier of what is loaded speaks of, overridden ones as overridden; loads
        nothing."""
        loaded = self._snapshot.tiers if self._snapshot else {}
        return [self.effective(limiter) for limiter in {**loaded, **self._overrides}]

    def expire(self) -> None:
        """Join anew what holds a rule that has expired since."""
        now = clock.now()
        with self.lock:
            for limiter, overriding in list(self._overrides.items()):
                if now >= overriding.until:
                    self._overrides[limiter] = Snapshot(overriding.tiers)
            if self._snapshot is not None and now >= self._snapshot.until:
                self._swap()

    def rejoin(self) -> None:
        """Join all rules anew, because the clock was replaced: rules may have expired, or be in force again."""
        with self.lock:
            for limiter, overriding in list(self._overrides.items()):
                self._overrides[limiter] = Snapshot(overriding.tiers)
            if self._snapshot is not None:
                self._snapshot = Snapshot(self._snapshot.tiers)
            self._announce()

    def limiters(self) -> set[str]:
        """Return the names of all limiters that some tier has rules or a mode for."""
        return {*(self._snapshot or self._first_load()).tiers, *self._overrides}

    def define(
        self, limiter: str, rules: Iterable[Rule | Mapping[str, Any]], partition_by: str | None = None
    ) -> TierRules:
        """Give a limiter its code rules. Raises ImproperlyConfigured when it has some already, InvalidRule for bad
        ones."""
        tier = tier_rules(rules, partition_by=partition_by)
        with self.lock:
            if limiter in self.code:
                raise ImproperlyConfigured(
                    f"Limiter {limiter!r} was given code rules twice; give them once and use Limiter({limiter!r}) "
                    "elsewhere"
                )
            self.code[limiter] = tier
            if self._snapshot is not None:
                self._swap()
        return tier

    @contextmanager
    def isolated_code(self, *, empty: bool = False) -> Iterator[None]:
        """Forget at the end of a block the code rules that it gave. With ``empty`` the block begins without any."""
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
        """Put tiers in force for a limiter in this process, or end that with None; return what was overridden
        before."""
        with self.lock:
            before = self._overrides.get(limiter)
            if tiers is None:
                self._overrides.pop(limiter, None)
            else:
                self._overrides[limiter] = Snapshot({limiter: tiers})
            self._announce()
            return before

    def restore(self, limiter: str, before: Snapshot | None) -> None:
        """Put back what :meth:`override` returned."""
        with self.lock:
            if before is None:
                self._overrides.pop(limiter, None)
            else:
                self._overrides[limiter] = before
            self._announce()

    def reload(self) -> bool:
        """Load all rules anew, and swap the snapshot if any differ; return whether the database answered. Never
        raises."""
        with self.loading:
            before = (self._file, self._admin)
            self._reload_file()
            try:
                admin = self._rows.load()
            except Exception:
                # Whatever the database raises (gone, locked, not migrated): the last good rules go on.
                if log_sampling.due("rulesets.reload"):
                    logger.exception(
                        "The rules could not be loaded from the database; the last good ones stay in force"
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
        """Whether this process has loaded the rules."""
        return self._snapshot is not None

    def follow(self) -> None:
        """Load all rules anew if some were loaded before. Never raises."""
        if self.are_loaded():
            self.reload()

    def file_changed(self) -> bool:
        """Whether the rules file is another one than was read last."""
        return settings.FILE is not None and stamp_of(settings.FILE) != self._file_stamp

    def reload_file(self) -> None:
        """Read the rules file and swap the snapshot, if there is one. Never raises."""
        with self.loading:
            self._reload_file()
            with self.lock:
                # The first snapshot is made by a load of everything: the background thread may be here before the
                # first check, and the file alone, without the admin's rules, must not be taken for all there is.
                if self._snapshot is not None:
                    self._swap()

    def _reload_file(self) -> None:
        """Read the rules file if it changed. A file that cannot be read, or has one fault, changes nothing."""
        if settings.FILE is None:
            if self._file:
                self._file = {}
        elif self.file_changed():
            self._file_stamp = stamp_of(settings.FILE)
            try:
                self._file = read(settings.FILE)
            except InvalidRulesFile as error:
                logger.error("The rules file is refused as a whole; the last good one stays in force. %s", error)

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
        """Load for a synchronous check on an event loop, where Django's database layer answers nobody: without the
        admin's rules, everybody would pass until the background thread has them."""
        thread = threading.Thread(target=self._load_and_close, name="ratelimit-rules-first-load")
        try:
            thread.start()
        except RuntimeError:
            # No more threads for this process, or it is ending: the other tiers have to do.
            self._load()
        else:
            thread.join()

    def _load_and_close(self) -> None:
        try:
            self._load()
        finally:
            connections.close_all()

    def _swap(self) -> None:
        """Make a snapshot of what is loaded."""
        tiers: dict[str, dict[Tier, TierRules]] = {}
        for tier, by_limiter in ((Tier.FILE, self._file), (Tier.ADMIN, self._admin), (Tier.CODE, self.code)):
            for limiter, said in by_limiter.items():
                tiers.setdefault(limiter, {})[tier] = said
        before, self._snapshot = self._snapshot, Snapshot(tiers)
        if before is not None:
            self._snapshot.keep(before)
        self._announce()

    def _announce(self) -> None:
        signals.rules_loaded.send_robust(sender=Snapshot)

    def setting_changed(self, name: str) -> None:
        """Load anew for another file; join anew for settings that rulesets hold."""
        if name == "RATELIMIT_RULES_FILE":
            self.forget()
        if name in ("SECRET_KEY", "RATELIMIT_RULES_IPV6_PREFIX", "RATELIMIT_RULES_FAILURE_MODE"):
            for snapshot in [*self._overrides.values(), *([self._snapshot] if self._snapshot else [])]:
                snapshot.joined = {}

    def after_fork(self) -> None:
        """Replace the locks, one of which a thread of the parent may have held."""
        self._renew_locks()

    def remembers(self) -> bool:
        """Return whether any rules are loaded."""
        return self._snapshot is not None

    def forget(self) -> None:
        """Forget what was loaded; the next check loads anew. For tests, whose database is rolled back without a signal.

        Code rules and overrides stay, because no load brings them back.
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
