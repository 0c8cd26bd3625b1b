"""Rate limits as rules: edited in the Django admin, decided in one Redis round trip.

The public names are imported lazily, so that ``import django_ratelimit_rules`` loads no model and needs no settings.
The rooms (packages with one task each):

- ``engine/`` plans and decides. ``counters/`` counts. ``identifiers/`` describes a request.
- ``rulesets/`` supplies the rules. ``limiter`` runs a check. ``http/`` puts a checkpoint before a view.
- ``monitoring/`` records decisions. ``replay/`` tests rules on recorded traffic.
- ``legacy/`` runs another limiter beside this app during a migration.
- ``admin/``, ``management/`` and ``checks/`` serve operators. ``contrib/`` serves other frameworks.
- ``runtime/`` has the services of one process. ``conf``, ``exceptions``, ``models`` and ``signals`` have their usual
  contents in a Django app.
- Projects import ``decorators``, ``middleware``, ``views``, ``testing``, ``logs``. Old paths: ``live``, ``versions``.
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
