"""The old path of ``rulesets.history``."""

import warnings

from .rulesets.history import *  # noqa: F403

warnings.warn(
    "django_ratelimit_rules.versions has moved: import from django_ratelimit_rules.rulesets.history. This path goes in"
    " 1.2.",
    DeprecationWarning,
    stacklevel=2,
)
