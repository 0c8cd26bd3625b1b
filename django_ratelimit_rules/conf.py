"""The settings of this app, read from Django's settings at each access and never copied.

Every attribute below is the setting ``RATELIMIT_RULES_<NAME>`` with its default. Reading at use is what makes
``override_settings`` work; no other module of this app touches ``django.conf``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings as django_settings

PREFIX = "RATELIMIT_RULES_"


class Settings:
    """Typed view of the ``RATELIMIT_RULES_*`` settings."""

    ENABLED: bool = True
    CACHE_ALIAS: str = "default"
    KEY_PREFIX: str = "rl"
    MIDDLEWARE_LIMITERS: Sequence[str] = ()
    TRUSTED_PROXIES: Sequence[str] = ()
    PROXY_HOPS: int | None = None
    CLIENT_IP_HEADER: str = "X-Forwarded-For"
    IPV6_PREFIX: int = 64
    BYPASS_HEADER: str | None = None
    BYPASS_VALUE: str = "1"
    HEADERS: str = "draft"
    BLOCKED_VIEW: str | None = None
    FAILURE_MODE: str = "open"
    REFRESH_SECONDS: float = 1

    def __getattribute__(self, name: str) -> Any:
        default = object.__getattribute__(self, name)
        return getattr(django_settings, PREFIX + name, default) if name.isupper() else default

    @property
    def secret(self) -> bytes:
        """32 bytes derived from SECRET_KEY: the key of the digests that stand for client-written values."""
        return hashlib.sha256(b"django_ratelimit_rules.counter_keys:" + django_settings.SECRET_KEY.encode()).digest()

    @property
    def caches(self) -> Mapping[str, Mapping[str, Any]]:
        """Django's CACHES."""
        caches: Mapping[str, Mapping[str, Any]] = django_settings.CACHES
        return caches


settings = Settings()
