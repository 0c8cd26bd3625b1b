"""A site that upgrades from release 1.0 keeps its rules, history and counters. ``make_site.py`` created it."""

from __future__ import annotations

import html
import io
import json
import time
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.urls import reverse

from django_ratelimit_rules import Limiter, rulesets
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from django_ratelimit_rules.rulesets import history
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.rulesets.history import Author

pytestmark = pytest.mark.django_db(transaction=True)

APP = "django_ratelimit_rules"
FOLDER = Path(__file__).parent
SITE = json.loads((FOLDER / "site.json").read_text("utf-8"))
BEFORE, HEAD = "0005_partition_by", "0007_translatable"
ADMIN = f"admin:{APP}_ruleset"


def migrate(name: str):
    """Migrate the app, and return its models in that state."""
    executor = MigrationExecutor(connection)
    return executor.migrate([(APP, name)]).apps


@pytest.fixture
def old_site():
    """Load the rows in the schema of release 1.0. Restore today's schema afterwards, also if the test failed."""
    migrate(BEFORE)
    try:
        with connection.cursor() as cursor:
            for statement in (FOLDER / "site.sql").read_text("utf-8").removesuffix(";\n").split(";\nINSERT"):
                cursor.execute(f"INSERT{statement.removeprefix('INSERT')}")
            for statement in connection.ops.sequence_reset_sql(no_style(), [Ruleset, Rule]):
                cursor.execute(statement)
            ids = "setval(pg_get_serial_sequence('django_ratelimit_rules_rulesetversion', 'id'), 1000)"
            if connection.vendor == "postgresql":
                cursor.execute(f"SELECT {ids}")
        yield
    finally:
        migrate(HEAD)


@pytest.fixture
def upgraded(old_site):
    """Upgrade the rows. Return the texts of the versions before the upgrade."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id, text FROM {APP}_rulesetversion")
        texts = dict(cursor.fetchall())
    migrate(HEAD)
    rulesets.reload()
    return texts


@pytest.fixture
def counters(redis_client):
    """Load the counters, with their times moved to the present."""
    now = int(time.time() * 1000)
    later = now - SITE["made_at"]
    for each in SITE["counters"]:
        if isinstance(each["value"], list):
            redis_client.sadd(each["key"], *each["value"])
            redis_client.pexpire(each["key"], each["px"])
            continue
        values = each["value"].split()
        if each["limiter"] == "sliding":
            period = int(values[0])
            values[1] = str(int(values[1]) + now // period - SITE["made_at"] // period)
        elif each["limiter"] == "bucket":
            values[1] = str(int(values[1]) + later)
        elif each["limiter"] == "banned":
            values[2] = str(int(values[2]) + later)
        redis_client.set(each["key"], " ".join(values), px=each["px"])


def export() -> str:
    out = io.StringIO()
    call_command("ratelimit_export", stdout=out)
    return out.getvalue()


def test_the_rules_in_force_are_those_of_before(upgraded):
    for name, before in SITE["in_force"].items():
        ruleset = rulesets.get(name)
        assert {
            "mode": ruleset.mode,
            "partition_by": ruleset.partition_by,
            "version": ruleset.version,
            "rules": [ruleset_text.rule_of(rule) for rule in ruleset.rules],
        } == before, name
    assert "bad" not in [rule.name for rule in rulesets.get("search").rules]
    assert Rule.objects.filter(name="bad").exists()


def test_the_export_has_the_same_bytes(upgraded):
    assert export() == SITE["export"]


def test_every_version_keeps_its_content_and_no_version_is_lost(upgraded):
    versions = {version.pk: version for version in RulesetVersion.objects.all()}
    assert versions.keys() == upgraded.keys()
    for pk, text in upgraded.items():
        version = versions[pk]
        (written,) = history.as_texts([version])
        assert written == text, version
        assert bool(version.unreadable) == (version.ruleset == "broken")
        if text and not version.unreadable:
            assert ruleset_text.same(history.plain(version), yaml.safe_load(text)), version


def test_every_version_is_on_the_history_page(upgraded, admin_client):
    for version in RulesetVersion.objects.all():
        page = html.unescape(
            admin_client.get(reverse(f"{ADMIN}_past", args=[version.ruleset]), follow=True).content.decode()
        )
        assert f"Version {version.number}" in page
        assert version.action in page
        assert upgraded[version.pk] in page


def test_a_version_that_cannot_be_read_is_shown_and_not_restored(upgraded, admin_client):
    page = admin_client.get(reverse(f"{ADMIN}_past", args=["broken"])).content.decode()
    assert "Its changes cannot be shown" in page
    assert "broken: {[" in page
    answer = admin_client.get(reverse(f"{ADMIN}_undelete", args=["broken", 1]), follow=True)
    assert "cannot be restored" in answer.content.decode()


def test_every_version_is_restored(upgraded):
    Rule.objects.filter(name="bad").delete()
    restorable = [
        version for version in RulesetVersion.objects.all() if not version.unreadable and version.content is not None
    ]
    for version in restorable:
        if "bad" in upgraded[version.pk]:
            continue
        history.restore(version, Author("ann"))
        assert ruleset_text.stored([version.ruleset]) == history.plain(version)
    assert Ruleset.objects.filter(name="gone").exists()


def test_the_upgrade_is_no_change_of_a_ruleset(upgraded):
    before = RulesetVersion.objects.count()
    for name in SITE["in_force"]:
        with history.changing([name], Author("ann")):
            pass
    new = RulesetVersion.objects.order_by("-pk")[: RulesetVersion.objects.count() - before]
    assert [(version.ruleset, version.action) for version in new] == [("unversioned", history.FIRST)]


def test_counters_continue(upgraded, counters):
    for name, before in SITE["used"].items():
        evaluations = Limiter(name).peek(SITE["identifier"]).evaluations
        assert [[each.rule, each.used, each.exceeded] for each in evaluations] == before, name
    assert Limiter("fixed").check(SITE["identifier"], cost=2).evaluations[0].used == SITE["used"]["fixed"][0][1] + 2
    assert Limiter("banned").check(SITE["identifier"]).blocked


def test_the_way_back_keeps_every_version(upgraded):
    """Check the reverse migration by the texts that the earlier release reads."""
    plain = {version.pk: (version.content, version.unreadable) for version in RulesetVersion.objects.all()}
    model = migrate(BEFORE).get_model(APP, "RulesetVersion")
    texts = dict(model.objects.values_list("pk", "text"))
    assert {pk: bool(text) for pk, text in texts.items()} == {pk: bool(text) for pk, text in upgraded.items()}
    for pk, text in texts.items():
        content, unreadable = plain[pk]
        assert text == unreadable if unreadable else True
        if content is not None:
            (said,) = yaml.safe_load(text).values()
            assert ruleset_text.same(said, content)
            # Earlier releases split the string into rules at this indent.
            assert text.count("\n    - ") == len(content.get("rules", ()))
    migrate(HEAD)
    assert {each.pk: (each.content, each.unreadable) for each in RulesetVersion.objects.all()} == plain


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"rules": []},
        {"mode": "off", "rules": []},
        {"rules": [{}, {"name": "a"}]},
        {"rules": [{"name": "a", "on": 1, "null": 2, "y": 3, "a: b": 4, "": 5, "# c": 6}]},
        {"off": "\x85\u2028\ufeff"},
    ],
)
def test_the_way_back_and_forth_keeps_odd_contents(upgraded, content):
    kept = RulesetVersion.objects.create(ruleset="odd", number=1, content=content)
    text = migrate(BEFORE).get_model(APP, "RulesetVersion").objects.get(pk=kept.pk).text
    assert yaml.safe_load(text) == {"odd": content}
    migrate(HEAD)
    kept.refresh_from_db()
    assert (kept.content, kept.unreadable) == (content, "")
