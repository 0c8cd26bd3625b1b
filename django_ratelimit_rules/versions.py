"""The old path of ``rulesets.history``."""

import warnings

from .rulesets.history import ELSEWHERE, FIRST, Author, apply, begin, changing, finish, plain, restore
from .rulesets.history import Change as Begun

__all__ = ["ELSEWHERE", "FIRST", "Author", "Begun", "apply", "begin", "changing", "finish", "plain", "restore"]

warnings.warn(
    "django_ratelimit_rules.versions is deprecated and will be removed in 1.2."
    " Import from django_ratelimit_rules.rulesets.history instead.",
    DeprecationWarning,
    stacklevel=2,
)
