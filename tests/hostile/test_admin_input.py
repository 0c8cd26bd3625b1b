"""Crafted addresses and forms in the admin get a normal page, never an error, and leave no partial change."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_ratelimit_rules.models import Rule, Ruleset
from tests.hostile.strategies import anything, json_values
from tests.hostile.test_loading import BOMB

IDS = [
    "0",
    "-1",
    "9" * 30,
    "1.5",
    "\0",
    "1\0",
    "\u00e9\u202e",
    "1/2",
    "_2F",
    "' OR 1=1 --",
    "<script>",
    "a" * 3000,
    "%s",
]
VALUES = [
    *IDS,
    "\ud83d",
    "[" * 5000,
    '{"a":' * 2000,
    "9" * 5000,
    BOMB,
    "1m\0",
    "NaN",
    "Infinity",
    "null",
    "true",
    "\r\n",
]
LABEL = "django_ratelimit_rules"


@pytest.fixture
def ruleset(db) -> Ruleset:
    ruleset = Ruleset.objects.create(name="search")
    Rule.objects.create(ruleset=ruleset, name="per_ip", characteristics=["ip"], limit=5, period=60)
    return ruleset


@pytest.fixture
def operator(admin_client) -> Client:
    """Sign in a superuser, who has all permissions."""
    admin_client.raise_request_exception = False
    return admin_client


def addresses(ruleset: Ruleset) -> list[str]:
    """Return a strategy of the admin's addresses with unusual values in each part."""
    found = []
    for model, model_admin in admin.site._registry.items():
        if model._meta.app_label != LABEL:
            continue
        for url in model_admin.get_urls():
            route = str(url.pattern)
            start = reverse("admin:app_list", args=[LABEL]) + f"{model._meta.model_name}/"
            parts = re.findall("<[^>]*>", route)
            for odd in IDS if parts else [""]:
                for which in range(max(1, len(parts))):
                    path = route
                    for number, part in enumerate(parts):
                        said = odd if number == which else str(ruleset.pk) if "object_id" in part else "1"
                        path = path.replace(part, quote(said, safe=""), 1)
                    found.append(start + path)
    return sorted(set(found))


def test_no_address_is_an_error_whether_it_is_read_or_written(operator, ruleset):
    statuses = {}
    for address in addresses(ruleset):
        statuses["GET", address] = operator.get(address).status_code
        statuses["POST", address] = operator.post(
            address, {"_confirmed": "1", "reason": "\0", "action": "x"}
        ).status_code
    assert len(statuses) > 200
    assert {asked: status for asked, status in statuses.items() if status >= 500} == {}
    assert Ruleset.objects.get().rules.get().limit == 5


QUESTIONS = {
    "": ("q", "o", "p", "mode__exact", "rules__action", "updated_at__gte", "name", "_popup"),
    "{pk}/change/": ("open", "copy", "_changelist_filters", "override"),
    "explain/": ("limiter", "user", "ip", "path", "headers", "facts", "decision", "cost"),
    "add/": ("name", "copy", "override"),
    "suggest/": ("limiter", "rule", "traffic"),
    "replay/": ("limiter", "draft", "traffic"),
    "deleted/": ("page",),
}


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, names in QUESTIONS.items() for name in names])
def test_no_question_is_an_error(operator, ruleset, page, name):
    address = reverse("admin:django_ratelimit_rules_ruleset_changelist") + page.format(pk=ruleset.pk)
    # Try fewer values, because a ruleset's page is slow.
    for value in VALUES[::4] if page in ("{pk}/change/", "add/") else VALUES:
        asked = {"limiter": "search", name: sendable(value)}
        assert operator.get(address, asked).status_code < 500, value
        if page in ("explain/", "suggest/", "replay/"):
            assert operator.post(address, asked).status_code < 500, value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value[:12]))
def test_no_text_or_file_to_import_is_an_error(operator, ruleset, value):
    address = reverse("admin:django_ratelimit_rules_ruleset_import")
    text = value.encode("utf-8", "replace")
    for data in (
        {"text": text.decode()},
        {"file": SimpleUploadedFile("rules.yaml", text or b" ")},
        {"file": SimpleUploadedFile("\0/../x.json", text or b" "), "text": "\0"},
        {"text": f"search:\n  - {{name: r, limit: 1, period: 1m, match: {{path: {json.dumps(text.decode())}}}}}"},
    ):
        assert operator.post(address, data).status_code < 500


FIELDS = [field.name for field in Rule._meta.fields]
MANAGEMENT = ["rules-TOTAL_FORMS", "rules-INITIAL_FORMS", "rules-MIN_NUM_FORMS", "rules-MAX_NUM_FORMS"]
odd = st.one_of(anything, st.sampled_from(VALUES), json_values.map(lambda value: json.dumps(value, default=str)))
changes = st.dictionaries(
    st.one_of(
        st.sampled_from(
            [*MANAGEMENT, "name", "mode", "failure_mode", "description", "_save", "_continue", "_saveasnew"]
        ),
        st.builds("rules-{}-{}".format, st.integers(-1, 3), st.sampled_from([*FIELDS, "DELETE", "ORDER", "period_0"])),
        st.builds("rules-{}-{}".format, st.integers(0, 1), anything),
    ),
    odd,
    min_size=1,
    max_size=6,
)


def sendable(text: str) -> str:
    """Return a string without lone surrogates, because a browser cannot send them."""
    return text.encode("utf-8", "replace").decode()


def posted(ruleset: Ruleset) -> dict[str, str]:
    rule = ruleset.rules.get()
    return {
        "name": "search",
        "rules-TOTAL_FORMS": "2",
        "rules-INITIAL_FORMS": "1",
        "rules-0-id": str(rule.pk),
        "rules-0-ruleset": str(ruleset.pk),
        "rules-0-name": "per_ip",
        "rules-0-action": "limit",
        "rules-0-limit": "5",
        "rules-0-period": "1m",
        "rules-0-characteristics": "ip",
        "rules-0-match": "{}",
        "rules-0-algorithm": "fixed_window",
        "rules-0-warn_at": "80",
        "rules-0-enabled": "on",
        "reason": "because",
    }


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(changes)
def test_no_form_is_an_error(operator, ruleset, changed):
    data = {sendable(name): sendable(value) for name, value in (posted(ruleset) | changed).items()}
    address = reverse("admin:django_ratelimit_rules_ruleset_change", args=[ruleset.pk])
    answer = operator.post(address, data)
    assert answer.status_code < 500
    # All saved rows can be loaded as rules.
    for row in Rule.objects.all():
        row.to_engine()
    Ruleset.objects.exclude(pk=ruleset.pk).delete()
    if not ruleset.rules.filter(name="per_ip").exists() or ruleset.rules.count() != 1:
        ruleset.rules.all().delete()
        Rule.objects.create(ruleset=ruleset, name="per_ip", characteristics=["ip"], limit=5, period=60)


@pytest.mark.parametrize("name", ["Bad name", "", "a/b", "\u00e9", "x" * 64])
def test_a_ruleset_with_an_invalid_name_can_be_viewed_and_deleted(operator, ruleset, name):
    Ruleset.objects.filter(pk=ruleset.pk).update(name=name)
    pages = [
        reverse(f"admin:django_ratelimit_rules_ruleset_{page}", args=[ruleset.pk]) for page in ("change", "history")
    ]
    listed = reverse("admin:django_ratelimit_rules_ruleset_changelist")
    for page in (*pages, listed, listed + "live/other/", listed + "explain/"):
        assert operator.get(page, {"limiter": name}).status_code in (200, 302, 404), page
    assert operator.post(pages[0].replace("change", "delete"), {"post": "yes"}).status_code in (200, 302)


def test_a_copy_with_a_name_that_is_taken_is_refused_on_its_field(operator, ruleset):
    address = reverse("admin:django_ratelimit_rules_ruleset_change", args=[ruleset.pk])
    answer = operator.post(address, posted(ruleset) | {"_saveasnew": "1"})
    assert answer.status_code == 200
    assert "name" in answer.context["adminform"].form.errors


def test_a_form_cannot_take_a_rule_from_another_ruleset(operator, ruleset):
    other = Ruleset.objects.create(name="login")
    foreign = Rule.objects.create(ruleset=other, name="guesses", characteristics=["ip"], limit=7, period=60)
    address = reverse("admin:django_ratelimit_rules_ruleset_change", args=[ruleset.pk])
    stolen = posted(ruleset) | {"rules-0-id": str(foreign.pk), "rules-0-name": "stolen"}
    moved = posted(ruleset) | {"rules-0-ruleset": str(other.pk)}
    for data in (stolen, moved):
        assert operator.post(address, data).status_code in (200, 302)
    foreign.refresh_from_db()
    assert (foreign.ruleset, foreign.name, foreign.limit) == (other, "guesses", 7)
    assert [rule.name for rule in other.rules.all()] == ["guesses"]
    assert [rule.name for rule in ruleset.rules.all()] == ["per_ip"]
