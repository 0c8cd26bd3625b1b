"""System checks: what ``manage.py check`` has to say about the use of this app.

The project's settings go in, what Redis says of itself, and with ``--database`` the project's rules; messages come out,
each with an id, what was found, and how to put it right. Nothing here runs on a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.core.cache import caches
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, router, transaction
from django.db.models import Count
from django.utils.module_loading import import_string

from . import formsize, rulesets
from .conf import DEFAULTS, PREFIX, settings
from .counters.aliases import current
from .counters.transport.blocking import TIMEOUT
from .engine.properties import base_of
from .exceptions import CountersUnavailable
from .rulesets import limiter_names
from .setting_faults import FAULTS

TAG = "ratelimit_rules"
DJANGO_REDIS = "django_redis.cache.RedisCache"
OUR_MIDDLEWARE = "django_ratelimit_rules.middleware.RateLimitMiddleware"
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"
# Properties that AuthenticationMiddleware tells.
OF_USER = frozenset(("user", "is_authenticated", "is_staff"))
TIME_OUTS = ("SOCKET_CONNECT_TIMEOUT", "SOCKET_TIMEOUT")

Messages = list[CheckMessage]


def connect() -> None:
    """Register the checks; called once by the app config."""
    for check in (
        check_setting_names,
        check_setting_values,
        check_cache_alias,
        check_time_outs,
        check_middleware_order,
        check_eviction_policy,
        check_limiters_have_rules,
    ):
        register(check, TAG)
    register(check_page_can_be_sent, TAG, Tags.database)


def check_setting_names(**_: object) -> Messages:
    """Name settings that do nothing, because none of ours is called so."""
    return [
        CheckWarning(
            f"There is no setting {PREFIX}{name}.",
            hint=f"Did you mean {PREFIX}{near[0]}?" if near else f"There are {', '.join(DEFAULTS)}.",
            id="ratelimit_rules.W001",
        )
        for name in settings.unknown
        for near in [get_close_matches(name, DEFAULTS, n=1)]
    ]


def check_setting_values(**_: object) -> Messages:
    """Name settings whose value cannot be used."""
    found = ((number, name, fault_of(getattr(settings, name)), hint) for number, name, fault_of, hint in FAULTS)
    return [
        Error(f"{PREFIX}{name} {fault}.", hint=hint, id=f"ratelimit_rules.{number}")
        for number, name, fault, hint in found
        if fault
    ]


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


def check_middleware_order(databases: Sequence[str] | None = None, **_: object) -> Messages:
    """Say that the middleware stands outside of the one that tells who is asking; with the database asked, only when
    rules want to know that."""
    order = list(settings.project_middleware)
    if OUR_MIDDLEWARE not in order or AUTHENTICATION not in order[order.index(OUR_MIDDLEWARE) :]:
        return []
    subject = "rules by user treat"
    if _rules_are_in(databases or ()):
        wanting = [
            f"{rule.name!r} of limiter {limiter!r}"
            for limiter in settings.middleware_limiters
            for rule in rulesets.get(limiter).rules
            if not OF_USER.isdisjoint(map(base_of, rule.properties))
        ]
        if not wanting:
            return []
        more = f" and {len(wanting) - 3} more" if len(wanting) > 3 else ""
        subject = f"the rule {wanting[0]} treats" if len(wanting) == 1 else f"{', '.join(wanting[:3])}{more} treat"
    return [
        CheckWarning(
            f"RateLimitMiddleware is listed before AuthenticationMiddleware: {subject} every request as anonymous.",
            hint="List it after AuthenticationMiddleware, which tells rules by user who is asking.",
            id="ratelimit_rules.W003",
        )
    ]


def check_limiters_have_rules(databases: Sequence[str] | None = None, **_: object) -> Messages:
    """Name limiters that code asks and nobody defined rules for. Asks the database, unless this process has loaded
    the rules already."""
    if not (rulesets.are_loaded() or _rules_are_in(databases or ())):
        return []
    asked = limiter_names.named()
    known = rulesets.limiters()
    return [
        CheckWarning(
            f"Nobody defined rules for the limiter {name!r}: it lets everything pass.",
            hint="Add a ruleset of this name in the admin, in the rules file or in code, or correct the name.",
            id="ratelimit_rules.W004",
        )
        for name in sorted(asked)
        if name not in known
    ]


def check_eviction_policy(**_: object) -> Messages:
    """Say that Redis may drop counters when its memory is full. Asks Redis, for a second at most."""
    configured = _cache_settings()
    if configured is None or not _is_django_redis(configured.get("BACKEND", "")):
        return []
    try:
        memory = current().memory()
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


def check_page_can_be_sent(databases: Sequence[str] | None = None, **_: object) -> Messages:
    """Name rulesets whose page in the admin has more fields than Django takes. Asks the database."""
    most = formsize.most_rules()
    if most is None or not _rules_are_in(databases or ()):
        return []
    from .models import Ruleset

    long = Ruleset.objects.annotate(number=Count("rules")).filter(number__gt=most)
    return [
        CheckWarning(
            f"The ruleset {name!r} has {number} rules: its page in the admin has more fields than"
            f" DATA_UPLOAD_MAX_NUMBER_FIELDS ({settings.max_form_fields}) lets through, and cannot be saved.",
            hint=f"Set DATA_UPLOAD_MAX_NUMBER_FIELDS to {formsize.fields_of(number)} or more, or change these"
            " rules by ratelimit_apply.",
            id="ratelimit_rules.W006",
        )
        for name, number in long.values_list("name", "number")
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


def _rules_are_in(databases: Sequence[str]) -> bool:
    """Whether these databases hold our tables; before the first ``migrate`` they do not."""
    from .models import Rule, Ruleset

    database = router.db_for_write(Ruleset)
    if database not in databases:
        return False
    try:
        with transaction.atomic(using=database):
            Ruleset.objects.using(database).first()
            Rule.objects.using(database).first()
    except DatabaseError:
        return False
    return True
