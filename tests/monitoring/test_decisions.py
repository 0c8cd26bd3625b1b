"""Refusals stored for the admin under an id. A flood stores little, and no client-written string is stored."""

from __future__ import annotations

import json
import logging

import pytest
from django.test import RequestFactory
from django.urls import reverse

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules.engine.keys import prefixes
from django_ratelimit_rules.identifiers import property_provider
from django_ratelimit_rules.models import Rule as RuleRow
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.monitoring import decisions, exceeding_clients, last_hour
from django_ratelimit_rules.testing import override_ruleset, reset_counters
from tests.servers import AWAY

COUNTING = {"characteristics": ["ip"], "limit": 0, "period": 60}
FULL = Rule("full", **COUNTING)


@pytest.fixture
def limiter():
    with override_ruleset("search", [FULL]):
        yield Limiter("search")


def test_a_refusal_has_an_id_under_which_it_is_explained_for_an_hour(limiter, redis_client):
    result = limiter.check({"ip": "203.0.113.7"})
    said = decisions.find(result.decision)
    assert (said["limiter"], said["action"], said["rule"]) == ("search", "block", "full")
    assert said["values"] == [["ip", "203.0.113.7"]]
    assert said["rules"][0]["counter"] == prefixes("search", [FULL])[0] + "203.0.113.7"
    [key] = redis_client.keys("*decision*")
    assert 3590 <= redis_client.ttl(key) <= 3600


async def test_an_asynchronous_check_keeps_its_refusal_too(limiter):
    result = await limiter.acheck({"ip": "203.0.113.7"})
    assert result.decision
    assert result.decision.isalnum()


def test_a_call_that_passes_or_is_only_peeked_at_keeps_nothing(limiter, redis_client):
    assert limiter.peek({"ip": "203.0.113.7"}).blocked
    with override_ruleset("search", [Rule("wide", **COUNTING | {"limit": 9})]):
        assert limiter.check({"ip": "203.0.113.7"}).decision is None
    assert redis_client.keys("*decision*") == []


def test_of_a_quiet_limiter_every_refusal_is_kept_and_of_a_flood_the_first_ones(limiter, redis_client):
    results = [limiter.check({"ip": f"203.0.113.{number}"}) for number in range(60)]
    kept = [result.decision for result in results if result.decision]
    assert all(result.decision for result in results[:20])
    assert len(kept) == len(redis_client.keys("*decision*")) <= 22


def test_after_a_reset_of_all_counters_the_next_refusal_is_kept_at_once(limiter):
    for _ in range(2):
        reset_counters("search")
        assert limiter.check({"ip": "203.0.113.7"}).decision


def test_a_long_flood_is_kept_more_and_more_seldom():
    kept = sum(decisions.paces.due("search", now / 10) for now in range(36_000))
    assert 400 <= kept <= 420


def test_switched_off_nothing_is_kept(limiter, redis_client, settings):
    settings.RATELIMIT_RULES_DECISIONS = False
    assert limiter.check({"ip": "203.0.113.7"}).decision is None
    assert redis_client.keys("*decision*") == []


def test_without_redis_there_is_no_id(settings, caplog):
    settings.CACHES = AWAY
    with override_ruleset("search", [FULL], failure_mode="closed"), caplog.at_level(logging.CRITICAL):
        result = Limiter("search").check({"ip": "203.0.113.7"})
    assert (result.blocked, result.decision) == (True, None)


def test_values_that_a_client_wrote_are_kept_as_digests(redis_client):
    rules = [
        Rule("other", match={"header.x-key": "k", "query.q|lower": "x"}, **COUNTING),
        Rule("full", **COUNTING | {"characteristics": ["header.x-key", "cookie.sid"]}),
    ]
    request = RequestFactory().get("/", {"q": "SECRET3"}, headers={"x-key": "SECRET1", "cookie": "sid=SECRET2"})
    with override_ruleset("search", rules):
        result = Limiter("search").check_request(request)
    [key] = redis_client.keys("*decision*")
    assert "secret" not in redis_client.get(key).decode().lower()
    said = decisions.find(result.decision)
    [miss] = said["rules"][0]["misses"]
    assert (miss["condition"], miss["text"][0]) == ("header.x-key is k", "#")


def test_storing_a_refusal_calls_no_provider_that_the_decision_did_not_call():
    asked = []
    property_provider("decision_test_costly")(lambda request: asked.append(1))
    # In a ruleset of this length, the index finds rules by path. Only their other conditions are evaluated.
    match = {"decision_test_costly": {"exists": True}, "path": "/never"}
    rules = [Rule(f"never_{number}", match=match, **COUNTING) for number in range(20)]
    with override_ruleset("search", [*rules, FULL]):
        result = Limiter("search").check_request(RequestFactory().get("/here"))
    first, *_, last = decisions.find(result.decision)["rules"]
    assert first["misses"] == [{"property": "path", "condition": "path is /never", "text": "/here"}]
    assert (last["name"], last["standing"], asked) == ("full", "blocked", [])


@pytest.mark.parametrize("decision", ["", "aaaaaaaa", "AAAAAAA1", "../x", "a" * 500, "é", "*"])
def test_an_unknown_id_finds_nothing(decision):
    assert decisions.find(decision) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    "pasted", ["{}", " {} ", "RateLimit-Decision: {}", "Reference: {}", '"decision": "{}",', "blocked decision={}"]
)
def test_an_id_is_found_with_its_surrounding_characters(admin_client, limiter, pasted):
    decision = limiter.check({"ip": "203.0.113.7"}).decision
    url = reverse("admin:django_ratelimit_rules_ruleset_explain")
    page = admin_client.get(url, {"decision": pasted.format(decision)}).content.decode()
    assert "Blocked by full" in page
    assert f'value="{decision}"' in page


@pytest.mark.parametrize("kept", [b"", b"{", b"[]", b"\xff", b"3", json.dumps("x").encode()])
def test_foreign_data_is_ignored(limiter, redis_client, kept):
    result = limiter.check({"ip": "203.0.113.7"})
    [key] = redis_client.keys("*decision*")
    redis_client.set(key, kept)
    assert decisions.find(result.decision) is None


@pytest.mark.parametrize(
    ("accept", "said"),
    [
        ("application/json", '"decision": "{}"'),
        ("text/html", "<footer>Reference: {}</footer>"),
        ("*/*", "Reference: {}"),
    ],
)
def test_a_refusal_carries_its_id_in_body_header_and_log_line(limiter, caplog, accept, said):
    request = RequestFactory().get("/", HTTP_ACCEPT=accept)
    response = rate_limited("search")(lambda request: None)(request)
    decision = response["RateLimit-Decision"]
    assert decisions.find(decision)
    assert said.format(decision) in response.content.decode()
    [line] = caplog.messages
    assert line.endswith(f" decision={decision}")


def test_with_headers_switched_off_the_id_is_only_in_the_body(limiter, settings):
    settings.RATELIMIT_RULES_HEADERS = "off"
    response = rate_limited("search")(lambda request: None)(RequestFactory().get("/"))
    assert sorted(response.headers) == ["Cache-Control", "Content-Type"]
    assert b"Reference: " in response.content


def test_a_refusal_that_was_not_kept_shows_no_id(limiter, settings, caplog):
    settings.RATELIMIT_RULES_DECISIONS = False
    response = rate_limited("search")(lambda request: None)(RequestFactory().get("/", HTTP_ACCEPT="text/html"))
    assert response.status_code == 429
    assert "RateLimit-Decision" not in response
    assert "Reference" not in response.content.decode()
    assert "decision=" not in caplog.text


FOREIGN = [b"", b"{}", b"[]", b"null", b"7", b'{"rules": 7}', b'{"at": 1, "rules": [{}]}', b"\xff\xfe", b"[" * 100_000]


@pytest.mark.django_db
@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda text: repr(text[:24]))
def test_foreign_data_under_an_id_is_ignored(admin_client, redis_client, foreign):
    redis_client.set(":1:rl:decision:abcdefgh", foreign)
    assert decisions.find("abcdefgh") is None
    page = admin_client.get(reverse("admin:django_ratelimit_rules_ruleset_explain") + "?decision=abcdefgh")
    assert (page.status_code, "There is no record of decision" in page.content.decode()) == (200, True)


def test_a_changed_refusal_is_not_shown(redis_client):
    with override_ruleset("search", [Rule("none", limit=0, period=60)]):
        decision = Limiter("search").check({}).decision
    assert decisions.find(decision)["limiter"] == "search"
    [key] = redis_client.keys("*decision*")
    redis_client.set(key, redis_client.get(key).replace(b"search", b"forged"))
    assert decisions.find(decision) is None


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["list", "set", "string", "hash", "zset"])
def test_foreign_data_under_our_keys_breaks_no_page_of_the_admin(admin_client, redis_client, kind):
    write = {
        "list": lambda key: redis_client.rpush(key, "x"),
        "set": lambda key: redis_client.sadd(key, "x"),
        "string": lambda key: redis_client.set(key, b"\xffx"),
        "hash": lambda key: redis_client.hset(key, b"\xff", "x"),
        "zset": lambda key: redis_client.zadd(key, {"x": "inf"}),
    }[kind]
    ruleset = Ruleset.objects.create(name="search")
    rule = RuleRow.objects.create(ruleset=ruleset, name="all", characteristics=["ip"], limit=0, period=60)
    with override_ruleset("search", [Rule("all", characteristics=["ip"], limit=0, period=60)]):
        Limiter("search").check({"ip": "203.0.113.7"})
        exceeding_clients.write()
        last_hour.write()
        keys = redis_client.keys("*search*") + redis_client.keys("*decision*")
        assert len(keys) >= 4
        for key in keys:
            redis_client.delete(key)
            write(key)
        name = "admin:django_ratelimit_rules_ruleset"
        pages = [
            reverse(f"{name}_live", args=["search"]),
            reverse(f"{name}_change", args=[ruleset.pk]),
            reverse(f"{name}_switch", args=[ruleset.pk, "off"]),
            reverse(f"{name}_turn", args=[ruleset.pk, rule.pk, "demote"]),
            reverse(f"{name}_explain") + "?decision=" + keys[-1].decode().rpartition(":")[2],
        ]
        for page in pages:
            assert admin_client.get(page).status_code == 200, page
        asked = {"limiter": "search", "method": "GET", "ip": "203.0.113.7"}
        for button in ({}, {"reset": "1", "reason": "because"}):
            assert admin_client.post(reverse(f"{name}_explain"), asked | button).status_code == 200
