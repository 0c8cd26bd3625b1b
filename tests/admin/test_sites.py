"""Rulesets on admin sites other than the default one: each page works, and links stay within the site."""

from __future__ import annotations

import html
import re
from types import ModuleType
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.test import Client
from django.urls import path, reverse

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.admin import RulesetAdmin
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.rulesets import history
from django_ratelimit_rules.rulesets import text as ruleset_text
from django_ratelimit_rules.testing import override_ruleset

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = """\
search:
  rules:
    - {name: per_ip, characteristics: [ip], limit: 1, period: 1m}
    - {name: trial, action: log, characteristics: [ip], limit: 5, period: 1m}
"""
ASKED = {"limiter": "search", "method": "GET", "ip": "203.0.113.7"}
# Addresses in attributes, and addresses that a template passes to a script.
ADDRESS = re.compile(r'\b(?:href|action|formaction|src)="([^"]*)"')


def urlconf(**sites: AdminSite) -> ModuleType:
    """Return a URL configuration that serves each site at its prefix."""
    module = ModuleType("urls_of_sites")
    module.urlpatterns = [path(f"{prefix}/", site.urls) for prefix, site in sites.items()]
    return module


def ops() -> AdminSite:
    site = AdminSite(name="ops")
    site.register(Ruleset, RulesetAdmin)
    return site


SITES = {
    "alone": ("ops", urlconf(ops=ops())),
    "beside a site without rulesets": ("ops", urlconf(admin=AdminSite(), ops=ops())),
    "second of two with rulesets": ("ops", urlconf(admin=admin.site, ops=ops())),
    "first of two with rulesets": ("ops", urlconf(ops=ops(), admin=admin.site)),
    "the default one, second of two": ("admin", urlconf(ops=ops(), admin=admin.site)),
}


def addresses(answer: Any) -> list[str]:
    """Return the addresses on a page, without addresses of files."""
    is_page = answer["Content-Type"].startswith("text/html")
    return [html.unescape(each) for each in ADDRESS.findall(answer.content.decode())] if is_page else []


class Site:
    """An admin site with a saved and used ruleset, as a superuser sees it."""

    def __init__(self, name: str, client: Client) -> None:
        self.name, self.client, self.prefix = name, client, f"/{name}/"
        self.ruleset = Ruleset.objects.get(name="search")
        self.decision = ""

    def at(self, page: str, *arguments: object) -> str:
        address = reverse(f"admin:django_ratelimit_rules_ruleset_{page}", args=arguments, current_app=self.name)
        assert address.startswith(self.prefix)
        return address

    def pages(self) -> dict[str, str]:
        pk, trial = self.ruleset.pk, self.ruleset.rules.get(name="trial").pk
        return {
            "list": self.at("changelist"),
            "add": self.at("add"),
            "ruleset": self.at("change", pk),
            "delete": self.at("delete", pk),
            "live": self.at("live", "search"),
            "explain": self.at("explain"),
            "explain, answered": self.at("explain") + "?limiter=search&ip=203.0.113.7&explain=now",
            "explain, kept": self.at("explain") + f"?decision={self.decision}",
            "replay": self.at("replay") + "?limiter=search",
            "replay of a ruleset": self.at("replay_edited", pk),
            "suggest": self.at("suggest") + "?limiter=search",
            "import": self.at("import"),
            "export, all": self.at("export_all"),
            "export": self.at("export", pk),
            "switch": self.at("switch", pk, "off"),
            "turn": self.at("turn", pk, trial, "promote"),
            "history": self.at("history", pk),
            "restore": self.at("restore", pk, 1),
            "deleted": self.at("deleted"),
            "past": self.at("past", "gone"),
            "undelete": self.at("undelete", "gone", 1),
        }

    def leaving(self, answer: Any) -> list[str]:
        """Return the addresses on a page that lead out of the site."""
        # The link "View site" of Django's header leads to the project's pages.
        own = ("/static/", self.prefix)
        return [each for each in addresses(answer) if each.startswith("/") and each != "/" and not each.startswith(own)]

    def confirm(self, url: str, **data: str) -> Any:
        """Open a confirmation, and press its button."""
        shown = self.client.get(url) if not data else self.client.post(url, data)
        assert self.leaving(shown) == []
        seen = re.search(r'name="confirmed" value="(\w+)"', shown.content.decode())[1]
        answer = self.client.post(url, {**data, "confirmed": seen, "reason": "because"})
        assert answer.status_code == 302
        assert answer["Location"].startswith(self.prefix)
        return answer


@pytest.fixture
def site(request, settings, admin_client) -> Site:
    name, settings.ROOT_URLCONF = request.param
    with history.changing(["search", "gone"], history.Author("ann", "made")):
        ruleset_text.write(ruleset_text.load(TEXT + TEXT.replace("search", "gone"), "test.yaml"))
    with history.changing(["gone"], history.Author("ann", "deleted")):
        Ruleset.objects.get(name="gone").delete()
    made = Site(name, admin_client)
    made.decision = [Limiter("search").check({"ip": "203.0.113.7"}) for _ in range(2)][1].decision
    assert made.decision
    return made


on_every_site = pytest.mark.parametrize("site", SITES.values(), ids=SITES.keys(), indirect=True)


@on_every_site
def test_every_page_answers_and_its_links_lead_to_pages_of_its_own_site(site):
    linked = set()
    for name, url in site.pages().items():
        answer = site.client.get(url)
        assert answer.status_code == 200, name
        assert site.leaving(answer) == [], name
        linked |= {each for each in addresses(answer) if each.startswith(f"{site.prefix}django_ratelimit_rules/")}
    assert len(linked) > 20
    for url in sorted(linked - {*site.pages().values()}):
        assert site.client.get(url).status_code in (200, 302), url


@on_every_site
def test_a_switch_a_turn_and_a_restore_lead_back_to_this_site(site):
    pk, trial = site.ruleset.pk, site.ruleset.rules.get(name="trial")
    site.confirm(site.at("switch", pk, "off"))
    site.ruleset.refresh_from_db()
    assert site.ruleset.mode == "off"
    site.confirm(site.at("turn", pk, trial.pk, "promote"))
    trial.refresh_from_db()
    assert trial.action == "limit"
    site.confirm(site.at("restore", pk, 1))
    site.ruleset.refresh_from_db()
    assert site.ruleset.mode == ""
    site.confirm(site.at("undelete", "gone", 1))
    assert Ruleset.objects.filter(name="gone").exists()
    moved = site.client.get(site.at("past", "gone"))
    assert moved["Location"] == site.at("history", Ruleset.objects.get(name="gone").pk)


@on_every_site
def test_an_import_leads_back_to_this_site(site):
    answer = site.confirm(site.at("import"), text=TEXT.replace("limit: 1,", "limit: 7,"))
    assert answer["Location"] == site.at("changelist")
    assert site.ruleset.rules.get(name="per_ip").limit == 7


@on_every_site
def test_a_reset_is_made_on_this_site(site):
    answer = site.client.post(site.at("explain"), {**ASKED, "reset": "Reset", "reason": "a mistake"})
    assert "Reset 2 counters of search." in answer.content.decode()
    assert site.leaving(answer) == []
    assert Limiter("search").check({"ip": "203.0.113.7"}).action == "allow"


@on_every_site
def test_a_ruleset_that_is_replayed_as_edited_or_saved_with_errors_stays_on_this_site(site):
    url = site.at("change", site.ruleset.pk)
    form = site.client.get(url).context["inline_admin_formsets"][0].formset
    data = {"name": "search", "mode": "", "failure_mode": "", "description": "", "rules-seen": form.seen}
    data |= {"rules-TOTAL_FORMS": 2, "rules-INITIAL_FORMS": 2, "rules-MIN_NUM_FORMS": 0}
    for number, rule in enumerate(site.ruleset.rules.order_by("position")):
        data |= {f"rules-{number}-id": rule.pk, f"rules-{number}-position": rule.position}
    replayed = site.client.post(site.at("replay_edited", site.ruleset.pk), data)
    assert "Run a draft over recorded traffic" in replayed.content.decode()
    refused = site.client.post(url, data | {"rules-0-position": "first"})
    assert "Please correct the error below" in refused.content.decode()
    saved = site.client.post(url, data)
    assert saved["Location"] == site.at("changelist")
    for answer in (replayed, refused):
        assert answer.status_code == 200
        assert site.leaving(answer) == []


@pytest.mark.parametrize("name", ["export", "replay", "history", "switch", "delete", "rules"])
def test_a_limiter_with_the_name_of_a_page_has_its_own_pages(admin_client, name):
    with override_ruleset(name, [Rule("all", limit=1, period=60)]):
        live = admin_client.get(reverse("admin:django_ratelimit_rules_ruleset_live", args=[name]))
    assert f"<h1>Live: {name}</h1>" in live.content.decode()
    with history.changing([name], history.Author("ann", "made")):
        Ruleset.objects.create(name=name)
    with history.changing([name], history.Author("ann", "deleted")):
        Ruleset.objects.all().delete()
    past = admin_client.get(reverse("admin:django_ratelimit_rules_ruleset_past", args=[name]))
    assert f"<h1>History of {name}, which was deleted</h1>" in past.content.decode()
    undelete = admin_client.get(reverse("admin:django_ratelimit_rules_ruleset_undelete", args=[name, 1]))
    assert f"<h1>Restore version 1 of {name}</h1>" in undelete.content.decode()
