"""The settings of this app: typed attributes, read from Django's settings at use.

Every attribute is the setting ``RATELIMIT_RULES_<NAME>``. A value is remembered, because a check reads several.
``runtime.reset`` forgets it when Django reports a change (``override_settings`` does). No other module touches
``django.conf``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.conf import settings as django_settings

PREFIX = "RATELIMIT_RULES_"

DEFAULTS: Mapping[str, Any] = {
    "ENABLED": True,
    "CACHE_ALIAS": "default",
    "KEY_PREFIX": "rl",
    "FILE": None,
    "MIDDLEWARE_LIMITERS": (),
    "TRUSTED_PROXIES": (),
    "PROXY_HOPS": None,
    "CLIENT_IP_HEADER": "X-Forwarded-For",
    "IPV6_PREFIX": 64,
    "BYPASS_HEADER": None,
    "BYPASS_VALUE": "1",
    "HEADERS": "draft",
    "BLOCKED_VIEW": None,
    "FAILURE_MODE": "open",
    "REFRESH_SECONDS": 1,
    "DECISIONS": True,
    "LIVE": True,
    "DENIAL_CACHE": 0,
    "RECORD": 0,
    "RECORD_MAX": 100_000,
}


class Settings:
    """Typed view of the ``RATELIMIT_RULES_*`` settings."""

    ENABLED: bool
    CACHE_ALIAS: str
    KEY_PREFIX: str
    FILE: str | None
    MIDDLEWARE_LIMITERS: Sequence[str]
    TRUSTED_PROXIES: Sequence[str]
    PROXY_HOPS: int | None
    CLIENT_IP_HEADER: str
    IPV6_PREFIX: int
    BYPASS_HEADER: str | None
    BYPASS_VALUE: str
    HEADERS: str
    BLOCKED_VIEW: str | None
    FAILURE_MODE: str
    REFRESH_SECONDS: float
    DECISIONS: bool
    LIVE: bool
    DENIAL_CACHE: int
    RECORD: float
    RECORD_MAX: int

    def __getattr__(self, name: str) -> Any:
        if name not in DEFAULTS:
            raise AttributeError(f"there is no setting {PREFIX}{name}")
        value = self.__dict__[name] = getattr(django_settings, PREFIX + name, DEFAULTS[name])
        return value

    def forget(self, name: str) -> None:
        """Forget the remembered value of a Django setting, because it changed."""
        self.__dict__.pop(name.removeprefix(PREFIX), None)

    @property
    def unknown(self) -> list[str]:
        """Names of the project's settings with our prefix that do not exist, without the prefix."""
        given = [name.removeprefix(PREFIX) for name in dir(django_settings) if name.startswith(PREFIX)]
        return [name for name in given if name not in DEFAULTS]

    @property
    def project_middleware(self) -> Sequence[str]:
        """The project's MIDDLEWARE: dotted paths, the outermost first."""
        return tuple(django_settings.MIDDLEWARE)

    @property
    def limiters_of_middleware(self) -> tuple[str, ...]:
        """The limiters of the middleware, in order.

        A string is one name. A system check reports it, but web servers run no checks. Its letters as names would limit
        no request.
        """
        names = self.MIDDLEWARE_LIMITERS or ()
        return tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else (names,)

    @property
    def number_of_proxies(self) -> int | None:
        """The number of proxies, None if it is not stated.

        A string of digits is converted, because projects read it from the environment. Unconverted, it would switch off
        all limits by address.
        """
        hops: Any = self.PROXY_HOPS
        return int(hops) if isinstance(hops, str) and hops.isdecimal() else hops

    @property
    def ipv6_bits(self) -> int:
        """The number of bits by which IPv6 addresses are counted, the default for an invalid number.

        A system check reports an invalid number, but web servers run no checks. The number would fail every request
        from an IPv6 address.
        """
        text = str(self.IPV6_PREFIX)
        usual: int = DEFAULTS["IPV6_PREFIX"]
        return int(text) if text.isdecimal() and int(text) in range(1, 129) else usual

    @staticmethod
    def of_others(name: str, default: object = None) -> Any:
        """Return a setting of another app, from which limits are migrated."""
        return getattr(django_settings, name, default)

    @property
    def max_form_fields(self) -> int | None:
        """The project's DATA_UPLOAD_MAX_NUMBER_FIELDS, None for no bound."""
        bound: int | None = django_settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
        return bound

    @property
    def max_form_bytes(self) -> int | None:
        """The project's DATA_UPLOAD_MAX_MEMORY_SIZE, None for no bound."""
        bound: int | None = django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        return bound

    @property
    def secret(self) -> bytes:
        """32 bytes derived from SECRET_KEY. They are the key of the digests that replace client-written values."""
        return hashlib.sha256(b"django_ratelimit_rules.counter_keys:" + django_settings.SECRET_KEY.encode()).digest()


settings = Settings()
