"""System checks: what ``manage.py check`` reports about the use of this app.

- ``settings`` reads the settings, ``site`` the project, ``redis`` asks Redis.
- ``form_size`` says how many rules a page of the admin can hold.

Messages come out, each with an id, what was found, and how to put it right. Nothing here runs on a request.
"""

from __future__ import annotations

from django.core.checks import Tags, register

from . import redis, settings, site

TAG = "ratelimit_rules"


def connect() -> None:
    """Register the checks; called once by the app config."""
    for check in (
        settings.check_setting_names,
        settings.check_setting_values,
        redis.check_cache_alias,
        redis.check_time_outs,
        site.check_middleware_order,
        redis.check_eviction_policy,
        site.check_limiters_have_rules,
    ):
        register(check, TAG)
    for check in (
        site.check_middleware_order_by_rules,
        site.check_limiters_have_saved_rules,
        site.check_page_can_be_sent,
    ):
        register(check, TAG, Tags.database)
