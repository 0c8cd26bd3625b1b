"""Lists the limiters that the code of this process uses, and the limiters that have rules.

The project's settings, URLs and rules go in, and names come out. A limiter without rules is not known here if only
another process (a worker, a management command) uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from django.urls import URLResolver, get_resolver

from .. import rulesets
from ..conf import settings
from ..engine.messages import _

# The limiters that this process has made, so that the system check can report limiters without rules.
asked: set[str] = set()

# Returns the limiter that the class of a view function names. Returns None if it names no limiter.
LimiterOf = Callable[[Any], str | None]
_by_framework: list[LimiterOf] = []


def named() -> set[str]:
    """Return the limiters that are named by code, views and settings. Imports the views."""
    by_settings = {name for name in settings.limiters_of_middleware if isinstance(name, str)}
    # Views first: importing them makes their decorators name limiters.
    return set(_named_by_views()) | asked | by_settings


def limiters() -> set[str]:
    """Return the limiters that code uses, and the limiters that a tier has rules or a mode for."""
    return named() | rulesets.limiters()


def chosen(names: Iterable[str] = ()) -> list[str]:
    """Return these limiters, or all of them, in alphabetical order. Raises LookupError for an unknown name."""
    known, wanted = limiters(), set(names)
    for name in sorted(wanted - known):
        raise LookupError(no_such_limiter(name, sorted(known)))
    return sorted(wanted or known)


def no_such_limiter(name: str, known: Sequence[str]) -> str:
    """Return the message for a name that is not among the known limiters."""
    if not known:
        return _("There is no limiter %(name)r, because no limiters are defined.", name=name)
    return _("There is no limiter %(name)r. The limiters are %(names)s.", name=name, names=", ".join(known))


def name_views_by(limiter_of: LimiterOf) -> None:
    """Register a function that finds the limiters of views. Frameworks use it if their classes name a limiter."""
    if limiter_of not in _by_framework:
        _by_framework.append(limiter_of)
        _named_in.cache_clear()


def _named_by_views() -> frozenset[str]:
    """Import the views, so that their decorators name limiters. Return the limiters that classes name."""
    try:
        return _named_in(get_resolver())
    except Exception:  # noqa: BLE001 -- Django's own checks report errors in the URLs
        return frozenset()


# Django makes a new resolver whenever the URLconf changes. Without the cache every page of a ruleset would walk through
# all patterns of the project, which may be thousands.
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
