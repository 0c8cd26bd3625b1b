"""All pages work in a project without USE_TZ, whose database holds local times without a zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.urls import reverse

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.models import Rule as RuleRow
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.monitoring import last_hour
from django_ratelimit_rules.testing import override_ruleset

COUNTING = {"limit": 0, "period": 60, "characteristics": ["ip"]}


@pytest.fixture(autouse=True)
def naive(settings) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Kathmandu"


@pytest.fixture
def ruleset() -> Ruleset:
    made = Ruleset.objects.create(name="search")
    RuleRow.objects.create(ruleset=made, name="per_ip", **COUNTING)
    RuleRow.objects.create(ruleset=made, name="over", expires_at=datetime(2020, 1, 1), position=1, **COUNTING)
    RuleRow.objects.create(ruleset=made, name="later", expires_at=datetime(2999, 1, 1), position=2, **COUNTING)
    return made


def page(name: str, *args: object) -> str:
    return reverse(f"admin:django_ratelimit_rules_ruleset_{name}", args=args)


@pytest.mark.django_db
def test_a_ruleset_s_page_shows_expired_rules_and_marks_the_version_of_this_hour(admin_client, ruleset):
    Limiter("search").check({"ip": "203.0.113.7"})
    last_hour.gather()
    last_hour.write()
    with override_ruleset(
        "search", tiers={"file": [Rule("gone", expires_at=datetime(2020, 1, 1, tzinfo=UTC), **COUNTING)]}
    ):
        said = admin_client.get(page("change", ruleset.pk)).content.decode()
    assert "Expired:" in said
    assert "version" in admin_client.get(page("live", "search")).content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["changelist", "add", "explain", "deleted", "replay", "suggest", "import"])
def test_a_page_is_shown(admin_client, ruleset, name):
    assert admin_client.get(page(name)).status_code == 200


@pytest.mark.django_db
def test_the_findings_name_expired_rules(ruleset, capsys):
    call_command("ratelimit_check", "search", fail_level="error")
    assert "expired" in capsys.readouterr().out


@pytest.mark.django_db
def test_a_decision_is_explained_with_its_local_time(admin_client, ruleset):
    result = Limiter("search").check({"ip": "203.0.113.7"})
    said = admin_client.get(page("explain"), {"decision": result.decision}).content.decode()
    assert f'datetime="{datetime.now(UTC) + timedelta(hours=5, minutes=45):%Y-%m-%dT%H:}' in said
