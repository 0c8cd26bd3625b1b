"""Checks of the cache alias that holds the counters, and of Redis behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.core.cache import caches
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.utils.module_loading import import_string

from ..conf import PREFIX, settings
from ..counters.aliases import of_alias
from ..counters.transport.blocking import TIMEOUT
from ..exceptions import CountersUnavailable

DJANGO_REDIS = "django_redis.cache.RedisCache"
TIME_OUTS = ("SOCKET_CONNECT_TIMEOUT", "SOCKET_TIMEOUT")

Messages = list[CheckMessage]


def check_cache_alias(**_: object) -> Messages:
    """Name a cache alias that is missing, or cannot count."""
    alias, configured = settings.CACHE_ALIAS, _cache_settings()
    if configured is None:
        message = f"{PREFIX}CACHE_ALIAS is {alias!r}, which CACHES does not have."
        return [Error(message, hint=f"CACHES has {', '.join(map(repr, caches.settings))}.", id="ratelimit_rules.E020")]
    backend = configured.get("BACKEND", "")
    if not _is_django_redis(backend):
        message = (
            f"The cache alias {alias!r}, which holds the counters, is {backend or 'no backend'}, not django-redis."
        )
        return [Error(message, hint=f"Set its BACKEND to {DJANGO_REDIS!r}.", id="ratelimit_rules.E021")]
    return []


def check_time_outs(**_: object) -> Messages:
    """Name time-outs that the alias lacks: the counters then have one of this app's own, which is a long one."""
    configured = _cache_settings()
    if configured is None or not _is_django_redis(configured.get("BACKEND", "")):
        return []
    options = configured.get("OPTIONS") or {}
    pool = options.get("CONNECTION_POOL_KWARGS") or {}
    places = configured.get("LOCATION") or ""
    places = places.split(",") if isinstance(places, str) else places
    missing = [
        option
        for option in TIME_OUTS
        if not (
            options.get(option)
            or pool.get(option.lower())
            or all(option.lower() in parse_qs(urlsplit(str(place)).query) for place in places)
        )
    ]
    if not missing:
        return []
    return [
        CheckWarning(
            f"The cache alias {settings.CACHE_ALIAS!r} has no {' and no '.join(missing)}: when Redis hangs, a check"
            f" waits {TIMEOUT:g} s for it, and the site's own use of this cache as long as redis-py has it.",
            hint=f"Set them in its OPTIONS, such as {{{', '.join(f'{option!r}: 0.2' for option in missing)}}}.",
            id="ratelimit_rules.W002",
        )
    ]


def check_eviction_policy(**_: object) -> Messages:
    """Say that Redis may drop counters when its memory is full. Asks Redis, for a second at most."""
    configured = _cache_settings()
    if configured is None or not _is_django_redis(configured.get("BACKEND", "")):
        return []
    try:
        memory = of_alias().memory()
    except CountersUnavailable:
        # A Redis that is away, or forbids the question, is not what is checked here.
        return []
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return []
    bounded = memory.get("maxmemory", "0") != "0"
    when = "when its memory is full" if bounded else "once its memory is bounded (maxmemory) and full"
    return [
        CheckWarning(
            f"Redis drops keys by {policy} {when}; a counter that is dropped starts again at 0.",
            hint="Keep the counters in a Redis of their own with maxmemory-policy noeviction.",
            id="ratelimit_rules.W005",
        )
    ]


def _cache_settings() -> dict[str, Any] | None:
    configured: dict[str, Any] | None = caches.settings.get(settings.CACHE_ALIAS)
    return configured


def _is_django_redis(backend: str) -> bool:
    try:
        classes: Sequence[type] = import_string(backend).__mro__
    except (ImportError, AttributeError):
        return False
    return any(f"{one.__module__}.{one.__name__}" == DJANGO_REDIS for one in classes)
