"""The counters of each cache alias, made once for the process, with the denial cache before them where that is on."""

from __future__ import annotations

import os

from django.core.signals import setting_changed

from ..conf import settings
from .denial_cache import Denials
from .redis import RedisCounters

_by_alias: dict[str, RedisCounters] = {}


def current() -> RedisCounters:
    """Return the counters of the alias that ``RATELIMIT_RULES_CACHE_ALIAS`` names."""
    alias = settings.CACHE_ALIAS
    counters = _by_alias.get(alias)
    if counters is None:
        made = Denials(alias) if settings.DENIAL_CACHE else RedisCounters(alias)
        counters = _by_alias.setdefault(alias, made)
    return counters


def _forget(*, setting: str, **_: object) -> None:
    if setting in ("CACHES", "RATELIMIT_RULES_DENIAL_CACHE"):
        for counters in _by_alias.values():
            counters.close()
        _by_alias.clear()


def _fork() -> None:
    for counters in _by_alias.values():
        counters.begin_anew()


os.register_at_fork(after_in_child=_fork)
setting_changed.connect(_forget, dispatch_uid="django_ratelimit_rules.counters")
