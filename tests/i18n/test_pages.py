"""No page shows a text that cannot be translated, in the admin or to clients."""

from __future__ import annotations

import pytest
from django.urls import reverse

from django_ratelimit_rules import Limiter
from django_ratelimit_rules.models import Rule, Ruleset
from tests.i18n import pseudo
from tests.i18n.__main__ import LANGUAGES

COUNTING = {"characteristics": ["ip"], "limit": 1, "period": 60}
CLIENT = "203.0.113.7"
# Names of limiters, rules, people and properties, values of rules, addresses, units: the same in every language.
DATA = (
    r"zz\w*",
    r"\b(ip|user|path|header\.x-key|host|method|route|view|bypass|preflight|kwarg|json|post|query|cookie)\b[\w.|-]*",
    r"\bis_(staff|authenticated)\b",
    r"\b(limit|log|skip|fixed_window|enforce|dry_run|off|open)\b",
    r"\b(GET|POST|PUT|PATCH|DELETE|OPTIONS|YAML|JSON|CSV|IPv6|RE2|Redis|HTTP|Django|URL|API|OPS-12)\b",
    r"\d+\s?(s|m|h|d|ms|min)\b",
    r"[\w.-]+@[\w.-]+",
)


@pytest.fixture(scope="module")
def catalogues(tmp_path_factory):
    return pseudo.compiled(tmp_path_factory.mktemp("locale"))


@pytest.fixture
def pseudo_language(settings, catalogues):
    settings.LANGUAGES = [(pseudo.LANGUAGE, "zz")]
    settings.LOCALE_PATHS = [catalogues]
    settings.LANGUAGE_CODE = pseudo.LANGUAGE


@pytest.fixture
def rich(db) -> Ruleset:
    """A ruleset of everything that pages show: findings, rules of each action, disabled, unreadable, versions."""
    ruleset = Ruleset.objects.create(name="zz_search", description="zz")
    add = {"ruleset": ruleset, "position": 9}
    Rule.objects.create(name="zz_first", ruleset=ruleset, position=1, **COUNTING)
    Rule.objects.create(name="zz_shadow", action="log", match={"path": {"not": {"prefix": "/zz"}}}, **COUNTING, **add)
    Rule.objects.create(name="zz_vip", action="skip", match={"path": {"prefix": "/zz", "not": {"suffix": "zz"}}}, **add)
    Rule.objects.create(name="zz_header", **COUNTING | {"characteristics": ["header.x-key"]}, **add)
    Rule.objects.create(name="zz_asleep", enabled=False, owner="zz@example.org", ticket="OPS-12", **COUNTING, **add)
    Rule.objects.create(name="zz_bad", match={"path": {"zz": "x"}}, **COUNTING, **add)
    Ruleset.objects.create(name="zz_quiet", mode="dry_run")
    return ruleset


def address(name: str, *arguments: object) -> str:
    return reverse(f"admin:django_ratelimit_rules_ruleset_{name}", args=arguments)


PAGES = {
    "list": lambda ruleset: address("changelist"),
    "add": lambda ruleset: address("add"),
    "change": lambda ruleset: address("change", ruleset.pk),
    "live": lambda ruleset: address("live", "zz_search"),
    "explain": lambda ruleset: address("explain"),
    "explained": lambda ruleset: address("explain") + f"?limiter=zz_search&ip={CLIENT}&explain=now",
    "import": lambda ruleset: address("import"),
    "history": lambda ruleset: address("history", ruleset.pk),
    "switch": lambda ruleset: address("switch", ruleset.pk, "off"),
    "promote": lambda ruleset: address("turn", ruleset.pk, ruleset.rules.get(name="zz_shadow").pk, "promote"),
    "delete": lambda ruleset: address("delete", ruleset.pk),
    "deleted": lambda ruleset: address("deleted"),
    "replay": lambda ruleset: address("replay"),
    "suggest": lambda ruleset: address("suggest"),
}


@pytest.mark.parametrize("name", PAGES)
def test_no_page_of_the_admin_shows_a_text_that_cannot_be_translated(admin_client, rich, pseudo_language, name):
    for _ in range(3):
        Limiter("zz_search").check({"ip": CLIENT})
    answer = admin_client.get(PAGES[name](rich), follow=True)
    assert answer.status_code == 200
    assert pseudo.untranslated(answer.content.decode(), DATA) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_is_served_in_each_language_and_shows_no_english_text(admin_client, rich, settings, language):
    catalogue = pseudo.catalogue(language)
    english = {key for key, text in catalogue.items() if " " in key and text != key}
    settings.LANGUAGE_CODE = language.lower().replace("_", "-")
    Limiter("zz_search").check({"ip": CLIENT})
    findings = {}
    for name, of in PAGES.items():
        answer = admin_client.get(of(rich), follow=True)
        assert answer.status_code == 200, name
        findings[name] = english & set(pseudo.texts(answer.content.decode()))
    assert {name: texts for name, texts in findings.items() if texts} == {}
