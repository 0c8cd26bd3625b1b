"""50 rulesets of 200 rules in use, and a request for each page of the admin: for the bound on queries, and for the
benchmark by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_ratelimit_rules import rulesets, rulestext, versions
from django_ratelimit_rules.counters.redis import current
from django_ratelimit_rules.models import Rule, Ruleset

RULESETS, RULES = 50, 200
MINUTES = 60


def make() -> None:
    """Write the rows, and two versions of each ruleset."""
    Ruleset.objects.bulk_create(Ruleset(name=f"limiter_{n:02}", description="Long.") for n in range(RULESETS))
    Rule.objects.bulk_create(
        Rule(ruleset=ruleset, position=10 * n, **_rule(n)) for ruleset in Ruleset.objects.all() for n in range(RULES)
    )
    names = list(Ruleset.objects.values_list("name", flat=True))
    with versions.changing(names, versions.Author("ann", "made")):
        Rule.objects.filter(position=50).update(limit=7)
    rulesets.forget()


def use() -> None:
    """Let every rule of a ruleset have met calls in every minute of the last hour."""
    now = int(time.time()) // 60
    fields = {f"r{n:03}:{kind}": 100 + n for n in range(RULES) for kind in ("calls", "exceeded", "blocked")}
    current().add({f"live:limiter_07:{now - ago}": fields | {"*:calls": 999} for ago in range(MINUTES)}, 7200)


def _rule(number: int) -> dict[str, Any]:
    said: dict[str, Any] = {"name": f"r{number:03}", "match": {"path": {"prefix": f"/p{number}/"}, "method": "POST"}}
    if number % 10 == 9:
        return {**said, "action": "skip"}
    return {
        **said,
        "action": "log" if number % 10 == 8 else "limit",
        "characteristics": ["ip", "user"][number % 2 :],
        "limit": number + 1,
        "period": 60,
        "owner": "ann",
    }


def operator() -> Client:
    """Sign in somebody who may do everything."""
    client = Client()
    client.force_login(User.objects.create_superuser("operator", password="x"))
    return client


def pages(client: Client) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield each page's name, and a function that asks for it and returns the answer."""
    name = "admin:django_ratelimit_rules_ruleset"
    ruleset = Ruleset.objects.get(name="limiter_07")
    rule = ruleset.rules.get(name="r008")

    def get(page: str, *arguments: object, query: str = "") -> Callable[[], Any]:
        return partial(client.get, reverse(f"{name}_{page}", args=arguments) + query)

    yield "list", get("changelist")
    yield "list, searched", get("changelist", query="?q=r007")
    yield "ruleset", get("change", ruleset.pk)
    yield "ruleset, a rule opened", get("change", ruleset.pk, query="?open=r150")
    yield "ruleset, saved", partial(_saved, client, ruleset)
    yield "ruleset, refused", partial(_saved, client, ruleset, wrong=True)
    yield "new ruleset", get("add")
    yield "history", get("history", ruleset.pk)
    yield "restore", get("restore", ruleset.pk, 1)
    yield "switch", get("switch", ruleset.pk, "off")
    yield "promote", get("turn", ruleset.pk, rule.pk, "promote")
    yield "delete", get("delete", ruleset.pk)
    yield "live", get("live", "limiter_07")
    yield "explain", get("explain", query="?limiter=limiter_07")
    asked = {"limiter": "limiter_07", "method": "POST", "ip": "203.0.113.7", "path": "/p3/"}
    yield "explain, answered", partial(client.post, reverse(f"{name}_explain"), asked)
    yield "export", get("export", ruleset.pk)
    yield "export, all", get("export_all")
    yield "import", get("import")
    text = rulestext.dump(rulestext.stored([ruleset.name])).replace("limit: 7\n", "limit: 8\n")
    yield "import, shown", partial(client.post, reverse(f"{name}_import"), {"text": text})


def _saved(client: Client, ruleset: Ruleset, *, wrong: bool = False) -> Any:
    """Post the page as a browser does, with one position changed."""
    data: dict[str, Any] = {"name": ruleset.name, "mode": "", "failure_mode": "", "description": "Long."}
    rows = list(ruleset.rules.order_by("position", "pk"))
    data |= {"rules-TOTAL_FORMS": len(rows), "rules-INITIAL_FORMS": len(rows), "rules-MIN_NUM_FORMS": 0}
    for number, row in enumerate(rows):
        data |= {
            f"rules-{number}-id": row.pk,
            f"rules-{number}-position": row.position,
            f"rules-{number}-enabled": "on",
        }
    data["rules-3-position"] = "first" if wrong else rows[3].position ^ 1
    return client.post(reverse("admin:django_ratelimit_rules_ruleset_change", args=[ruleset.pk]), data)
