"""Switches, versions, text and permissions over HTTP, in the real admin, with users of each permission."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_ratelimit_rules import Rule as CodeRule
from django_ratelimit_rules import rulesets
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from django_ratelimit_rules.rulesets import history
from django_ratelimit_rules.rulesets import text as ruleset_text
from tests.admin.test_admin import ADD, CHANGE, LIST, NEW, Page

pytestmark = pytest.mark.django_db

HISTORY = "admin:django_ratelimit_rules_ruleset_history"
RESTORE = "admin:django_ratelimit_rules_ruleset_restore"
SWITCH = "admin:django_ratelimit_rules_ruleset_switch"
TURN = "admin:django_ratelimit_rules_ruleset_turn"
IMPORT = "admin:django_ratelimit_rules_ruleset_import"
EXPORT = "admin:django_ratelimit_rules_ruleset_export"
EXPORT_ALL = "admin:django_ratelimit_rules_ruleset_export_all"
DELETED = "admin:django_ratelimit_rules_ruleset_deleted"
PAST = "admin:django_ratelimit_rules_ruleset_past"
UNDELETE = "admin:django_ratelimit_rules_ruleset_undelete"
DELETE = "admin:django_ratelimit_rules_ruleset_delete"
TEXT = """\
search:
  description: The public search
  rules:
    - name: staff
      action: skip
      match: {is_staff: true}
    - name: per_ip
      characteristics: [ip]
      limit: 5
      period: 1m
    - name: trial
      action: log
      characteristics: [ip]
      limit: 2
      period: 1m
"""


@pytest.fixture
def ruleset() -> Ruleset:
    ruleset_text.write(ruleset_text.load(TEXT, "test.yaml"))
    return Ruleset.objects.get()


@pytest.fixture
def user():
    """Return a function that signs in a staff user with some permissions."""

    def signed_in(*codenames: str) -> Client:
        somebody = User.objects.create_user("grace", password="x", is_staff=True)
        found = Permission.objects.filter(codename__in=codenames)
        assert len(found) == len(codenames)
        somebody.user_permissions.add(*found)
        client = Client()
        client.force_login(somebody)
        return client

    return signed_in


def now() -> str:
    return ruleset_text.dump(ruleset_text.stored())


def read(response: Any) -> str:
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def confirm(client: Client, url: str, reason: str = "because", **data: Any) -> Any:
    """Open a page, or send text to it, and press the button of the confirmation."""
    shown = client.post(url, data) if data else client.get(url)
    assert shown.status_code == 200, shown
    step = shown.context["pending"]
    return client.post(url, {**step.hidden, "confirmed": shown.context["seen"], "reason": reason})


def plain(text: str) -> ruleset_text.Plain:
    return ruleset_text.of_tier(ruleset_text.load(text, "test.yaml")["search"])


def latest() -> RulesetVersion:
    return RulesetVersion.objects.latest("number")


# Versions


def test_each_save_of_the_form_is_a_version_with_author_and_reason(admin_client, ruleset):
    url = reverse(CHANGE, args=[ruleset.pk])
    page = Page(admin_client, url).fill(1, limit="7")
    page.data["change_reason"] = "INC-7: too tight"
    assert page.save()
    version = latest()
    assert (version.number, version.user, version.action) == (2, "admin", "saved in the admin")
    (text,) = history.as_texts([version])
    assert (version.reason, text) == ("INC-7: too tight", now())
    assert "limit: 7" in text
    assert f'2 (<a href="{reverse(HISTORY, args=[ruleset.pk])}">history</a>)' in Page(admin_client, url).text


def test_a_save_that_changes_nothing_is_no_version(admin_client, ruleset):
    url = reverse(CHANGE, args=[ruleset.pk])
    assert Page(admin_client, url).save()
    assert Page(admin_client, url).save()
    assert RulesetVersion.objects.count() == 1


def test_the_history_shows_author_action_reason_and_diff_and_an_old_version_is_restored(admin_client, ruleset):
    url = reverse(CHANGE, args=[ruleset.pk])
    before = now()
    page = Page(admin_client, url).fill(1, limit="7")
    page.data["change_reason"] = "INC-7"
    assert page.save()
    text = read(admin_client.get(reverse(HISTORY, args=[ruleset.pk])))
    for words in ("Version 2", "admin: saved in the admin", "INC-7", "limit: 5 → 7", "Restore version 1", "Version 1"):
        assert words in text
    assert "Restore version 2" not in text
    restore = reverse(RESTORE, args=[ruleset.pk, 1])
    assert "limit: 7 → 5" in read(admin_client.get(restore))
    assert confirm(admin_client, restore).status_code == 302
    assert now() == before
    assert (latest().number, latest().action, latest().reason) == (3, "restored version 1", "because")


def test_a_missing_version_is_a_404_and_an_unreadable_one_has_a_reason(admin_client, ruleset):
    assert admin_client.get(reverse(RESTORE, args=[ruleset.pk, 9])).status_code == 404
    RulesetVersion.objects.create(
        ruleset="search", number=1, content={"rules": [{"name": "x", "limit": False, "period": "1m"}]}
    )
    answer = admin_client.get(reverse(RESTORE, args=[ruleset.pk, 1]), follow=True)
    assert "cannot be restored" in read(answer)


def test_deleting_a_ruleset_and_renaming_it_are_versions_of_both_names(admin_client, ruleset):
    page = Page(admin_client, reverse(CHANGE, args=[ruleset.pk]))
    page.data["name"] = "find"
    assert page.save()
    assert Ruleset.objects.get().version == 1
    assert admin_client.post(reverse(DELETE, args=[ruleset.pk]), {"post": "yes"}).status_code == 302
    said = [(v.ruleset, v.number, v.content is not None) for v in RulesetVersion.objects.order_by("ruleset", "number")]
    assert said == [("find", 1, True), ("find", 2, False), ("search", 1, True), ("search", 2, False)]


def test_a_deleted_ruleset_is_listed_with_its_history_and_comes_back(admin_client, ruleset):
    before = now()
    assert admin_client.post(reverse(DELETE, args=[ruleset.pk]), {"post": "yes"}).status_code == 302
    listed = read(admin_client.get(reverse(LIST)))
    assert f'href="{reverse(DELETED)}"' in listed
    past = reverse(PAST, args=["search"])
    gone = read(admin_client.get(reverse(DELETED)))
    assert f'<a href="{past}">search</a>' in gone
    assert "admin</td><td>deleted in the admin" in gone
    text = read(admin_client.get(past))
    assert "Removed: ruleset search" in " ".join(re.sub("<[^>]*>", " ", text).split()).replace("- Removed", "Removed")
    assert "Restore version 1" in text
    assert "Restore version 2" not in text, "which says that there is none"
    undelete = reverse(UNDELETE, args=["search", 1])
    assert confirm(admin_client, undelete).status_code == 302
    assert now() == before
    assert (latest().number, latest().reason, Ruleset.objects.get().version) == (3, "because", 3)
    assert "No ruleset was deleted" in read(admin_client.get(reverse(DELETED)))
    assert admin_client.get(past).url == reverse(HISTORY, args=[Ruleset.objects.get().pk])
    assert admin_client.get(reverse(PAST, args=["never"])).status_code == 404
    assert admin_client.get(reverse(UNDELETE, args=["never", 1])).status_code == 404


def test_a_renamed_rulesets_old_name_is_among_the_deleted(admin_client, ruleset):
    page = Page(admin_client, reverse(CHANGE, args=[ruleset.pk]))
    page.data["name"] = "find"
    assert page.save()
    assert reverse(PAST, args=["search"]) in read(admin_client.get(reverse(DELETED)))


def test_operators_texts_are_escaped_in_history_and_confirmation(admin_client, ruleset):
    Ruleset.objects.update(description="<script>x</script>")
    Page(admin_client, reverse(CHANGE, args=[ruleset.pk])).save()
    for url in (reverse(HISTORY, args=[ruleset.pk]), reverse(SWITCH, args=[ruleset.pk, "off"])):
        assert "<script>x" not in admin_client.get(url).content.decode()


# Switches


@pytest.mark.parametrize("mode", ["dry_run", "off"])
def test_a_ruleset_is_switched_and_back_after_a_page_with_the_effect(admin_client, ruleset, mode):
    url = reverse(SWITCH, args=[ruleset.pk, mode])
    text = read(admin_client.get(url))
    assert f"mode: not stated → {mode}" in text
    assert "1 limit will no longer block: per_ip" in text
    assert Ruleset.objects.get().mode == ""
    assert confirm(admin_client, url, "incident").status_code == 302
    assert (Ruleset.objects.get().mode, latest().reason) == (mode, "incident")
    rulesets.reload()
    assert rulesets.get("search").mode == mode
    assert confirm(admin_client, reverse(SWITCH, args=[ruleset.pk, "enforce"])).status_code == 302
    assert Ruleset.objects.get().mode == "enforce"
    assert [v.action for v in RulesetVersion.objects.order_by("number")][1:] == [
        f"switched to {mode.replace('_', ' ')}",
        "switched to enforce",
    ]


def test_the_page_names_the_limits_of_all_tiers_that_a_switch_concerns_and_no_expired_one(
    admin_client, settings, tmp_path
):
    settings.RATELIMIT_RULES_FILE = tmp_path / "rules.yaml"
    (tmp_path / "rules.yaml").write_text("layered:\n  rules:\n    - {name: above, limit: 9, period: 1m}\n")
    ruleset = Ruleset.objects.create(name="layered")
    ruleset.rules.create(name="here", limit=5, period=60)
    ruleset.rules.create(name="over", limit=5, period=60, position=1, expires_at=timezone.now() - timedelta(days=1))
    rulesets.reload()
    text = read(admin_client.get(reverse(SWITCH, args=[ruleset.pk, "dry_run"])))
    assert "2 limits will no longer block: above, here." in text


def test_an_unreadable_rule_does_not_block_the_off_switch(admin_client, ruleset):
    Rule.objects.filter(name="per_ip").update(match={"path": {"regex": "("}})
    assert confirm(admin_client, reverse(SWITCH, args=[ruleset.pk, "off"])).status_code == 302
    assert Ruleset.objects.get().mode == "off"


def test_a_log_rule_is_promoted_and_demoted_again(admin_client, ruleset):
    before = now()
    page = read(admin_client.get(reverse(CHANGE, args=[ruleset.pk])))
    for name, turn in (("trial", "promote"), ("per_ip", "demote")):
        assert f'href="{reverse(TURN, args=[ruleset.pk, Rule.objects.get(name=name).pk, turn])}"' in page
    rule = Rule.objects.get(name="trial")
    url = reverse(TURN, args=[ruleset.pk, rule.pk, "promote"])
    text = read(admin_client.get(url))
    assert "action: log → limit" in text
    assert "blocked from now on" in text
    assert confirm(admin_client, url).status_code == 302
    assert Rule.objects.get(pk=rule.pk).action == "limit"
    assert latest().action == "promoted trial to limit"
    assert admin_client.get(url).status_code == 404
    assert confirm(admin_client, reverse(TURN, args=[ruleset.pk, rule.pk, "demote"])).status_code == 302
    assert now() == before
    skip = Rule.objects.get(name="staff")
    assert admin_client.get(reverse(TURN, args=[ruleset.pk, skip.pk, "demote"])).status_code == 404


def test_nothing_is_switched_when_the_rules_changed_since_the_page_was_shown(admin_client, ruleset):
    url = reverse(SWITCH, args=[ruleset.pk, "off"])
    seen = admin_client.get(url).context["seen"]
    Rule.objects.filter(name="per_ip").update(limit=6)
    answer = admin_client.post(url, {"confirmed": seen, "reason": "kept"})
    assert "have changed since" in read(answer)
    assert 'value="kept"' in answer.content.decode()
    assert Ruleset.objects.get().mode == ""


def test_the_page_warns_when_the_rules_file_makes_a_switch_useless(admin_client, ruleset, settings, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("search:\n  mode: enforce\n  rules: [{name: trial, limit: 1, period: 1m}]\n")
    settings.RATELIMIT_RULES_FILE = str(path)
    assert "The rules file sets the mode enforce" in read(admin_client.get(reverse(SWITCH, args=[ruleset.pk, "off"])))
    turn = reverse(TURN, args=[ruleset.pk, Rule.objects.get(name="trial").pk, "promote"])
    assert "The rules file has a rule of this name" in read(admin_client.get(turn))


# Text


def test_rules_are_downloaded_and_imported_after_the_diff_is_shown(admin_client, ruleset):
    one = admin_client.get(reverse(EXPORT, args=[ruleset.pk]))
    assert 'filename="search.yaml"' in one["Content-Disposition"]
    text = admin_client.get(reverse(EXPORT_ALL)).content.decode()
    assert text == one.content.decode() == now()
    changed = text.replace("limit: 5", "limit: 50")
    shown = admin_client.post(reverse(IMPORT), {"file": SimpleUploadedFile("new.yaml", changed.encode())})
    assert "limit: 5 → 50" in read(shown)
    assert now() == text
    assert confirm(admin_client, reverse(IMPORT), text=changed).status_code == 302
    assert now() == changed
    assert latest().action == "imported pasted text"


@pytest.mark.parametrize(
    "data", [{"text": "search:\n  - {name: r, limit: -1, period: 1m}"}, {"text": ""}, {"text": "["}]
)
def test_a_text_with_a_fault_is_refused_with_its_line_and_kept_for_repair(admin_client, ruleset, data):
    answer = read(admin_client.post(reverse(IMPORT), data))
    assert "text:2: rule 'r': limit" in answer or "not valid YAML" in answer or "Choose a file" in answer
    assert data["text"] in answer
    assert RulesetVersion.objects.count() == 0


def test_a_file_that_is_no_text_is_refused(admin_client):
    answer = admin_client.post(reverse(IMPORT), {"file": SimpleUploadedFile("x.yaml", b"\xff\xfe")})
    assert "not valid UTF-8" in read(answer)


def test_a_text_that_could_not_be_sent_again_for_confirmation_is_refused_at_once(admin_client, ruleset, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 20_000
    text = now().replace("The public search", "x" * 15_000)
    for data in ({"file": SimpleUploadedFile("new.yaml", text.encode())}, {"text": text}):
        assert "allows. Import fewer rulesets" in read(admin_client.post(reverse(IMPORT), data))


# Permissions


def test_a_user_who_may_only_view_cannot_write_in_any_way(user, ruleset):
    reader = user("view_ruleset", "view_rule", "change_ruleset", "change_rule", "add_ruleset", "delete_ruleset")
    before = now()
    rule = Rule.objects.get(name="trial")
    RulesetVersion.objects.create(ruleset="search", number=1)
    page = read(reader.get(reverse(CHANGE, args=[ruleset.pk])))
    assert "limit 5 per 1 min by ip" in page
    assert 'name="rules-0-limit"' not in page
    assert "Switch off" not in page
    assert reader.get(reverse(HISTORY, args=[ruleset.pk])).status_code == 200
    assert reader.get(reverse(EXPORT, args=[ruleset.pk])).status_code == 200
    for url in (
        reverse(CHANGE, args=[ruleset.pk]),
        reverse(ADD),
        reverse(DELETE, args=[ruleset.pk]),
        reverse(SWITCH, args=[ruleset.pk, "off"]),
        reverse(TURN, args=[ruleset.pk, rule.pk, "promote"]),
        reverse(RESTORE, args=[ruleset.pk, 1]),
        reverse(IMPORT),
    ):
        assert reader.post(url, {"post": "yes", "confirmed": "x", "text": TEXT}).status_code == 403, url
    assert reader.post(reverse(LIST), {"action": "delete_selected", "_selected_action": ruleset.pk}).status_code != 500
    assert now() == before


def test_a_user_without_permission_sees_nothing(user, ruleset):
    stranger = user()
    for url in (reverse(LIST), reverse(CHANGE, args=[ruleset.pk]), reverse(EXPORT_ALL), reverse(IMPORT)):
        assert stranger.get(url).status_code == 403


def test_a_user_who_may_change_limits_changes_only_limits(user, ruleset):
    client = user("change_limits")
    url = reverse(CHANGE, args=[ruleset.pk])
    assert Page(client, url).fill(1, limit="7").save()
    assert Page(client, url).add(**{**NEW, "name": "more"}).save()
    for typed in (
        {"number": 0, "match": "{}"},
        {"number": 0, "DELETE": "on"},
        {"number": 0, "action": "limit", "limit": "1", "period": "1m"},
        {"number": 1, "action": "skip", "limit": "", "period": "", "characteristics": ""},
        {"number": 0, "position": "99"},
        {"number": 0, "enabled": ""},
    ):
        before = now()
        page = Page(client, url).fill(**typed)
        if typed.get("enabled") == "":
            del page.data["rules-0-enabled"]
        assert not page.save(), typed
        assert "You may not write rules that let requests through (skip)" in page.text
        assert now() == before
    page = Page(client, url)
    page.data["mode"] = "off"
    assert page.save(), "a field that is not open is not read"
    assert Ruleset.objects.get().mode == ""
    assert client.get(reverse(SWITCH, args=[ruleset.pk, "off"])).status_code == 403
    turn = reverse(TURN, args=[ruleset.pk, Rule.objects.get(name="trial").pk, "promote"])
    assert confirm(client, turn).status_code == 302


def test_a_user_who_may_write_skip_rules_writes_skip_rules_and_no_limits(user, ruleset):
    client = user("write_skip_rules")
    url = reverse(CHANGE, args=[ruleset.pk])
    assert Page(client, url).fill(0, match='{"is_staff": true, "method": "GET"}').save()
    assert Page(client, url).add(name="bots", action="skip", match='{"bypass": true}').save()
    page = Page(client, url).fill(1, limit="7")
    assert not page.save()
    assert "You may not change limits" in page.text
    turn = reverse(TURN, args=[ruleset.pk, Rule.objects.get(name="trial").pk, "promote"])
    assert client.get(turn).status_code == 403
    assert client.post(reverse(DELETE, args=[ruleset.pk]), {"post": "yes"}).status_code == 403
    assert client.post(reverse(ADD), {"name": "other"}).status_code == 403


def test_a_user_who_may_switch_switches_and_changes_no_rule(user, ruleset):
    client = user("switch_rulesets")
    page = read(client.get(reverse(CHANGE, args=[ruleset.pk])))
    assert "Switch off" in page
    assert 'name="rules-0-limit"' not in page
    assert confirm(client, reverse(SWITCH, args=[ruleset.pk, "off"])).status_code == 302
    assert Ruleset.objects.get().mode == "off"
    turn = reverse(TURN, args=[ruleset.pk, Rule.objects.get(name="trial").pk, "promote"])
    assert client.get(turn).status_code == 403


@pytest.mark.parametrize(
    ("permission", "change"),
    [
        ("change_limits", ("action: skip", "action: skip\n      enabled: false")),
        ("change_limits", ("search:\n", "search:\n  mode: off\n")),
        ("write_skip_rules", ("limit: 5", "limit: 6")),
        ("switch_rulesets", ("limit: 5", "limit: 6")),
        ("reset_counters", ("limit: 5", "limit: 6")),
    ],
)
def test_an_import_and_a_restore_need_the_permission_for_their_changes(user, ruleset, permission, change):
    client = user(permission)
    before = now()
    text = before.replace(*change)
    assert text != before
    refused = client.post(reverse(IMPORT), {"text": text})
    assert refused.status_code == 403
    assert permission == "reset_counters" or "You may not" in refused.content.decode()
    assert client.post(reverse(IMPORT), {"text": text, "confirmed": "x"}).status_code == 403
    RulesetVersion.objects.create(ruleset="search", number=1, content=plain(text))
    assert client.post(reverse(RESTORE, args=[ruleset.pk, 1]), {"confirmed": "x"}).status_code == 403
    assert now() == before


def test_a_user_who_may_only_switch_cannot_import_a_new_ruleset(user, ruleset):
    text = now().replace("search:", "other:")
    assert user("switch_rulesets").post(reverse(IMPORT), {"text": text}).status_code == 403


def test_a_user_who_may_change_limits_imports_and_restores_limits(user, ruleset):
    client = user("change_limits")
    before = now()
    assert confirm(client, reverse(IMPORT), text=before.replace("limit: 5", "limit: 6")).status_code == 302
    assert "limit: 6" in now()
    assert confirm(client, reverse(RESTORE, args=[ruleset.pk, 1])).status_code == 302
    assert now() == before


def test_deleting_rulesets_with_skip_rules_needs_both_permissions_one_by_one_and_together(user, ruleset):
    client = user("change_limits")
    chosen = {"action": "delete_selected", "_selected_action": ruleset.pk, "post": "yes"}
    assert client.post(reverse(DELETE, args=[ruleset.pk]), {"post": "yes"}).status_code == 403
    assert client.post(reverse(LIST), chosen).status_code == 403
    assert Rule.objects.count() == 3
    User.objects.get().user_permissions.add(Permission.objects.get(codename="write_skip_rules"))
    assert client.post(reverse(LIST), chosen).status_code == 302
    assert not Ruleset.objects.exists()


# Other tiers


def test_rules_of_file_and_code_are_on_the_page_and_one_of_code_is_overridden(
    admin_client, ruleset, settings, tmp_path
):
    path = tmp_path / "rules.yaml"
    path.write_text("search:\n  mode: enforce\n  rules: [{name: trial, limit: 9, period: 1h}]\n")
    settings.RATELIMIT_RULES_FILE = str(path)
    rulesets.define(
        "search", [CodeRule("per_user", limit=3, period=60, characteristics=["user"], match={"method": "GET"})]
    )
    url = reverse(CHANGE, args=[ruleset.pk])
    text = Page(admin_client, url).text
    for words in (
        "rules of the file",
        "limit 9 per 1 h",
        "The file sets the mode enforce",
        "It replaces rules of the admin: trial",
        "rules in code",
        "limit 3 per 1 min by user when method is GET",
        "override=per_user",
    ):
        assert words in text
    assert "override=trial" not in text
    page = Page(admin_client, f"{url}?override=per_user")
    assert page.save()
    rule = Rule.objects.get(name="per_user")
    assert (rule.limit, rule.characteristics, rule.match) == (3, ["user"], {"method": "GET"})
    assert "Overridden:" in Page(admin_client, url).text
    assert "override=per_user" not in Page(admin_client, url).text


def test_a_limiter_that_only_code_knows_is_overridden_from_the_add_page(admin_client):
    rulesets.define("uploads", [CodeRule("per_user", limit=3, period=60, characteristics=["user"])])
    assert "override=per_user" in Page(admin_client, f"{reverse(ADD)}?name=uploads").text
    assert Page(admin_client, f"{reverse(ADD)}?name=uploads&override=per_user").save()
    assert Ruleset.objects.get(name="uploads").rules.get().limit == 3
