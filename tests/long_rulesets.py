"""50 used rulesets of 200 rules, and a request for each page of the admin.

The test of the number of queries and the manual benchmark use them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import reverse

from django_ratelimit_rules import rulesets
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.models import Rule, Ruleset
from django_ratelimit_rules.rulesets import history
from django_ratelimit_rules.rulesets import text as ruleset_text

Ask = Callable[[], Any]

RULESETS, RULES = 50, 200
MINUTES = 60


@transaction.atomic
def make() -> None:
    """Create the rows, and two versions of one ruleset."""
    Ruleset.objects.bulk_create(Ruleset(name=f"limiter_{n:02}", description="Long.") for n in range(RULESETS))
    Rule.objects.bulk_create(
        Rule(ruleset=ruleset, position=10 * n, **_rule(n)) for ruleset in Ruleset.objects.all() for n in range(RULES)
    )
    with history.changing(["limiter_07"], history.Author("ann", "made")):
        Rule.objects.filter(position=50).update(limit=7)
    rulesets.forget()


def use() -> None:
    """Record calls of each rule of a ruleset for each minute of the last hour."""
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
    """Sign in a superuser."""
    client = Client()
    client.force_login(User.objects.create_superuser("operator", password="x"))
    return client


def pages(client: Client) -> Iterator[tuple[str, Callable[[], Ask]]]:
    """Yield each page's name, and a function that prepares another request for it and returns the request."""
    name = "admin:django_ratelimit_rules_ruleset"
    ruleset = Ruleset.objects.get(name="limiter_07")
    rule = ruleset.rules.get(name="r008")

    def at(page: str, *arguments: object, query: str = "") -> str:
        return reverse(f"{name}_{page}", args=arguments) + query

    addresses = {
        "list": at("changelist"),
        "list, searched": at("changelist", query="?q=r007"),
        "list, filtered": at("changelist", query="?rules__action__exact=log&o=3"),
        "ruleset": at("change", ruleset.pk),
        "ruleset, a rule opened": at("change", ruleset.pk, query="?open=r150"),
        "new ruleset": at("add"),
        "history": at("history", ruleset.pk),
        "restore": at("restore", ruleset.pk, 1),
        "switch": at("switch", ruleset.pk, "off"),
        "promote": at("turn", ruleset.pk, rule.pk, "promote"),
        "delete": at("delete", ruleset.pk),
        "live": at("live", ruleset.name),
        "explain": at("explain", query=f"?limiter={ruleset.name}"),
        "export": at("export", ruleset.pk),
        "export, all": at("export_all"),
        "import": at("import"),
    }
    yield from ((page, partial(partial, client.get, address)) for page, address in addresses.items())
    asked = {"limiter": ruleset.name, "method": "POST", "ip": "203.0.113.7", "path": "/p3/"}
    yield "explain, answered", partial(partial, client.post, at("explain"), asked)
    yield "ruleset, saved", _saving(client, ruleset)
    yield "ruleset, saved, all moved", _saving(client, ruleset, moved=RULES)
    yield "ruleset, refused", _saving(client, ruleset, wrong=True)
    text = ruleset_text.dump(ruleset_text.stored([ruleset.name])).replace("limit: 7\n", "limit: 8\n")
    yield "import, shown", partial(partial, client.post, at("import"), {"text": text})
    yield "switch, confirmed", _confirming(client, *(at("switch", ruleset.pk, mode) for mode in ("off", "enforce")))
    turns = (at("turn", ruleset.pk, rule.pk, turn) for turn in ("promote", "demote"))
    yield "promote, confirmed", _confirming(client, *turns)


def _saving(client: Client, ruleset: Ruleset, *, moved: int = 1, wrong: bool = False) -> Callable[[], Ask]:
    """Post the page as a browser does, with some rules at a different position each time."""
    data: dict[str, Any] = {"name": ruleset.name, "mode": "", "failure_mode": "", "description": "Long."}
    keys = list(ruleset.rules.order_by("position", "pk").values_list("pk", flat=True))
    data |= {"rules-TOTAL_FORMS": len(keys), "rules-INITIAL_FORMS": len(keys), "rules-MIN_NUM_FORMS": 0}
    for number, key in enumerate(keys):
        data |= {f"rules-{number}-id": key, f"rules-{number}-position": 10 * number, f"rules-{number}-enabled": "on"}
    offsets = cycle((1, 2))
    url = reverse("admin:django_ratelimit_rules_ruleset_change", args=[ruleset.pk])

    def ready() -> Ask:
        offset = next(offsets)
        places = {f"rules-{number}-position": "first" if wrong else 10 * number + offset for number in range(moved)}
        # Encode the form as browsers do without files, because the default of Django's client is slow to parse.
        return partial(client.post, url, urlencode(data | places), content_type="application/x-www-form-urlencoded")

    return ready


def _confirming(client: Client, *urls: str) -> Callable[[], Ask]:
    """Open a confirmation and press its button. The next time, undo the change in the same way."""
    turns = cycle(urls)

    def ready() -> Ask:
        url = next(turns)
        shown = client.get(url).content.decode()
        seen = re.search(r'name="confirmed" value="(\w+)"', shown)
        assert seen, shown
        return partial(client.post, url, {"confirmed": seen[1], "reason": "because"})

    return ready
