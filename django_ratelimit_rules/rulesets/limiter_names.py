"""Which limiters there are: those that the code of this process asks, and those that rules are defined for.

Nothing goes in but the project's settings, URLs and rules; names come out. A limiter without rules that only another
process asks (a worker, a management command) is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.urls import get_resolver

from .. import rulesets
from ..conf import settings

# The limiters that this process has made, so that the system check can name those without rules.
asked: set[str] = set()


def named() -> set[str]:
    """Return the limiters that are named by code, views and settings; imports the views."""
    by_settings = {name for name in settings.middleware_limiters if isinstance(name, str)}
    # Views first: importing them makes their decorators name limiters.
    return set(_named_by_views()) | asked | by_settings


def limiters() -> set[str]:
    """Return the limiters that code asks, and those that some tier has rules or a mode for."""
    return named() | rulesets.limiters()


def chosen(names: Iterable[str] = ()) -> list[str]:
    """Return these limiters, or all, in alphabetical order. Raises LookupError for a name that is no limiter's."""
    known, wanted = limiters(), set(names)
    for name in sorted(wanted - known):
        raise LookupError(f"There is no limiter {name!r}; there are {', '.join(sorted(known)) or 'none'}.")
    return sorted(wanted or known)


def _named_by_views() -> Iterator[str]:
    """Import the views, so that their decorators name limiters; yield those that classes name for their throttle."""
    try:
        yield from _throttle_limiters(get_resolver().url_patterns)
    except Exception:  # noqa: BLE001 -- Django's own checks tell what is wrong with the URLs
        return


def _throttle_limiters(patterns: Iterable[Any]) -> Iterator[str]:
    for pattern in patterns:
        if hasattr(pattern, "url_patterns"):
            yield from _throttle_limiters(pattern.url_patterns)
            continue
        # As contrib.rest_framework reads it; REST framework leaves class and arguments on the view function.
        of_action = getattr(pattern.callback, "initkwargs", {}).get("throttle_limiter")
        name = of_action or getattr(getattr(pattern.callback, "cls", None), "throttle_limiter", None)
        if isinstance(name, str):
            yield name
