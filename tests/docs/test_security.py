"""The security page: trusted addresses, and sign-in rules that lock no other client out."""

from __future__ import annotations

import pytest
from django.test import RequestFactory, override_settings

from django_ratelimit_rules import Limiter
from django_ratelimit_rules.identifiers.client_ip import client_ip
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take
from tests.docs.running import define

PROXIES, HOPS = take("docs/security.md#addresses-and-proxies")
(SIGN_IN,) = take("docs/security.md#lock-out-as-denial-of-service")
ACCOUNT = "post.username|strip|lower"


def address(example, peer, chain):
    made = {name: value for name, value in define(example).items() if name.startswith("RATELIMIT")}
    with override_settings(**made):
        return client_ip(RequestFactory().get("/", REMOTE_ADDR=peer, headers={"X-Forwarded-For": chain}))


@pytest.mark.parametrize(("example", "peer"), [(PROXIES, ""), (HOPS, "10.0.0.2")])
def test_client_written_entries_are_not_trusted_and_entries_of_proxies_are(example, peer):
    assert address(example, peer, "198.51.100.66, 203.0.113.7, 10.0.0.9") == "203.0.113.7"


def test_with_a_chain_too_short_the_peer_is_the_client():
    assert address(HOPS, "198.51.100.1", "192.0.2.66") == "198.51.100.1"


@pytest.fixture
def login():
    with override_ruleset("login", ruleset_text.load(SIGN_IN, "page.yaml")["login"].rules):
        yield Limiter("login")


def attempt(login, ip, account, answer="failed"):
    """Return whether an attempt is allowed."""
    result = login.check({"ip": ip, ACCOUNT: account})
    if not result.blocked:
        login.settle(result, {"login": answer})
    return not result.blocked


def test_guessing_at_an_account_ends_for_one_address_and_not_for_its_owner(login):
    assert [attempt(login, "192.0.2.1", "ada") for _ in range(6)] == [True] * 5 + [False]
    assert attempt(login, "198.51.100.1", "ada", "ok")


def test_trying_many_accounts_ends_for_the_address(login):
    assert [attempt(login, "192.0.2.1", f"user{number}") for number in range(51)] == [True] * 50 + [False]


def test_an_account_guessed_from_everywhere_is_only_reported(login):
    for number in range(60):
        assert attempt(login, f"192.0.2.{number}", "ada")
    result = login.peek({"ip": "198.51.100.1", ACCOUNT: "ada"})
    assert (result.exceeded, result.blocked) == (True, False)


def test_attempts_sent_all_at_once_are_held_before_any_has_failed(login):
    results = [login.check({"ip": "192.0.2.1", ACCOUNT: "ada"}) for _ in range(100)]
    assert [result.blocked for result in results] == [False] * 60 + [True] * 40
    for result in results:
        login.settle(result, {"login": "failed"})
    assert not attempt(login, "192.0.2.1", "ada")
    assert attempt(login, "198.51.100.1", "ada", "ok")
