"""Both ways to bypass limits, uncounted and counted, and the header whose secret enables them."""

from __future__ import annotations

import pytest

from django_ratelimit_rules import Limiter, rate_limited
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take
from tests.docs.running import define, serve

(UNSEEN,) = take("docs/bypass.md#unseen")
(SEEN,) = take("docs/bypass.md#seen")
(HEADER,) = take("docs/bypass.md#the-bypass-header")

SECRET = "a secret of the load test's own"
PARTNER = {"bypass": True, "header.x-partner": "acme", "user": 1}


def rules(text: str):
    return ruleset_text.load(text, "page.yaml")["search"].rules


def test_unseen_traffic_is_not_counted_and_the_others_are(keys):
    with override_ruleset("search", rules(UNSEEN)):
        assert Limiter("search").check({"bypass": True, "user": 1}).skipped
        assert keys() == []
        assert Limiter("search").check({"bypass": False, "user": 1}).rule == "per_user"


def test_counted_bypasses_exceed_their_limit_and_are_charged_to_no_later_rule():
    limiter = Limiter("search")
    with override_ruleset("search", rules(SEEN)):
        for _ in range(600):
            assert not limiter.check(PARTNER).exceeded
        result = limiter.check(PARTNER)
        assert (result.skipped, result.blocked, result.exceeded) == (True, False, True)
        assert [seen.rule for seen in result.evaluations] == ["partner_seen"]
        (per_user,) = limiter.peek({"user": 1}).evaluations
        assert per_user.used == 0


@pytest.mark.parametrize(("sent", "passes"), [(SECRET, True), ("1", False), ("", False)])
def test_the_header_s_secret_opens_and_nothing_else_does(settings, monkeypatch, sent, passes):
    monkeypatch.setenv("LOAD_TEST_SECRET", SECRET)
    made = define("import os\n" + HEADER)
    for name in ("RATELIMIT_RULES_BYPASS_HEADER", "RATELIMIT_RULES_BYPASS_VALUE"):
        setattr(settings, name, made[name])

    @rate_limited("search")
    def search(request):
        return made["HttpResponse"](request.rate_limits["search"].skipped)

    client = serve(settings, search=search)
    with override_ruleset("search", rules(UNSEEN)):
        assert client.get("/search/", headers={"X-Load-Test": sent}).content == str(passes).encode()
