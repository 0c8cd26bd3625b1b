"""The rules that the demo starts with. They are written to the database, and edited in the admin from then on.

Together they show each action:

- limits, alone and together
- a ``log`` rule that tries a lower threshold before it replaces a limit
- a bypass that ``log`` counts before ``skip`` allows it
- a limiter in dry run
- an expired rule and a disabled rule

:mod:`.story` makes the later changes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from django_ratelimit_rules.rulesets import history

from .people import ADMIN

MINUTE, HOUR = 60, 3600
# The age of the first version in the history.
INSTALLED = timedelta(days=12)

# Clients with the bypass header, and the archive's crawlers by their network.
WELCOME = [{"bypass": True}, {"ip": {"cidr": "100.115.218.0/24"}}]

SITE: list[dict[str, Any]] = [
    {
        "name": "operators",
        "action": "skip",
        "match": {"path": {"prefix": ["/admin/", "/metrics", "/static/", "/favicon.ico"]}},
        "description": "Keeps the admin reachable, so that a bad rule below can be repaired there.",
    },
    {
        "name": "welcome_seen",
        "action": "log",
        "match": WELCOME,
        "characteristics": ["ip"],
        "limit": 10,
        "period": HOUR,
        "description": "Counts the requests that the next rule skips. Never blocks.",
    },
    {"name": "welcome", "action": "skip", "match": WELCOME, "description": "Bypasses all rules below."},
    {
        "name": "crawler_limit",
        "action": "log",
        "match": {"header.user-agent": {"regex": "(?i)bot|crawler|spider|slurp"}},
        "characteristics": ["header.user-agent"],
        "limit": 50,
        "period": HOUR,
        "description": "Counts a crawler as one client, even if it uses many addresses.",
        "owner": "web@example.org",
        "ticket": "INC-41",
    },
    {
        "name": "nameless_limit",
        "match": {"header.user-agent": None},
        "characteristics": ["ip"],
        "limit": 20,
        "period": HOUR,
        "ban_for": 15 * MINUTE,
        "description": "Programs that send no user agent.",
    },
    {
        "name": "download_limit",
        "match": {"path": {"prefix": "/files/"}},
        "characteristics": ["ip"],
        "algorithm": "token_bucket",
        "limit": 15,
        "period": HOUR,
    },
    {
        "name": "image_limit",
        "match": {"path": {"glob": "/images/**"}},
        "characteristics": ["ip"],
        "limit": 200,
        "period": HOUR,
        "enabled": False,
        "description": "Switched off: the images moved to another host.",
    },
    {
        "name": "client_shadow",
        "action": "log",
        "characteristics": ["ip"],
        "limit": 50,
        "period": MINUTE,
        "description": "Shows which clients a limit of 50 would block, before it is enforced.",
    },
    {"name": "client_limit", "characteristics": ["ip"], "limit": 60, "period": MINUTE, "owner": "web@example.org"},
]

SEARCH: list[dict[str, Any]] = [
    {
        "name": "launch_day",
        "characteristics": ["ip"],
        "limit": 200,
        "period": MINUTE,
        "expires_at": timezone.now() - timedelta(days=3),
        "owner": "docs@example.org",
        "reason": "The launch of the new docs: visitors search more than usual.",
        "ticket": "OPS-98",
    },
    {"name": "minute_limit", "characteristics": ["ip"], "limit": 20, "period": MINUTE},
    {"name": "hour_limit", "characteristics": ["ip"], "limit": 100, "period": HOUR},
]

FEEDS: list[dict[str, Any]] = [
    {
        "name": "reader_limit",
        "match": {"query.flav": {"prefix": ["rss", "atom"]}},
        "characteristics": ["ip"],
        "algorithm": "sliding_window",
        "limit": 12,
        "period": HOUR,
        "description": "A feed reader may come every five minutes.",
    },
]

# Charged after the response, if Django reports a failed sign-in. A successful sign-in costs nothing.
LOGIN: list[dict[str, Any]] = [
    {
        "name": "address_limit",
        "characteristics": ["ip"],
        "limit": 20,
        "period": HOUR,
        "response": {"login": "failed"},
        "description": "Wrong passwords from one address, for any accounts.",
    },
    {
        "name": "account_limit",
        "characteristics": ["ip", "post.username|strip|lower"],
        "limit": 5,
        "period": 10 * MINUTE,
        "response": {"login": "failed"},
        "description": "Guesses at one account. Counts by address too, so that an attacker cannot lock the owner out.",
    },
]

PIPELINES: list[dict[str, Any]] = [
    {"name": "org_pipeline_limit", "characteristics": ["namespace"], "limit": 100, "period": MINUTE},
    {"name": "user_pipeline_limit", "characteristics": ["user"], "limit": 10, "period": MINUTE},
]

STATUS: list[dict[str, Any]] = [{"name": "status_limit", "characteristics": ["ip"], "limit": 30, "period": MINUTE}]

RULESETS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "site": ("Every request, through the middleware.", SITE),
    "search": ("The public search, and the tags of the blog.", SEARCH),
    "feeds": ("The feeds of the blog. In dry run: requests are counted, but never blocked.", FEEDS),
    "login": ("Sign-in: only failed attempts count.", LOGIN),
    "pipelines_create": ("The pipelines API: a request must pass the organisation's limit and the user's.", PIPELINES),
    "status": ("An async view.", STATUS),
}
MODES = {"feeds": "dry_run"}


@transaction.atomic
def install() -> None:
    """Write the rules of each missing ruleset. Existing rulesets stay as they were edited."""
    present = set(Ruleset.objects.values_list("name", flat=True))
    new = [name for name in RULESETS if name not in present]
    with history.changing(new, history.Author(ADMIN, "imported rulesets.yaml", "The limits of the first release.")):
        for name in new:
            description, rules = RULESETS[name]
            ruleset = Ruleset.objects.create(name=name, description=description, mode=MODES.get(name, ""))
            for position, fields in enumerate(rules):
                rule = Rule(ruleset=ruleset, position=position, **fields)
                rule.full_clean()
                rule.save()
    RulesetVersion.objects.filter(ruleset__in=new).update(created_at=timezone.now() - INSTALLED)
