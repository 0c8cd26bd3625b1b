"""The admin's pages open during an outage of Redis, when operators need them, and wait only once or twice."""

from __future__ import annotations

import pytest
from django.urls import reverse

from django_ratelimit_rules.models import Rule, Ruleset

NAME = "admin:django_ratelimit_rules_ruleset"


@pytest.fixture
def rulesets(db) -> list[Ruleset]:
    made = [Ruleset.objects.create(name=f"ruleset_{number}") for number in range(15)]
    for ruleset in made:
        for number in range(4):
            Rule.objects.create(ruleset=ruleset, name=f"r{number}", limit=1, period=60)
    return made


# The number of time-outs that a page may wait for: one for each kind of data it shows. The refresher may add another.
WAITS = 6


def test_every_page_opens_and_waits_for_redis_a_few_times_at_most(admin_client, rulesets, proxy, use):
    use(proxy.port)
    pk = rulesets[0].pk
    pages = [
        reverse(f"{NAME}_changelist"),
        reverse(f"{NAME}_change", args=[pk]),
        reverse(f"{NAME}_live", args=["ruleset_0"]),
        reverse(f"{NAME}_explain") + "?limiter=ruleset_0&user=1",
        reverse(f"{NAME}_explain") + "?decision=abcdefgh",
        reverse(f"{NAME}_history", args=[pk]),
        reverse(f"{NAME}_switch", args=[pk, "dry_run"]),
        reverse("admin:index"),
    ]
    asked = [(admin_client.get, page, {}) for page in pages]
    asked.append((admin_client.post, reverse(f"{NAME}_switch", args=[pk, "dry_run"]), {"reason": "because"}))
    with proxy.broken(requests="never"):
        for method, page, data in asked:
            # Each time-out closes the connection, so the number of new connections is the number of waits.
            before = proxy.accepted
            assert method(page, data).status_code < 400
            assert proxy.accepted - before <= WAITS, page


def test_every_page_opens_while_nothing_listens(admin_client, rulesets, server, use):
    use(server.port)
    server.kill()
    for page in ("changelist", "add", "explain"):
        assert admin_client.get(reverse(f"{NAME}_{page}")).status_code == 200
    for page in ("change", "history"):
        assert admin_client.get(reverse(f"{NAME}_{page}", args=[rulesets[0].pk])).status_code == 200
    assert admin_client.get(reverse(f"{NAME}_live", args=["ruleset_0"])).status_code == 200
