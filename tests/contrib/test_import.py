"""Draft rules from the rates of a site with django-ratelimit and REST framework's throttles."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from io import StringIO
from unittest import mock

import pytest
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client, override_settings

# Import it before any test, because it keeps the default rates of the settings at its first import.
from rest_framework import throttling  # noqa: F401

from django_ratelimit_rules.engine import Mode
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.rulesets import file as rules_file
from django_ratelimit_rules.rulesets import text as ruleset_text

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.contrib.old_site")]


def text_of(source: str) -> str:
    out = StringIO()
    call_command("ratelimit_import", "--from", source, stdout=out)
    return out.getvalue()


@pytest.fixture
def drafts():
    """Return a function that returns the draft rulesets in the text format, read like ratelimit_apply does."""

    def read(source: str) -> dict:
        tiers = ruleset_text.load(text_of(source), "draft.yaml")
        assert {tier.mode for tier in tiers.values()} == {Mode.DRY_RUN}
        return {name: [ruleset_text.rule_of(rule) for rule in tier.rules] for name, tier in tiers.items()}

    return read


def about(source: str, limiter: str) -> str:
    """Return the lines of the text about one ruleset, with joined comments."""
    part = next(part for part in text_of(source).split("\n\n") if re.search(rf"^{limiter}:$", part, re.MULTILINE))
    return re.sub(r"\n\s*# ", " ", part)


def test_every_decorator_of_django_ratelimit_becomes_a_rule_in_any_place(drafts):
    found = drafts("django-ratelimit")
    assert found["search"] == [{"name": "ip_per_1m", "characteristics": ["ip"], "limit": 5, "period": "1m"}]
    outer, inner = found["sign_up"]
    assert (outer["limit"], outer["period"], outer["match"]) == (
        100,
        "1h",
        {"method": ["DELETE", "PATCH", "POST", "PUT"]},
    )
    assert (inner["action"], inner["characteristics"], inner["period"]) == ("log", ["post.email"], "30m")
    on_class, on_method = found["reports"]
    assert (on_class["characteristics"], on_class["limit"]) == (["user"], 30)
    assert (on_method["characteristics"], on_method["match"]) == (["header.x-team"], {"method": "POST"})
    assert set(found) == {"search", "sign_up", "reports", "export", "tenants", "mail"}


def test_views_of_one_group_share_a_limiter_and_keep_rates_of_their_own(drafts):
    rules = drafts("django-ratelimit")["mail"]
    assert [(rule["limit"], rule["match"]["view"]) for rule in rules] == [
        (3, ["tests.contrib.old_site.send"]),
        (1, ["tests.contrib.old_site.send_all"]),
    ]


def test_computed_values_are_reported_and_not_written(drafts):
    found = drafts("django-ratelimit")
    assert found["export"] == found["tenants"] == []
    assert "its rate is computed by tests.contrib.old_site.by_plan" in about("django-ratelimit", "export")
    tenants = about("django-ratelimit", "tenants")
    assert "register it as property tenant with property_provider" in tenants
    assert "it holds only at /wrapped/" in about("django-ratelimit", "reports")


def test_each_rule_lists_its_differences(settings):
    assert "Anonymous clients count by address, each apart" in about("django-ratelimit", "mail")
    assert "request.limited" in about("django-ratelimit", "sign_up")
    settings.RATELIMIT_IP_META_KEY = "HTTP_X_REAL_IP"
    settings.RATELIMIT_IPV6_MASK, settings.RATELIMIT_IPV4_MASK = 56, 24
    search = about("django-ratelimit", "search")
    assert "set TRUSTED_PROXIES or PROXY_HOPS" in search
    assert "counted by /56, now by /64" in search
    assert "counted by /24, now each for itself" in search
    for source in ("django-ratelimit", "drf"):
        lines = text_of(source).splitlines()
        for number, line in enumerate(lines):
            if re.match(r"    (# )?- name:", line):
                assert lines[number - 1].startswith("    # "), line


def test_every_throttle_of_rest_framework_becomes_a_rule_of_its_scope(drafts):
    found = drafts("drf")
    assert found["anon"] == [
        {
            "name": "rate",
            "match": {"is_authenticated": False},
            "characteristics": ["ip"],
            "limit": 20,
            "period": "1h",
            "algorithm": "sliding_window",
        }
    ]
    (burst,) = found["burst"]
    assert (burst["characteristics"], burst["limit"], burst["period"]) == (["user"], 60, "1m")
    (uploads,) = found["uploads"]
    assert (uploads["limit"], uploads["period"]) == (10, "1d")


def test_a_throttle_with_its_own_code_is_reported_and_not_written(drafts):
    found = drafts("drf")
    assert found["by_key"] == found["odd"] == found["own_throttles"] == []
    assert "says in code of its own whom it counts" in about("drf", "by_key")
    assert "a throttle of the project's own" in about("drf", "odd")
    assert "tests.contrib.old_site.Choosing (/api/choosing/)" in about("drf", "own_throttles")


def test_views_with_the_throttle_are_named_also_one_that_moves_already():
    burst = about("drf", "burst")
    assert all(view in burst for view in ("Items (/api/items/)", "latest (/api/latest/)", "Moving (/api/moving/)"))
    assert "rule_throttle('burst', legacy=[Burst])" in burst
    assert "Unscoped" not in text_of("drf")


def test_unused_default_rates_are_reported(settings):
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"burst": "1/s", "forgotten": "9/day"}}
    assert "forgotten: 9/day in DEFAULT_THROTTLE_RATES, but no view here uses it" in about("drf", "forgotten")


def test_an_unreadable_rate_is_reported(settings, monkeypatch):
    from tests.contrib import old_site

    monkeypatch.setattr(old_site.Burst, "rate", "many")
    assert "has no rate that can be read" in about("drf", "burst")
    monkeypatch.setattr(old_site.Burst, "rate", None)
    assert "has no rate that can be read" in about("drf", "burst")


def test_the_draft_goes_into_the_admin_as_it_is_and_refuses_as_the_old_decorator_did(tmp_path):
    file = tmp_path / "draft.yaml"
    call_command("ratelimit_import", "--from", "django-ratelimit", "--output", str(file), stdout=StringIO())
    call_command("ratelimit_apply", str(file), stdout=StringIO())
    assert Ruleset.objects.get(name="search").rules.get().limit == 5
    assert set(rules_file.read(file)) == set(Ruleset.objects.values_list("name", flat=True))
    with pytest.raises(CommandError, match="exists"):
        call_command("ratelimit_import", "--from", "drf", "--output", str(file))


def test_drafts_enforced_refuse_the_same_calls_as_before(tmp_path, settings):
    from django.urls import path

    from django_ratelimit_rules import rate_limited
    from django_ratelimit_rules.testing import override_ruleset
    from tests.contrib import old_site

    cache.clear()

    class Urls:
        urlpatterns = [
            path("old/", old_site.search),
            path("new/", rate_limited("search")(old_site.search.__wrapped__)),
        ]

    rules = ruleset_text.load(text_of("django-ratelimit"), "draft.yaml")["search"].rules
    # Stop the clock. The old decorator counts by the minute of the clock, and a minute may end between two calls.
    clock = mock.patch("time.time", return_value=time.time())
    with clock, override_settings(ROOT_URLCONF=Urls), override_ruleset("search", rules):
        passed = [[Client().get(url).status_code == 200 for _ in range(8)] for url in ("/old/", "/new/")]
    assert passed[0] == passed[1] == [True] * 5 + [False] * 3


MISSING = """
import os, sys
sys.modules["django_ratelimit"] = None
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django
django.setup()
from django.core.management import CommandError, call_command
try:
    call_command("ratelimit_import", "--from", "django-ratelimit")
except CommandError as error:
    print(error)
"""


def test_an_empty_result_is_reported_apart_from_the_text(settings, capsys):
    settings.ROOT_URLCONF = "tests.contrib.nothing"
    settings.REST_FRAMEWORK = {}
    call_command("ratelimit_import", "--from", "drf")
    printed = capsys.readouterr()
    assert "No rates of drf were found" in printed.err
    assert ruleset_text.load(printed.out, "draft.yaml") == {}


def test_a_missing_library_is_reported():
    done = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True, timeout=60)
    assert "django-ratelimit is not installed here" in done.stdout
