"""The rules that the demo starts with. They go into the database; from then on the admin is the place to edit them.

Together they show each action: limits alone and side by side, a ``log`` rule that tries a lower threshold beside the
limit it may replace, a bypass that ``log`` counts before ``skip`` lets it through; a limiter on trial, a rule that has
expired and one that is switched off. What operators changed since is told by :mod:`.story`.
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
# When all this was written, as the history tells it.
INSTALLED = timedelta(days=12)

# Those who hold the bypass header, and the archive's crawlers by their network.
WELCOME = [{"bypass": True}, {"ip": {"cidr": "100.115.218.0/24"}}]

SITE: list[dict[str, Any]] = [
    {
        "name": "operators",
        "action": "skip",
        "match": {"path": {"prefix": ["/admin/", "/metrics", "/static/", "/favicon.ico"]}},
        "description": "Whatever the rules below say, they can be repaired in the admin.",
    },
    {
        "name": "welcome_seen",
        "action": "log",
        "match": WELCOME,
        "characteristics": ["ip"],
        "limit": 10,
        "period": HOUR,
        "description": "Counts what the next rule lets through; never blocks.",
    },
    {"name": "welcome", "action": "skip", "match": WELCOME, "description": "The bypass: no rule below sees them."},
    {
        "name": "crawler_limit",
        "action": "log",
        "match": {"header.user-agent": {"regex": "(?i)bot|crawler|spider|slurp"}},
        "characteristics": ["header.user-agent"],
        "limit": 50,
        "period": HOUR,
        "description": "One crawler is one client, however many addresses it uses.",
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
        "description": "Programs that do not say who they are.",
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
        "description": "Whom would a threshold of 50 hit? Read it here before it hurts anybody.",
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
        "reason": "The launch of the new docs: everybody searches.",
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

# Counted by outcome, once Django has said that a sign-in failed: to sign in costs nothing.
LOGIN: list[dict[str, Any]] = [
    {
        "name": "address_limit",
        "characteristics": ["ip"],
        "limit": 20,
        "period": HOUR,
        "response": {"login": "failed"},
        "description": "Wrong passwords from one address, for whatever accounts.",
    },
    {
        "name": "account_limit",
        "characteristics": ["ip", "post.username|strip|lower"],
        "limit": 5,
        "period": 10 * MINUTE,
        "response": {"login": "failed"},
        "description": "Guesses at one account. By address as well, or anybody could lock others out of theirs.",
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
    "feeds": ("The feeds of the blog. On trial: counted, and nobody is blocked.", FEEDS),
    "login": ("Sign-in: only failed attempts count.", LOGIN),
    "pipelines_create": ("The pipelines API: the organisation and the user must both have room.", PIPELINES),
    "status": ("An async view.", STATUS),
}
MODES = {"feeds": "dry_run"}


@transaction.atomic
def install() -> None:
    """Write the rules of each ruleset that is not there yet; what somebody edited stays."""
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
