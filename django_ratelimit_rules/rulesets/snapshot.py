"""Where rules come from: the rules file, the admin's rows and code, held in one snapshot per process, swapped whole.

A limiter's name goes in, its :class:`engine.Ruleset` comes out of memory; nothing here counts or looks at requests.
Loading happens at the first check. From then on :mod:`refresher` keeps the snapshot fresh from a thread of its own, so
that a check never asks the database. A reload that fails keeps the last good rules.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import connections

from .. import signals
from ..conf import settings
from ..engine import Rule, Ruleset
from ..exceptions import InvalidRulesFile
from ..runtime import log_sampling
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

# Who holds _lock only moves what is in memory: a check may wait for it. A database or a file is read under _loading,
# one reader at a time, and _lock is taken after it, never before.
_lock = threading.RLock()
_loading = threading.RLock()
_code: dict[str, TierRules] = {}
_file: dict[str, TierRules] = {}
_file_stamp: Stamp | None = UNREAD
_admin: dict[str, TierRules] = {}
_rows = Rows()
_snapshot: Snapshot | None = None
_overrides: dict[str, Snapshot] = {}


def get(limiter: str) -> Ruleset:
    """Return the ruleset in force for a limiter; the first call of a process loads the rules."""
    return effective(limiter).ruleset


def needs_no_load(limiter: str) -> bool:
    """Whether :func:`get` asks no database."""
    return _snapshot is not None or limiter in _overrides


async def aget(limiter: str) -> Ruleset:
    """As :func:`get`; the first load of a process waits in a thread, as Django's database layer wants it."""
    if not needs_no_load(limiter):
        await sync_to_async(_first_load)()
    return get(limiter)


def effective(limiter: str) -> EffectiveRuleset:
    """Return the ruleset in force for a limiter, each rule with the tier it came from."""
    snapshot = _snapshot_of(limiter)
    if time.time() >= snapshot.until:
        expire()
        snapshot = _snapshot_of(limiter)
    return snapshot.get(limiter)


def stated(limiter: str) -> Tiers:
    """Return what each tier says of a limiter, what is hidden or expired as well."""
    return _snapshot_of(limiter).tiers.get(limiter, {})


def _snapshot_of(limiter: str) -> Snapshot:
    return _overrides.get(limiter) or _snapshot or _first_load()


def in_force() -> list[EffectiveRuleset]:
    """Return all rulesets that some tier of what is loaded speaks of, overridden ones as overridden; loads nothing."""
    loaded = _snapshot.tiers if _snapshot else {}
    return [effective(limiter) for limiter in {**loaded, **_overrides}]


def expire() -> None:
    """Join anew what holds a rule that has expired since."""
    now = time.time()
    with _lock:
        for limiter, overriding in list(_overrides.items()):
            if now >= overriding.until:
                _overrides[limiter] = Snapshot(overriding.tiers)
        if _snapshot is not None and now >= _snapshot.until:
            _swap()


def limiters() -> set[str]:
    """Return the names of all limiters that some tier has rules or a mode for."""
    return {*(_snapshot or _first_load()).tiers, *_overrides}


def define(limiter: str, rules: Iterable[Rule | Mapping[str, Any]], partition_by: str | None = None) -> TierRules:
    """Give a limiter its code rules. Raises ImproperlyConfigured when it has some already, InvalidRule for bad ones."""
    tier = tier_rules(rules, partition_by=partition_by)
    with _lock:
        if limiter in _code:
            raise ImproperlyConfigured(
                f"Limiter {limiter!r} was given code rules twice; give them once and use Limiter({limiter!r}) elsewhere"
            )
        _code[limiter] = tier
        if _snapshot is not None:
            _swap()
    return tier


def override(limiter: str, tiers: Tiers | None) -> Snapshot | None:
    """Put tiers in force for a limiter in this process, or end that with None; return what was overridden before."""
    with _lock:
        before = _overrides.get(limiter)
        if tiers is None:
            _overrides.pop(limiter, None)
        else:
            _overrides[limiter] = Snapshot({limiter: tiers})
        _announce()
        return before


def restore(limiter: str, before: Snapshot | None) -> None:
    """Put back what :func:`override` returned."""
    with _lock:
        if before is None:
            _overrides.pop(limiter, None)
        else:
            _overrides[limiter] = before
        _announce()


def reload() -> bool:
    """Load all rules anew, and swap the snapshot if any differ; return whether the database answered. Never raises."""
    global _admin
    with _loading:
        before = (_file, _admin)
        _reload_file()
        try:
            admin = _rows.load()
        except Exception:
            # Whatever the database raises (gone, locked, not migrated): the last good rules go on.
            if log_sampling.due("rulesets.reload"):
                logger.exception("The rules could not be loaded from the database; the last good ones stay in force")
            admin, worked = _admin, False
        else:
            worked = True
        with _lock:
            _admin = admin
            if _snapshot is None or _file is not before[0] or _admin is not before[1]:
                _swap()
        return worked


def are_loaded() -> bool:
    """Whether this process has loaded the rules."""
    return _snapshot is not None


def follow() -> None:
    """Load all rules anew if some were loaded before. Never raises."""
    if are_loaded():
        reload()


def file_changed() -> bool:
    """Whether the rules file is another one than was read last."""
    return settings.FILE is not None and stamp_of(settings.FILE) != _file_stamp


def reload_file() -> None:
    """Read the rules file and swap the snapshot, if there is one. Never raises."""
    with _loading:
        _reload_file()
        with _lock:
            # The first snapshot is made by a load of everything: the refresher's thread may be here before the first
            # check, and the file alone, without the admin's rules, must not be taken for all there is.
            if _snapshot is not None:
                _swap()


def _reload_file() -> None:
    """Read the rules file if it changed. A file that cannot be read, or has one fault, changes nothing."""
    global _file, _file_stamp
    if settings.FILE is None:
        if _file:
            _file = {}
    elif file_changed():
        _file_stamp = stamp_of(settings.FILE)
        try:
            _file = read(settings.FILE)
        except InvalidRulesFile as error:
            logger.error("The rules file is refused as a whole; the last good one stays in force. %s", error)


def _first_load() -> Snapshot:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _load()
    else:
        _load_aside()
    assert _snapshot is not None
    return _snapshot


def _load() -> None:
    with _loading:
        if _snapshot is None:
            reload()


def _load_aside() -> None:
    """Load for a synchronous check on an event loop, where Django's database layer answers nobody: without the admin's
    rules, everybody would pass until the refresher's thread has them."""
    thread = threading.Thread(target=_load_and_close, name="ratelimit-rules-first-load")
    try:
        thread.start()
    except RuntimeError:
        # No more threads for this process, or it is ending: the other tiers have to do.
        _load()
    else:
        thread.join()


def _load_and_close() -> None:
    try:
        _load()
    finally:
        connections.close_all()


def _swap() -> None:
    """Make a snapshot of what is loaded."""
    global _snapshot
    tiers: dict[str, dict[Tier, TierRules]] = {}
    for tier, by_limiter in ((Tier.FILE, _file), (Tier.ADMIN, _admin), (Tier.CODE, _code)):
        for limiter, said in by_limiter.items():
            tiers.setdefault(limiter, {})[tier] = said
    before, _snapshot = _snapshot, Snapshot(tiers)
    if before is not None:
        _snapshot.keep(before)
    _announce()


def _announce() -> None:
    signals.rules_loaded.send_robust(sender=Snapshot)


def _settings_changed(*, setting: str, **_: object) -> None:
    if setting == "RATELIMIT_RULES_FILE":
        forget()
    if setting in ("SECRET_KEY", "RATELIMIT_RULES_IPV6_PREFIX", "RATELIMIT_RULES_FAILURE_MODE"):
        for snapshot in [*_overrides.values(), *([_snapshot] if _snapshot else [])]:
            snapshot.joined = {}


def _fork() -> None:
    global _lock, _loading
    # A thread of the parent's may have held one, and that thread is not here to let go.
    _lock, _loading = threading.RLock(), threading.RLock()


os.register_at_fork(after_in_child=_fork)
setting_changed.connect(_settings_changed, dispatch_uid="django_ratelimit_rules.rulesets")


def forget() -> None:
    """Forget what was loaded; the next check loads anew. For tests, whose database is rolled back behind our back."""
    global _snapshot, _admin, _file, _file_stamp
    with _loading, _lock:
        _snapshot, _admin, _file, _file_stamp = None, {}, {}, UNREAD
        _rows.forget()
