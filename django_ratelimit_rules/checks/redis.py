"""Checks of the cache alias that holds the counters, and of its Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.core.cache import caches
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from ..conf import PREFIX, settings
from ..counters.aliases import of_alias
from ..counters.transport.blocking import TIMEOUT
from ..engine.messages import all_of
from ..exceptions import CountersUnavailable
from ..runtime.language import localized

DJANGO_REDIS = "django_redis.cache.RedisCache"
TIME_OUTS = ("SOCKET_CONNECT_TIMEOUT", "SOCKET_TIMEOUT")

Messages = list[CheckMessage]


def check_cache_alias(**options: object) -> Messages:
    """Report a cache alias that is missing, or cannot count."""
    alias, configured = settings.CACHE_ALIAS, _cache_settings()
    if configured is None:
        message = _("%(setting)s is %(alias)r, but CACHES has no such alias.")
        hint = _("CACHES has the aliases %(aliases)s.") % {"aliases": ", ".join(map(repr, caches.settings))}
        return [
            Error(message % {"setting": f"{PREFIX}CACHE_ALIAS", "alias": alias}, hint=hint, id="ratelimit_rules.E020")
        ]
    backend = configured.get("BACKEND", "")
    if not _is_django_redis(backend):
        message = (
            _("The cache alias %(alias)r holds the counters, but its backend is %(backend)s instead of django-redis.")
            if backend
            else _("The cache alias %(alias)r holds the counters, but has no backend.")
        )
        hint = _("Set its BACKEND to %(backend)r.") % {"backend": DJANGO_REDIS}
        return [Error(message % {"alias": alias, "backend": backend}, hint=hint, id="ratelimit_rules.E021")]
    return []


def check_time_outs(**options: object) -> Messages:
    """Report time-outs that the alias does not set. The counters then use this app's own time-out, which is long."""
    configured = _cache_settings()
    if configured is None or not _is_django_redis(configured.get("BACKEND", "")):
        return []
    cache_options = configured.get("OPTIONS") or {}
    pool = cache_options.get("CONNECTION_POOL_KWARGS") or {}
    places = configured.get("LOCATION") or ""
    places = places.split(",") if isinstance(places, str) else places
    missing = [
        option
        for option in TIME_OUTS
        if not (
            cache_options.get(option)
            or pool.get(option.lower())
            or all(option.lower() in parse_qs(urlsplit(str(place)).query) for place in places)
        )
    ]
    if not missing:
        return []
    return [
        CheckWarning(
            _(
                "The cache alias %(alias)r does not set %(options)s. When Redis hangs, a check waits %(seconds)s s for"
                " it. The site's other uses of this cache wait for the time-out of redis-py."
            )
            % {"alias": settings.CACHE_ALIAS, "options": localized(all_of(missing)), "seconds": f"{TIMEOUT:g}"},
            hint=_("Add them to its OPTIONS, for example %(example)s.")
            % {"example": f"{{{', '.join(f'{option!r}: 0.2' for option in missing)}}}"},
            id="ratelimit_rules.W002",
        )
    ]


def check_eviction_policy(**options: object) -> Messages:
    """Warn if Redis may drop counters when its memory is full. Queries Redis, for at most one second."""
    configured = _cache_settings()
    if configured is None or not _is_django_redis(configured.get("BACKEND", "")):
        return []
    try:
        memory = of_alias().memory()
    except CountersUnavailable:
        # Redis is unavailable, or forbids the query. This check does not report either.
        return []
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return []
    bounded = memory.get("maxmemory", "0") != "0"
    message = (
        _("Redis drops keys by %(policy)s when its memory is full. A dropped counter starts again at 0.")
        if bounded
        else _(
            "Redis drops keys by %(policy)s once its memory is bounded (maxmemory) and full. A dropped counter starts"
            " again at 0."
        )
    )
    return [
        CheckWarning(
            message % {"policy": policy},
            hint=_("Keep the counters in a separate Redis with maxmemory-policy noeviction."),
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
    return any(f"{cls.__module__}.{cls.__name__}" == DJANGO_REDIS for cls in classes)
