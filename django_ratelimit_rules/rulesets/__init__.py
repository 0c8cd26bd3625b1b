"""Where rules come from, and what is in force now.

- ``file``, ``rows`` (the admin's) and code are three tiers; ``tiers`` joins them into effective rulesets.
- ``snapshot`` holds what is in force in this process; ``refresh`` keeps it fresh.
- ``text``, ``yaml_writer``, ``diff`` and ``history`` write rulesets, compare them and keep their versions.
- ``findings`` lints them; ``limiter_names`` lists the limiters of code and rules.

Nothing here counts, or looks at requests. This page re-exports what other rooms call.
"""

from .snapshot import (
    aget,
    are_loaded,
    define,
    effective,
    expire,
    file_changed,
    follow,
    forget,
    get,
    in_force,
    isolated_code,
    limiters,
    loaded,
    needs_no_load,
    override,
    rejoin,
    reload,
    reload_file,
    restore,
    stated,
)

__all__ = [
    "aget",
    "are_loaded",
    "define",
    "effective",
    "expire",
    "file_changed",
    "follow",
    "forget",
    "get",
    "in_force",
    "isolated_code",
    "limiters",
    "loaded",
    "needs_no_load",
    "override",
    "rejoin",
    "reload",
    "reload_file",
    "restore",
    "stated",
]
