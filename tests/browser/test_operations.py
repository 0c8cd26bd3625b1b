"""Operators' steps in an incident, in a browser: find the blocking rule, unblock, try, enforce, undo, import."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User

from django_ratelimit_rules import Limiter
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from tests.browser.conftest import NO_SCRIPT, address, opened, ready, row, save, sign_in
from tests.servers import wait_until

CLIENT = "203.0.113.7"


@pytest.fixture
def busy(ruleset) -> Ruleset:
    """Return the ruleset. Its first rule blocks a client's third call, in an hour with other refusals."""
    results = [Limiter("search").check({"ip": CLIENT}) for _ in range(3)]
    assert results[1].rule == "first"
    ruleset.decision = results[1].decision
    return ruleset


def keep_a_version(page, ruleset, reason: str) -> None:
    """Save the page of a ruleset, for the history."""
    page.goto(address("change", ruleset.pk))
    ready(page).get_by_label("Reason for the change").fill(reason)
    page.locator("[name=description]").fill(reason)
    save(page)


def ask_about_the_client(page) -> None:
    page.get_by_label("Limiter").select_option("search")
    page.get_by_label("Address").fill(CLIENT)
    page.get_by_role("button", name="Explain").click()


@pytest.mark.parametrize("page", [{}, {"java_script_enabled": False}], indirect=True, ids=["script", "no script"])
def test_the_blocking_rule_is_found_and_the_client_is_allowed_again(page, busy, keys):
    before = keys()
    page.goto(address("explain"))
    ask_about_the_client(page)
    assert page.locator(".ratelimit-verdict").inner_text().startswith("Blocked by first. The request may pass in ")
    rows = page.locator(".ratelimit-explanation tbody tr")
    assert [text.split("\n")[0] for text in rows.locator("th").all_inner_texts()] == ["first", "second", "third"]
    assert "blocks" in rows.first.inner_text()
    assert "1 of 1 used" in rows.first.inner_text()
    assert "not reached" in rows.last.inner_text()
    assert keys() == before
    page.get_by_label("Reason for the change").fill("ticket 7")
    page.get_by_role("button", name="Reset 3 counters").click()
    assert "Reset 3 counters of search." in page.locator(".messagelist").inner_text()
    assert page.locator(".ratelimit-verdict").inner_text() == "Allowed."
    assert "Reason: ticket 7" in LogEntry.objects.get().change_message
    assert Limiter("search").check({"ip": CLIENT}).action == "allow"


def test_an_explanation_leads_to_the_rule_and_its_limit_is_raised_there(page, busy):
    page.goto(address("explain") + f"?limiter=search&ip={CLIENT}")
    page.get_by_role("button", name="Explain").click()
    page.locator(".ratelimit-explanation").get_by_role("link", name="first").click()
    rule = row(ready(page), "first")
    rule.locator("[name$='-limit']").fill("100")
    page.get_by_label("Reason for the change").fill("INC-7: too tight")
    save(page)
    assert Rule.objects.get(name="first").limit == 100
    assert RulesetVersion.objects.latest("number").reason == "INC-7: too tight"
    second = Rule.objects.filter(name="second")
    wait_until(lambda: Limiter("search").peek({"ip": CLIENT}).rule == "third", what="the new limit to be in force")
    assert second.get().limit == 2


def test_a_decision_id_shows_why_that_request_was_refused(page, busy):
    page.goto(address("explain"))
    page.get_by_label("Decision id").fill(f" {busy.decision} ")
    page.get_by_role("button", name="Show").click()
    assert page.locator(".ratelimit-verdict").inner_text().startswith("Blocked by first")
    assert page.get_by_label("Address").input_value() == CLIENT
    page.get_by_label("Decision id").fill("nosuchid")
    page.get_by_role("button", name="Show").click()
    assert "There is no record of decision “nosuchid”" in page.locator(".messagelist").inner_text()


@pytest.mark.parametrize("page", [{}, {"java_script_enabled": False}], indirect=True, ids=["script", "no script"])
def test_a_limit_is_turned_into_a_shadow_promoted_again_and_that_is_in_the_history(page, busy):
    page.goto(address("change", busy.pk))
    ready(page).get_by_role("link", name="Demote first to log").click()
    said = page.locator("#content-main").inner_text()
    assert "first blocked 2 of 3 requests" in said
    assert "action: limit → log" in said
    page.get_by_label("Reason for the change").fill("looking at whom it hits")
    page.get_by_role("button", name="Demote").click()
    assert Rule.objects.get(name="first").action == "log"
    ready(page).get_by_role("link", name="Promote first to limit").click()
    page.get_by_role("link", name="Cancel").click()
    assert Rule.objects.get(name="first").action == "log"
    ready(page).get_by_role("link", name="Promote first to limit").click()
    page.get_by_role("button", name="Promote").click()
    assert Rule.objects.get(name="first").action == "limit"
    ready(page).locator(".object-tools").get_by_role("link", name="History").click()
    assert "looking at whom it hits" in page.locator(".ratelimit-version-list").inner_text()


def test_a_ruleset_is_switched_to_dry_run_and_its_page_shows_that(page, busy):
    page.goto(address("change", busy.pk))
    ready(page).get_by_role("link", name="Dry run").click()
    assert "search blocked 2 of 3 requests" in page.locator("#content-main").inner_text()
    page.get_by_role("button", name="Dry run").click()
    assert page.locator(".ratelimit-banner").inner_text().startswith("Dry run.")
    wait_until(lambda: Limiter("search").peek({"ip": CLIENT}).action == "allow", what="the dry run to be in force")


@pytest.mark.parametrize("page", [{}, {"java_script_enabled": False}], indirect=True, ids=["script", "no script"])
def test_a_change_is_undone_by_restoring_the_version_before(page, ruleset):
    keep_a_version(page, ruleset, "as it was")
    page.goto(address("change", ruleset.pk))
    if page.locator(".ratelimit-handle").count():
        ready(page)
    opened(page, "second").locator("[name$='-limit']").fill("2000")
    save(page)
    page.goto(address("history", ruleset.pk))
    page.get_by_role("link", name="Restore version 2").click()
    assert "limit: 2000 → 2" in page.locator(".ratelimit-changes").inner_text()
    page.get_by_label("Reason for the change").fill("that was a typing error")
    page.get_by_role("button", name="Restore version 2").click()
    assert Rule.objects.get(name="second").limit == 2
    assert RulesetVersion.objects.latest("number").reason == "that was a typing error"


@pytest.mark.parametrize("page", [{}, {"java_script_enabled": False}], indirect=True, ids=["script", "no script"])
def test_an_import_shows_the_difference_before_anything_is_written(page, ruleset, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("search:\n  rules:\n    - {name: first, characteristics: [ip], limit: 5, period: 1m}\n")
    page.goto(address("changelist"))
    page.get_by_role("link", name="Import").click()
    page.get_by_label("Text").fill("search:\n  rules:\n    - {name: first, limit: -1}\n")
    page.get_by_role("button", name="Show the changes").click()
    assert "limit" in page.locator(".errorlist").inner_text()
    page.get_by_label("Text").fill("")
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Show the changes").click()
    changes = page.locator(".ratelimit-changes").inner_text()
    assert "limit: 1 → 5" in changes
    assert "second: limit 2 per 1 min by ip" in changes
    assert Rule.objects.count() == 3
    page.get_by_label("Reason for the change").fill("reviewed")
    page.get_by_role("button", name="Import").click()
    assert list(Rule.objects.values_list("name", "limit")) == [("first", 5)]


def test_a_user_who_may_only_view_sees_everything_and_can_change_nothing(page, busy):
    user = User.objects.create_user("reader", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_ruleset"))
    sign_in(page, user)
    page.goto(address("change", busy.pk))
    assert row(page, "first").locator(".ratelimit-summary").inner_text() == "limit 1 per 1 min by ip"
    assert page.locator("#ruleset_form :is(input, select, textarea, button):visible").count() == 0
    assert page.get_by_role("link", name="Demote").count() == 0
    page.goto(address("explain") + f"?limiter=search&ip={CLIENT}")
    page.get_by_role("button", name="Explain").click()
    page.locator(".ratelimit-verdict").wait_for()
    assert page.get_by_role("button", name="Reset").count() == 0


@NO_SCRIPT
def test_without_javascript_the_live_page_shows_the_last_hour(page, busy):
    page.goto(address("live", "search"))
    table = page.locator(".ratelimit-explanation tbody tr").first
    assert "3 calls, 2 over the limit, 2 blocked in the last hour" in table.inner_text()
    page.locator(".ratelimit-heavy").get_by_role("link", name=CLIENT).first.click()
    assert page.locator(".ratelimit-verdict").inner_text().startswith("Blocked by first")
