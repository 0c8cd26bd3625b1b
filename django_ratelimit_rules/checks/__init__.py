"""System checks: what ``manage.py check`` reports about the use of this app.

- ``settings`` checks the settings, ``site`` checks the project, and ``redis`` queries Redis.
- ``form_size`` calculates how many rules a page of the admin can hold.

Each message has an id, a description of the problem and a remedy. Nothing here runs on a request.
"""

from __future__ import annotations

from django.core.checks import Tags, register

from . import redis, settings, site

TAG = "ratelimit_rules"


def connect() -> None:
    """Register the checks. The app config calls this once."""
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
