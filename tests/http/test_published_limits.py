"""Published limits: the limits in force as Markdown and OpenAPI, without internal data."""

from __future__ import annotations

from io import StringIO

import pytest
import yaml
from django.core.management import CommandError, call_command
from openapi_spec_validator import validate

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.testing import override_ruleset

pytestmark = pytest.mark.django_db

SECRETS = ("s3cret", "office", "10.9.8.7", "Eve", "OPS-7", "shadow", "/internal/", "acme")
RULES = [
    Rule("office", action="skip", match={"ip": {"cidr": "10.9.8.7/32"}}, description="s3cret"),
    Rule("shadow", action="log", characteristics=["ip"], limit=1, period=60),
    Rule("per_user", characteristics=["user"], limit=1000, period="1m", owner="Eve", ticket="OPS-7", reason="s3cret"),
    Rule("posts", match={"method": ["POST", "PUT"]}, characteristics=["ip", "header.x-team"], limit=5, period="1h"),
    Rule("acme_only", match={"header.x-org": "acme", "path": {"prefix": "/internal/"}}, limit=7, period="1d"),
    Rule("sign_ins", characteristics=["ip"], limit=5, period="10m", ban_for="15m", response={"login": "failed"}),
    Rule("by_plan", characteristics=["user"], limit=lambda request: 5, period=60, algorithm="token_bucket"),
    Rule("closed", match={"method": "TRACE"}, limit=0, period=60),
    Rule("denied", match={"ip": {"cidr": "10.9.8.0/24"}}, limit=0, period=60),
    Rule("off_now", characteristics=["ip"], limit=9, period=60, enabled=False),
]


@pytest.fixture
def described():
    """Return a function that returns the command's output about the limiter search."""

    def run(*arguments: str) -> str:
        out = StringIO()
        Limiter("search")
        call_command("ratelimit_describe", "search", *arguments, stdout=out)
        return out.getvalue()

    return run


@override_ruleset("search", RULES)
def test_markdown_has_one_line_for_each_limit(described):
    text = described()
    assert "| `search` | `per_user` | 1,000 per minute per user (anonymous clients: client address) |" in text
    assert "| `posts` | 5 per hour per client address, `x-team` header; for POST, PUT requests |" in text
    assert "| 7 per day for all clients together; for some requests |" in text
    assert "counts failed sign-ins only; clients over the limit are blocked for 15 min |" in text
    assert "| a number that depends on the caller per minute per user" in text
    assert "| `closed` | nothing passes; for TRACE requests |" in text
    assert text.count("nothing passes") == 1
    assert "`RateLimit-Policy`" in text
    assert "`Retry-After`" in text


@pytest.mark.parametrize("format", ["markdown", "openapi"])
@override_ruleset("search", RULES)
def test_nothing_internal_is_published(described, format):
    text = described("--format", format)
    assert "per_user" in text
    assert [secret for secret in SECRETS if secret in text] == []
    assert "off_now" not in text


@override_ruleset("search", RULES)
def test_openapi_is_a_valid_fragment_with_every_limit_in_numbers(described):
    fragment = yaml.safe_load(described("--format", "openapi"))
    validate(fragment)
    limits = {limit.get("name"): limit for limit in fragment["x-rate-limits"]}
    assert list(limits) == ["per_user", "posts", None, "sign_ins", "by_plan", "closed"]
    assert "&" not in described("--format", "openapi")
    assert (limits["posts"]["limit"], limits["posts"]["period"]) == (5, 3600)
    assert "limit" not in limits["by_plan"]
    assert limits["by_plan"]["algorithm"] == "token_bucket"


def test_the_published_headers_are_those_that_the_site_sends(described, settings):
    assert "RateLimit-Policy" in yaml.safe_load(described("--format", "openapi"))["components"]["headers"]
    settings.RATELIMIT_RULES_HEADERS = "legacy"
    fragment = yaml.safe_load(described("--format", "openapi"))
    validate(fragment)
    assert set(fragment["components"]["headers"]) > {"X-RateLimit-Limit", "Retry-After"}
    settings.RATELIMIT_RULES_HEADERS = "off"
    assert list(yaml.safe_load(described("--format", "openapi"))["components"]["headers"]) == ["Retry-After"]


@pytest.mark.parametrize("mode", ["dry_run", "off"])
def test_limits_that_block_no_request_are_not_published(described, mode):
    with override_ruleset("search", RULES, mode=mode):
        assert "There are no rate limits." in described()


@override_ruleset("search", [Rule("all", limit=5, period=60), Rule("welcome", action="skip"), *RULES])
def test_rules_after_a_skip_of_everything_are_not_published(described):
    assert "per_user" not in described()


def test_an_unknown_limiter_is_reported():
    with pytest.raises(CommandError, match="no limiter 'nobody'"):
        call_command("ratelimit_describe", "nobody")
