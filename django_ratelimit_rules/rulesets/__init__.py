"""The sources of rules, and the rules that are in force now.

- The three tiers are ``file``, ``rows`` (the admin's rules) and code. ``tiers`` joins them into effective rulesets.
- ``snapshot`` holds the rules in force in this process, and ``refresh`` keeps them up to date.
- ``text``, ``yaml_writer``, ``diff`` and ``history`` write rulesets, compare them and keep their versions.
- ``findings`` lints rulesets, and ``limiter_names`` lists the limiters of code and rules.

Nothing here counts, or reads requests. This module re-exports the functions that other rooms call.
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
