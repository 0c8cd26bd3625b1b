"""Which limiters there are: those that the code of this process asks, and those that rules are defined for.

Nothing goes in but the project's settings, URLs and rules; names come out. A limiter without rules that only another
process asks (a worker, a management command) is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from django.urls import URLResolver, get_resolver

from .. import rulesets
from ..conf import settings

# The limiters that this process has made, so that the system check can name those without rules.
asked: set[str] = set()

# Returns the limiter that the class of a view function names, or None.
LimiterOf = Callable[[Any], str | None]
_by_framework: list[LimiterOf] = []


def named() -> set[str]:
    """Return the limiters that are named by code, views and settings; imports the views."""
    by_settings = {name for name in settings.limiters_of_middleware if isinstance(name, str)}
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


def name_views_by(limiter_of: LimiterOf) -> None:
    """Find limiters of views by this function as well: for frameworks whose classes name a limiter."""
    if limiter_of not in _by_framework:
        _by_framework.append(limiter_of)
        _named_in.cache_clear()


def _named_by_views() -> frozenset[str]:
    """Import the views, so that their decorators name limiters; return those that classes name."""
    try:
        return _named_in(get_resolver())
    except Exception:  # noqa: BLE001 -- Django's own checks tell what is wrong with the URLs
        return frozenset()


# Django makes a new resolver whenever the URLconf changes. A project may have thousands of patterns, which every page
# of a ruleset would walk through.
@lru_cache(maxsize=1)
def _named_in(resolver: URLResolver) -> frozenset[str]:
    return frozenset(_named_by_patterns(resolver.url_patterns))


def _named_by_patterns(patterns: Iterable[Any]) -> Iterator[str]:
    for pattern in patterns:
        if hasattr(pattern, "url_patterns"):
            yield from _named_by_patterns(pattern.url_patterns)
        else:
            names = (limiter_of(pattern.callback) for limiter_of in _by_framework)
            yield from (name for name in names if name is not None)
