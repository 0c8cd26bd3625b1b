"""Converts the rates of REST framework's throttles in a project into draft rules.

Finds every view by the project's URLs. Its throttle classes come from the view, an action, or the default setting, and
the rates from the classes or scopes. A throttle that computes its own key, or decides itself, cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from rest_framework.settings import api_settings
from rest_framework.throttling import (
    AnonRateThrottle,
    BaseThrottle,
    ScopedRateThrottle,
    SimpleRateThrottle,
    UserRateThrottle,
)
from rest_framework.views import APIView

from ..identifiers.builtin import dotted_path
from ..legacy.drafts import (
    Draft,
    DraftRule,
    name_of,
    views,
)
from .rest_framework import RuleThrottle

HEADING = [
    "Drafts of rules, from the throttles of Django REST framework. All are in a dry run, so they block no call.",
    "One limiter for each scope, because views of one scope share their counters. What differs for all of them: REST"
    " framework remembers the time of each call, so that no period ever sees more than the limit; a sliding window"
    " estimates that from two numbers. IPv6 addresses count by network, there each for itself. Retry-After is the time"
    " until a call may pass. When the store fails, the project's failure mode answers, there an error 500.",
]
KEYS = {
    AnonRateThrottle.get_cache_key: ("ip", {"is_authenticated": False}),
    UserRateThrottle.get_cache_key: ("user", {}),
    ScopedRateThrottle.get_cache_key: ("user", {}),
}
DECISIONS = (SimpleRateThrottle.allow_request, ScopedRateThrottle.allow_request)


class Use(NamedTuple):
    """One throttle of a view, under a scope, which only ScopedRateThrottle takes from the view."""

    throttle: type[Any]
    scope: str | None


def drafts() -> list[Draft]:
    """Return a draft for each scope that a view uses."""
    by_use: dict[Use, list[str]] = {}
    own: list[str] = []
    for route, callback in views():
        view = getattr(callback, "cls", None)
        if isinstance(view, type) and issubclass(view, APIView):
            where = f"{dotted_path(view)} ({route})"
            if _chooses(view):
                own.append(where)
            for use in _uses(view, getattr(callback, "initkwargs", {})):
                by_use.setdefault(use, []).append(where)
    named: dict[str, Draft] = {}
    for use, places in by_use.items():
        limiter = name_of(use.scope or use.throttle.__name__, named)
        named[limiter] = _draft(limiter, use, list(dict.fromkeys(places)))
    used = {use.scope for use in by_use}
    unused = (
        (scope, rate) for scope, rate in api_settings.DEFAULT_THROTTLE_RATES.items() if scope not in used and rate
    )
    for scope, rate in unused:
        limiter = name_of(scope, named)
        named[limiter] = Draft(limiter, [f"{scope}: {rate} in DEFAULT_THROTTLE_RATES, but no view here uses it."])
    if own:
        limiter = name_of("own_throttles", named)
        named[limiter] = Draft(limiter, ["These choose their throttles in get_throttles(): read it. " + ", ".join(own)])
    return list(named.values())


def _chooses(view: Any) -> bool:
    """Return whether a view chooses its throttles in code."""
    return view.get_throttles is not APIView.get_throttles


def _uses(view: type[APIView], given: dict[str, Any]) -> Iterator[Use]:
    for throttle in _throttles(view, given):
        scope = getattr(throttle, "scope", None)
        if issubclass(throttle, ScopedRateThrottle):
            scope = given.get(throttle.scope_attr) or getattr(view, throttle.scope_attr, None)
            if scope is None:
                # Such a throttle allows all calls of this view.
                continue
        yield Use(throttle, scope)


def _throttles(view: type[APIView], given: dict[str, Any]) -> Iterator[type[Any]]:
    """Yield the throttle classes. For a view that moves over already, yield its legacy throttles."""
    for throttle in given.get("throttle_classes", view.throttle_classes):
        if not isinstance(throttle, type) or not issubclass(throttle, RuleThrottle):
            yield throttle
        else:
            yield from throttle.legacy or getattr(view, "throttle_legacy", ())


def _draft(limiter: str, use: Use, where: list[str]) -> Draft:
    old = getattr(use.throttle, "__name__", repr(use.throttle))
    code = f"In code: throttle_classes = [rule_throttle({limiter!r}, legacy=[{old}])]"
    return Draft(limiter, [f"{old}: {', '.join(where)}", code], [_rule(use)])


def _rule(use: Use) -> DraftRule:
    throttle = use.throttle
    fields: dict[str, Any] = {"name": "rate", "algorithm": "sliding_window"}
    differs = list(_about_addresses())
    if not isinstance(throttle, type) or not issubclass(throttle, SimpleRateThrottle):
        return DraftRule(fields, differs, f"{_named(throttle)} is a throttle of the project's own: read it.")
    limit, period, obstacle = _rate(throttle, use.scope)
    if obstacle:
        return DraftRule(fields, differs, obstacle)
    fields |= {"limit": limit, "period": period}
    if throttle.get_cache_key not in KEYS or throttle.allow_request not in DECISIONS:
        words = f"{_named(throttle)} says in code of its own whom it counts, or how: make that a property."
        return DraftRule(fields, differs, words)
    by, match = KEYS[throttle.get_cache_key]
    return DraftRule({**fields, "characteristics": [by], **({"match": match} if match else {})}, differs)


def _rate(throttle: type[Any], scope: str | None) -> tuple[int | None, int | None, str]:
    """Return limit, period and an empty string. A throttle without a limit has the reason as the third value."""
    made: Any = object.__new__(throttle)
    made.scope = scope
    try:
        rate = getattr(throttle, "rate", None) or made.get_rate()
        limit, period = made.parse_rate(rate)
    except (ImproperlyConfigured, ValueError, KeyError, TypeError) as error:
        return None, None, f"{_named(throttle)} has no rate that can be read: {error}"
    return limit, period, "" if rate is not None else f"the rate of {scope or _named(throttle)} is None: no limit."


def _about_addresses() -> Iterator[str]:
    if api_settings.NUM_PROXIES is None:
        yield (
            "Anonymous clients counted by the whole X-Forwarded-For, which they write themselves; now by the peer's"
            " address until TRUSTED_PROXIES or PROXY_HOPS is set."
        )
    else:
        yield f"For anonymous clients set PROXY_HOPS = {api_settings.NUM_PROXIES}, as NUM_PROXIES says."


def _named(throttle: type[BaseThrottle]) -> str:
    return dotted_path(throttle)
