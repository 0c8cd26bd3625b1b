"""The old path of the last hour's numbers and of the fullest counters."""

import warnings

from .monitoring.fullest_counters import heaviest
from .monitoring.last_hour import of_limiter as last_hour

__all__ = ["heaviest", "last_hour"]

warnings.warn(
    "django_ratelimit_rules.live is deprecated and will be removed in 1.2."
    " Import of_limiter from django_ratelimit_rules.monitoring.last_hour,"
    " and heaviest from django_ratelimit_rules.monitoring.fullest_counters instead.",
    DeprecationWarning,
    stacklevel=2,
)
