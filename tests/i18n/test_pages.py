"""No page shows a text that cannot be translated, in the admin or to clients."""

from __future__ import annotations

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from django_ratelimit_rules import Limiter
from django_ratelimit_rules.admin.pages import history as history_pages
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from django_ratelimit_rules.rulesets import limiter_names
from tests.i18n import pseudo
from tests.i18n.__main__ import LANGUAGES

COUNTING = {"characteristics": ["ip"], "limit": 1, "period": 60}
CLIENT = "203.0.113.7"
# Names of limiters, rules, people and properties, values of rules, addresses, units: the same in every language.
DATA = (
    # The alternative text of Django's search form, which Django does not translate.
    r"\ASearch\Z",
    r"[\w.-]+@[\w.-]+",
    r"zz\w*",
    # The user.
    r"^\W*admin\W*$",
    r"\b(ip|user|path|header\.x-key|host|method|route|view|bypass|preflight|kwarg|json|post|query|cookie)\b[\w.|-]*",
    r"\bis_(staff|authenticated)\b",
    r"\b(limit|log|skip|fixed_window|enforce|dry_run|off|open)\b",
    r"\b(GET|POST|PUT|PATCH|DELETE|OPTIONS|YAML|JSON|CSV|IPv6|RE2|Redis|HTTP|Django|URL|API|OPS-12)\b",
    r"\d+\s?(s|m|h|d|ms|min)\b",
)


@pytest.fixture
def rich(db, monkeypatch) -> Ruleset:
    """A ruleset of everything that pages show: findings, rules of each action, disabled, unreadable, versions."""
    # Pages list the limiters that this process has made, those of other tests too.
    monkeypatch.setattr(limiter_names, "asked", set())
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


def kept_decision() -> str:
    """Return the id of a refusal that is explained."""
    results = [Limiter("zz_search").check({"ip": CLIENT}) for _ in range(3)]
    return next(result.decision for result in results if result.decision)


PAGES = {
    "list": lambda ruleset: address("changelist"),
    "add": lambda ruleset: address("add"),
    "change": lambda ruleset: address("change", ruleset.pk),
    "live": lambda ruleset: address("live", "zz_search"),
    "explain": lambda ruleset: address("explain"),
    "explained": lambda ruleset: address("explain") + f"?limiter=zz_search&ip={CLIENT}&explain=now",
    "decision": lambda ruleset: address("explain") + f"?decision={kept_decision()}",
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


LOG = b"""
203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET /zz HTTP/1.1" 200 12 "-" "zz"
203.0.113.7 - - [10/Oct/2026:13:55:37 +0000] "GET /zz HTTP/1.1" 200 12 "-" "zz"
203.0.113.8 - - [10/Oct/2026:13:55:36 +0000] "GET /zz HTTP/1.1" 200 12 "-" "zz"
zz
"""
DRAFT = "zz_search:\n  rules:\n  - {name: zz_first, limit: 1, period: 1h, characteristics: [ip]}\n"
ASKED = {"limiter": "zz_search", "ip": CLIENT, "facts": "{}"}
EMPTY = {f"rules-{name}_FORMS": 0 for name in ("TOTAL", "INITIAL", "MIN_NUM", "MAX_NUM")}
NEW = {"name": "zz_new", "mode": "", "failure_mode": "", "partition_by": "", "rules-seen": ""}


def log() -> SimpleUploadedFile:
    return SimpleUploadedFile("zz.log", LOG.strip())


# A page, and the data that its form sends.
FORMS = {
    "explain": lambda ruleset: (address("explain"), ASKED | {"explain": "Explain"}),
    "explain a user": lambda ruleset: (address("explain"), ASKED | {"user": "zz"}),
    "explain nothing": lambda ruleset: (address("explain"), ASKED | {"ip": ""}),
    "explain bad input": lambda ruleset: (address("explain"), ASKED | {"headers": "zz", "facts": "[]"}),
    "reset": lambda ruleset: (address("explain"), ASKED | {"reset": "Reset", "reason": "zz"}),
    "reset without reason": lambda ruleset: (address("explain"), ASKED | {"reset": "Reset"}),
    "import": lambda ruleset: (address("import"), {"text": DRAFT}),
    "import nothing": lambda ruleset: (address("import"), {"text": ""}),
    "replay": lambda ruleset: (
        address("replay"),
        {"limiter": "zz_search", "draft": DRAFT, "traffic": "upload", "file": log(), "replay": "Replay"},
    ),
    "replay nothing": lambda ruleset: (
        address("replay"),
        {"limiter": "zz_search", "draft": DRAFT, "traffic": "record", "replay": "Replay"},
    ),
    "replay another limiter": lambda ruleset: (
        address("replay"),
        {"limiter": "zz_quiet", "draft": DRAFT, "traffic": "upload", "replay": "Replay"},
    ),
    "suggest": lambda ruleset: (
        address("suggest"),
        {"limiter": "zz_search", "by": "ip", "period": "1m", "match": "{}", "percent": "50", "file": log()},
    ),
    "suggest by counters": lambda ruleset: (
        address("suggest"),
        {"limiter": "zz_search", "rule": "zz_first", "traffic": "counters", "match": "{}", "percent": "1"},
    ),
    "suggest by no counters": lambda ruleset: (
        address("suggest"),
        {"limiter": "zz_search", "traffic": "counters", "match": "{}", "percent": "1"},
    ),
    "save": lambda ruleset: (address("add"), NEW | EMPTY),
}


@pytest.mark.parametrize("name", FORMS)
def test_no_answer_of_a_form_shows_a_text_that_cannot_be_translated(admin_client, rich, pseudo_language, name):
    for _ in range(3):
        Limiter("zz_search").check({"ip": CLIENT})
    url, data = FORMS[name](rich)
    answer = admin_client.post(url, data, follow=True)
    assert answer.status_code == 200
    assert pseudo.untranslated(answer.content.decode(), DATA) == []


@pytest.mark.parametrize("mode", ["dry_run", "off", "enforce"])
def test_no_switch_shows_a_text_that_cannot_be_translated(admin_client, rich, pseudo_language, mode):
    for _ in range(3):
        Limiter("zz_search").check({"ip": CLIENT})
        Limiter("zz_search").compare({"ip": CLIENT}, legacy_blocked=True)
    url = address("switch", rich.pk, mode)
    page = admin_client.get(url).content.decode()
    assert pseudo.untranslated(page, DATA) == []
    seen = re.search(r'name="confirmed" value="(\w+)"', page)[1]
    # The outdated confirmation is shown again, the present one leads to the ruleset with a message.
    for confirmed in ("outdated", seen):
        answer = admin_client.post(url, {"confirmed": confirmed, "reason": "zz"}, follow=True)
        assert answer.status_code == 200
        assert pseudo.untranslated(answer.content.decode(), DATA) == []
    history = admin_client.get(address("history", rich.pk)).content.decode()
    assert pseudo.untranslated(history, DATA) == []


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


@pytest.mark.parametrize("language", ["de", "en-us"])
def test_numbers_that_browsers_read_have_no_separators(admin_client, rich, settings, monkeypatch, language):
    monkeypatch.setattr(history_pages, "PER_PAGE", 1)
    RulesetVersion.objects.bulk_create(
        RulesetVersion(ruleset="zz_search", number=number, content={}) for number in range(1, 1204)
    )
    Rule.objects.bulk_create(
        Rule(ruleset=rich, name=f"zz_{number}", position=10 + number, **COUNTING) for number in range(1003)
    )
    settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR = language, True
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = None
    switch = admin_client.get(address("switch", rich.pk, "off")).content.decode()
    assert 'maxlength="2000"' in switch
    reset = admin_client.get(PAGES["explained"](rich)).content.decode()
    assert 'maxlength="2000"' in reset
    rules = admin_client.get(address("change", rich.pk)).content.decode()
    assert 'id="rules-1001"' in rules
    versions = admin_client.get(address("history", rich.pk) + "?page=1100").content.decode()
    assert 'href="?page=1101"' in versions
    assert 'href="?page=1099"' in versions
