"""The replay and suggest pages, over HTTP."""

from __future__ import annotations

import gzip
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.admin.pages import traffic_form
from django_ratelimit_rules.models import Rule as RuleRow
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.testing import override_ruleset
from tests.admin.test_admin import Page
from tests.replay.test_logs import LINE, LOG
from tests.servers import AWAY

REPLAY = reverse("admin:django_ratelimit_rules_ruleset_replay")
SUGGEST = reverse("admin:django_ratelimit_rules_ruleset_suggest")
DRAFT = "site:\n  rules:\n    - {name: clients, characteristics: [ip], limit: 30, period: 1h}\n"
LIVE = [Rule("clients", characteristics=["ip"], limit=100, period="1h")]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _live():
    with override_ruleset("site", LIVE):
        yield


def log(content: bytes | None = None) -> SimpleUploadedFile:
    return SimpleUploadedFile("access.log", LOG.read_bytes() if content is None else content)


def ask(client: Any, url: str = REPLAY, **said: Any) -> str:
    form = {"limiter": "site", "traffic": "upload", "replay": "Replay", "draft": DRAFT, **said}
    answer = client.post(url, form)
    assert answer.status_code == 200
    return answer.content.decode()


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page[page.index('id="content-main"') :]))


def test_a_draft_over_an_uploaded_log_is_compared_with_the_live_rules(admin_client):
    said = words(ask(admin_client, file=log()))
    assert "site: 410 of 9,999 requests would have been blocked (4.10 %)" in said
    assert "From 2015-05-17 05:05:00 to 2015-05-20 16:05:59" in said
    assert re.search(r"clients limit 30 per 1 h by ip 9,999 410 410 9,999 0 0", said)
    assert "410 more requests blocked, 0 no longer." in said


def test_numbers_that_a_skip_rule_lacks_are_dashes_in_draft_and_live_rules(admin_client):
    rules = [Rule("staff", action="skip", match={"user": "1"}), Rule("clients", limit=9, period=60)]
    with override_ruleset("site", rules):
        said = words(ask(admin_client, file=log(), draft="", enforce="on"))
    assert "staff skip: let through uncounted when user is 1 0 \u2013 \u2013 0 \u2013 \u2013 " in said


def test_a_file_that_is_chosen_is_meant_whatever_the_list_says(admin_client):
    assert "site: 410 of 9,999 requests would have been blocked (4.10 %)" in words(
        ask(admin_client, traffic="record", file=log())
    )


def test_blocked_clients_are_shown_with_time_and_duration(admin_client):
    line = LINE.encode() + b"\n"
    said = words(ask(admin_client, file=log(line * 32)))
    assert "192.0.2.7 clients 2 1 h 0 min" in said.replace("1 h ", "1 h 0 min ") or "192.0.2.7 clients 2 1 h" in said
    assert "2015-05-17 05:05:03 for 1 h" in said


def test_the_chart_has_words_and_a_table(admin_client):
    page = ask(admin_client, file=log())
    figure = ElementTree.fromstring(re.search(r'<figure class="ratelimit-picture.*?</figure>', page, re.S)[0])
    svg = figure.find(".//svg")
    texts = {each.get("id"): each.text for each in svg.iter() if each.get("id")}
    assert svg.get("role") == "img"
    assert [texts[key] for key in svg.get("aria-labelledby").split()] == [
        "site: the traffic over time",
        "9,999 calls, 410 over a limit, 410 blocked, at most 136 in 1 h.",
    ]
    assert "".join(figure.find("figcaption").itertext()) == texts[svg.get("aria-labelledby").split()[1]]
    assert [path.get("class") for path in svg.iter("path")] == [
        "ratelimit-bar-passed",
        "ratelimit-bar-exceeded",
        "ratelimit-bar-blocked",
    ]
    table = re.search(r'<table class="visually-hidden"><caption>The traffic.*?</table>', page, re.S)[0]
    rows = [
        [int(cell.replace(",", "")) for cell in re.findall(r"<td>([\d,]+)</td>", row)]
        for row in table.split("<tr>")[2:]
    ]
    assert [sum(column) for column in zip(*rows, strict=True)] == [9999, 410, 410]


def test_bad_lines_are_named_and_a_compressed_log_is_read(admin_client):
    content = gzip.compress(LINE.encode() + b"\nnonsense\n" + LINE.encode())
    said = words(ask(admin_client, file=log(content)))
    assert "1 line could not be read" in said
    assert "Line 2: no request" in said


def test_without_a_draft_the_rules_in_force_are_replayed(admin_client):
    page = ask(admin_client, draft="", file=log())
    assert "0 of 9,999" in page
    assert "Against the live rules" not in page


def test_our_record_is_replayed_and_its_contents_are_shown(admin_client, settings):
    settings.RATELIMIT_RULES_RECORD = 1
    for _ in range(33):
        Limiter("site").check({"ip": "203.0.113.7"})
    said = words(ask(admin_client, traffic="record"))
    assert "3 of 33 requests would have been blocked (9.09 %)" in said
    assert "33 calls are recorded. RATELIMIT_RULES_RECORD covers all clients." in said


def test_properties_that_the_traffic_has_as_digests_are_named(admin_client, settings):
    settings.RATELIMIT_RULES_RECORD = 1
    Limiter("site").check({"ip": "203.0.113.7"})
    draft = DRAFT.replace("limit: 30", "limit: 30, match: {header.x-key: ABC}")
    assert "digests: conditions can only ask whether it exists (clients)" in words(
        ask(admin_client, traffic="record", draft=draft)
    )


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"draft": "site: [{name: x}]"}, "draft:1"),
        ({"draft": "login: []"}, "The draft has no rules for site, only for login."),
        ({"limiter": "none"}, "Select a valid choice"),
        ({}, "Choose a file."),
        ({"traffic": "record"}, "Nothing is recorded yet. Choose a file"),
        ({"traffic": "x"}, "Select a valid choice"),
    ],
)
def test_unusable_input_is_an_error_at_its_field(admin_client, said, reason):
    page = ask(admin_client, **said)
    assert reason in page
    assert "errornote" in page
    assert "would have been blocked" not in page


def test_a_file_too_large_is_refused_packed_and_unpacked(admin_client, monkeypatch):
    monkeypatch.setattr(traffic_form, "MAX_UNPACKED", 1000)
    assert "The file unpacks to more than 1000" in ask(
        admin_client, file=log(gzip.compress(LINE.encode() * 100))
    ).replace(" ", " ")
    monkeypatch.setattr(traffic_form, "MAX_UPLOAD", 1000)
    assert "The file is larger than" in ask(admin_client, file=log())


def test_an_unavailable_redis_is_reported(admin_client, settings):
    settings.CACHES = AWAY
    assert "ratelimit-problem" in ask(admin_client, traffic="record")


def test_texts_of_the_log_are_escaped(admin_client):
    line = LINE.replace("Agent (x; 1.0)", "<script>alert(1)</script>").encode() + b"\n"
    draft = DRAFT.replace("[ip]", "[header.user-agent]").replace("30", "1")
    page = ask(admin_client, draft=draft, file=log(line * 3))
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page


def test_the_saved_rules_are_the_draft_to_begin_with(admin_client):
    row = Ruleset.objects.create(name="site")
    RuleRow.objects.create(ruleset=row, name="saved", characteristics=["ip"], limit=7, period=60)
    page = admin_client.get(REPLAY, {"limiter": "site"}).content.decode()
    assert "- name: saved" in page
    assert '<option value="site" selected>' in page


def test_a_ruleset_is_replayed_as_it_was_edited_and_nothing_is_saved(admin_client):
    row = Ruleset.objects.create(name="site", mode="dry_run")
    rule = RuleRow.objects.create(ruleset=row, name="saved", characteristics=["ip"], limit=7, period=60)
    page = Page(admin_client, reverse("admin:django_ratelimit_rules_ruleset_change", args=[row.pk]))
    url = reverse("admin:django_ratelimit_rules_ruleset_replay_edited", args=[row.pk])
    assert f'formaction="{url}"' in page.text
    form = {**page.data, "rules-0-limit": "99", "mode": "enforce"}
    answer = admin_client.post(url, form)
    said = answer.content.decode()
    assert "limit: 99" in said
    assert "mode: enforce" in said
    rule.refresh_from_db()
    row.refresh_from_db()
    assert (rule.limit, row.mode) == (7, "dry_run")
    broken = admin_client.post(url, {**form, "rules-0-limit": "many"}).content.decode()
    assert "Please correct the error" in broken
    assert 'name="rules-0-limit" value="many"' in broken
    rule.refresh_from_db()
    assert rule.limit == 7


def test_a_limit_is_suggested_from_an_uploaded_log(admin_client):
    said = ask(admin_client, SUGGEST, file=log(), by="ip", period="1m", match="{}", percent="5")
    text = words(said)
    assert "9,999 calls of 1,753 clients in 3,052 windows." in text
    assert "p50 1 , p95 8 , p99 33 , at most 108" in text
    assert "5.0 % 9 87 1,851" in text
    assert "limit: 9" in said
    assert "Refused 87 of 1,753 clients and 1,851 of 9,999 calls" in text
    assert "A limit of 9 blocks 87 of them." in text
    assert '<svg viewBox="0 0 504 120"' in said


def test_a_suggestion_by_an_unrecorded_property_reports_it(admin_client):
    text = words(ask(admin_client, SUGGEST, file=log(), by="post.email", period="1d", match="{}", percent="5"))
    assert "9,999 calls of 1 client in 4 windows." in text
    assert " 1 client by the calls of its busiest window" in text
    assert "This traffic does not contain post.email , so it is treated as missing." in text


def test_a_suggestion_leads_to_a_replay(admin_client):
    page = admin_client.post(REPLAY, {"limiter": "site", "draft": DRAFT}).content.decode()
    assert "name: clients, characteristics: [ip], limit: 30" in page
    assert "errornote" not in page


def test_a_limit_is_suggested_from_a_rules_live_counters(admin_client):
    for client in range(4):
        for _ in range(client + 1):
            Limiter("site").check({"ip": f"192.0.2.{client}"})
    asked = admin_client.get(SUGGEST, {"limiter": "site", "rule": "clients"}).content.decode()
    assert 'name="rule" value="clients"' in asked
    text = words(ask(admin_client, SUGGEST, traffic="counters", rule="clients", percent="25", by="ip", match="{}"))
    assert "10 calls of 4 clients in 4 windows." in text
    assert "25.0 % 3 1 1" in text


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"traffic": "counters", "rule": "", "file": ""}, "Enter the name of a rule in force"),
        ({"rule": "none"}, "has no rule none"),
        ({"by": "|"}, "not a property"),
        ({"period": "1w"}, "not a duration"),
        ({"match": '{"ip": {"x": 1}}'}, "unknown operator"),
        ({"percent": "101"}, "less than or equal to 100"),
    ],
)
def test_unmeasurable_input_is_an_error_at_its_field(admin_client, said, reason):
    page = ask(admin_client, SUGGEST, **{"file": log(LINE.encode()), "by": "ip", "match": "{}", "percent": "1", **said})
    assert reason in page
    assert "errornote" in page


def test_strangers_see_nothing_and_a_user_who_may_view_may_replay(client):
    for url in (REPLAY, SUGGEST):
        assert client.get(url).status_code == 302
    user = User.objects.create_user("staff", is_staff=True)
    client.force_login(user)
    row = Ruleset.objects.create(name="site")
    edited = reverse("admin:django_ratelimit_rules_ruleset_replay_edited", args=[row.pk])
    for url in (REPLAY, SUGGEST, edited):
        assert client.get(url).status_code == 403
        assert client.post(url).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_ruleset"))
    for url in (REPLAY, SUGGEST, edited):
        assert client.get(url).status_code == 200


def test_the_pages_are_linked_from_the_rulesets(admin_client):
    row = Ruleset.objects.create(name="site")
    page = admin_client.get(reverse("admin:django_ratelimit_rules_ruleset_change", args=[row.pk])).content.decode()
    assert f'href="{REPLAY}?limiter=site"' in page
    assert f'href="{SUGGEST}?limiter=site"' in page
    assert (
        f'href="{REPLAY}"'
        in admin_client.get(reverse("admin:django_ratelimit_rules_ruleset_changelist")).content.decode()
    )
