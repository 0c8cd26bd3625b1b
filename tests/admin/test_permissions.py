"""Users of each permission open each page of the admin and post to it. Without permission, they are rejected."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from django_ratelimit_rules import Limiter
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from django_ratelimit_rules.rulesets import text as ruleset_text
from tests.admin.test_admin import Page

pytestmark = pytest.mark.django_db

NAME = "django_ratelimit_rules_ruleset"
RIGHTS = ("view_ruleset", "change_limits", "write_skip_rules", "switch_rulesets", "reset_counters")
WRITES = {"change_limits", "write_skip_rules", "switch_rulesets"}
# Django's own permissions, which allow no change here.
OTHERS = ("add_ruleset", "change_ruleset", "delete_ruleset", "add_rule", "change_rule", "delete_rule", "view_rule")
TEXT = """\
plain:
  rules:
    - {name: per_ip, characteristics: [ip], limit: 5, period: 1h}
    - {name: trial, action: log, characteristics: [ip], limit: 2, period: 1m}
search:
  rules:
    - {name: staff, action: skip, match: {is_staff: true}}
    - {name: per_ip, characteristics: [ip], limit: 5, period: 1m}
"""
OLDER = {"rules": [{"name": "older", "characteristics": ["ip"], "limit": 1, "period": "1m"}]}

Posts = Callable[[Client], Any]


@pytest.fixture(autouse=True)
def _rows() -> None:
    ruleset_text.write(ruleset_text.load(TEXT, "test.yaml"))
    for name in ("plain", "gone"):
        RulesetVersion.objects.create(ruleset=name, number=1, content=OLDER)
    RulesetVersion.objects.create(ruleset="gone", number=2)
    Limiter("plain").check({"ip": "203.0.113.7"})


def at(page: str, *arguments: object) -> str:
    return reverse(f"admin:{NAME}_{page}", args=arguments)


def plain() -> int:
    pk: int = Ruleset.objects.get(name="plain").pk
    return pk


def trial() -> int:
    pk: int = Rule.objects.get(name="trial").pk
    return pk


def signed_in(*codenames: str) -> Client:
    user, _ = User.objects.get_or_create(username="-".join(codenames) or "nobody", is_staff=True)
    found = Permission.objects.filter(codename__in=codenames)
    assert len(found) == len(codenames)
    user.user_permissions.set(found)
    client = Client()
    client.force_login(user)
    return client


LOOKS: dict[str, tuple[Callable[[], str], set[str]]] = {
    "changelist": (lambda: at("changelist"), {*RIGHTS}),
    "add": (lambda: at("add"), {"change_limits"}),
    "change": (lambda: at("change", plain()), {*RIGHTS}),
    "delete": (lambda: at("delete", plain()), {"change_limits"}),
    "history": (lambda: at("history", plain()), {*RIGHTS}),
    "restore": (lambda: at("restore", plain(), 1), {"change_limits"}),
    "switch": (lambda: at("switch", plain(), "off"), {"switch_rulesets"}),
    "turn": (lambda: at("turn", plain(), trial(), "promote"), {"change_limits"}),
    "export": (lambda: at("export", plain()), {*RIGHTS}),
    "export_all": (lambda: at("export_all"), {*RIGHTS}),
    "import": (lambda: at("import"), WRITES),
    "explain": (lambda: at("explain"), {*RIGHTS}),
    "live": (lambda: at("live", "plain"), {*RIGHTS}),
    "deleted": (lambda: at("deleted"), {*RIGHTS}),
    "past": (lambda: at("past", "gone"), {*RIGHTS}),
    "replay": (lambda: at("replay"), {*RIGHTS}),
    "suggest": (lambda: at("suggest"), {*RIGHTS}),
    "replay_edited": (lambda: at("replay_edited", plain()), {*RIGHTS}),
    "undelete": (lambda: at("undelete", "gone", 1), {"change_limits"}),
}


@pytest.mark.parametrize("page", LOOKS)
def test_pages_are_open_only_with_their_permission(page):
    url, may = LOOKS[page]
    answers = {right: signed_in(right).get(url()).status_code for right in RIGHTS}
    assert answers == {right: 200 if right in may else 403 for right in RIGHTS}
    assert signed_in().get(url()).status_code == 403
    assert signed_in(*OTHERS).get(url()).status_code in (403, 200 if "view_ruleset" in may else 403)
    assert Client().get(url()).status_code == 302


def test_these_tests_cover_every_page():
    there = {url.name.removeprefix(f"{NAME}_") for url in admin.site.get_model_admin(Ruleset).get_urls() if url.name}
    assert there == set(LOOKS)


def edited(limiter: str, **fields: str) -> Posts:
    """Post a ruleset's page as a user with all permissions received it, with some changed fields."""
    url = at("change", Ruleset.objects.get(name=limiter).pk)
    data = Page(root(), url).data | fields
    return lambda client: client.post(url, data)


def root() -> Client:
    client = Client()
    client.force_login(User.objects.get_or_create(username="root", is_staff=True, is_superuser=True)[0])
    return client


def confirmed(url: str, **data: str) -> Posts:
    """Press the button of a confirmation that was shown to a user with permission."""
    shown = html.unescape((root().post(url, data) if data else root().get(url)).content.decode())
    seen = re.search(r'name="confirmed" value="(\w+)"', shown)
    assert seen, url
    return lambda client: client.post(url, {**data, "confirmed": seen[1], "reason": "because"})


def added() -> Posts:
    page = Page(root(), at("add"))
    page.data["name"] = "new"
    page.add(name="r", action="limit", limit="1", period="1m", characteristics="ip", match="{}")
    return lambda client: client.post(page.url, page.data)


def chosen() -> Posts:
    data = {"action": "delete_selected", "_selected_action": plain(), "post": "yes"}
    return lambda client: client.post(at("changelist"), data)


def reset() -> Posts:
    asked = {"limiter": "plain", "method": "GET", "ip": "203.0.113.7", "reset": "1", "reason": "because"}
    return lambda client: client.post(at("explain"), asked)


CHANGES: dict[str, tuple[Callable[[], Posts], str]] = {
    "add": (added, "change_limits"),
    "save as new": (lambda: edited("plain", name="copied", _saveasnew="1"), "change_limits"),
    "change a limit": (lambda: edited("plain", **{"rules-0-limit": "9"}), "change_limits"),
    "rename": (lambda: edited("plain", name="renamed"), "change_limits"),
    "reorder": (lambda: edited("plain", **{"rules-0-position": "99"}), "change_limits"),
    "delete a rule": (lambda: edited("plain", **{"rules-0-DELETE": "on"}), "change_limits"),
    "change a skip rule": (lambda: edited("search", **{"rules-0-match": "{}"}), "write_skip_rules"),
    "change the mode": (lambda: edited("plain", mode="off"), "switch_rulesets"),
    "delete": (lambda: lambda client: client.post(at("delete", plain()), {"post": "yes"}), "change_limits"),
    "delete chosen ones": (chosen, "change_limits"),
    "restore": (lambda: confirmed(at("restore", plain(), 1)), "change_limits"),
    "restore a deleted one": (lambda: confirmed(at("undelete", "gone", 1)), "change_limits"),
    "switch": (lambda: confirmed(at("switch", plain(), "off")), "switch_rulesets"),
    "promote": (lambda: confirmed(at("turn", plain(), trial(), "promote")), "change_limits"),
    "import": (lambda: confirmed(at("import"), text=ruleset_text.dump({"plain": OLDER})), "change_limits"),
    "import a mode": (
        lambda: confirmed(at("import"), text=TEXT.replace("plain:\n", "plain:\n  mode: off\n")),
        "switch_rulesets",
    ),
    "reset": (reset, "reset_counters"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_made_only_with_their_permission(change, keys, redis_client):
    def state() -> tuple[Any, ...]:
        return ruleset_text.dump(ruleset_text.stored()), [(key, redis_client.get(key)) for key in keys()]

    ready, right = CHANGES[change]
    post = ready()
    before = state()
    for others in ((), OTHERS, *((each,) for each in RIGHTS if each != right)):
        post(signed_in(*others))
        assert state() == before, others
    # Requests of anonymous users and from other sites change nothing.
    post(Client())
    cautious = Client(enforce_csrf_checks=True)
    cautious.cookies = root().cookies
    assert post(cautious).status_code == 403
    assert state() == before
    post(signed_in(right))
    assert state() != before
