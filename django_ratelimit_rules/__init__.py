"""Rate limits as rules: edited in the Django admin, decided in one Redis round trip.

The public names are imported lazily, so that ``import django_ratelimit_rules`` loads no model and needs no settings.

Where things are, from the pure to the visible (import-linter holds the order; each module's first lines say more):

- pure: ``engine/`` plans and decides; ``exceptions``.
- stores: ``counters/`` count, in Redis, in a cluster, in memory; the only I/O of a request.
- rules: ``models`` (the admin's rows, read by ``rulesrows``), ``rulesfile`` and code are ``tiers``, which ``rulesets``
  joins and ``refresher`` keeps fresh; ``rulestext``, ``yamltext``, ``rulesdiff``, ``versions`` write and compare them.
- a request: ``registry`` (names of properties), ``facts``, ``bodies``, ``clientip`` (values), ``identifiers``; then
  ``calls`` and ``limiter``, where a check reads from top to bottom; ``responses``, ``headers``, ``outcomes``; and who
  asks: ``decorators`` with ``questions``, ``middleware``, ``contrib/``.
- what is told of it: ``signals``; ``metrics``, ``logs``, ``live``, ``clients``, ``decisions``, ``recording``.
- the operator: ``admin/``, ``checks``, ``findings`` (the linter), ``replay/``, ``monitoring/``, ``management/``.
- beside a legacy limiter: ``legacy``, ``comparing``, ``divergence``, ``drafts``.
- clients and tests: ``publiclimits``, ``mylimits``, ``views``; ``testing``.
- small: ``conf`` with ``setting_faults``; ``clock``, ``sometimes``, ``inflight``, ``checkpoints``, ``formsize``,
  ``memo``, ``threads``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"

__all__ = ["Limiter", "RateLimited", "Rule", "rate_limited"]

if TYPE_CHECKING:
    from .decorators import rate_limited
    from .engine import Rule
    from .limiter import Limiter, RateLimited

_HOMES = {"Limiter": ".limiter", "RateLimited": ".limiter", "Rule": ".engine", "rate_limited": ".decorators"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
