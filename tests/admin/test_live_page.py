"""The live page and the charts of the rules, over HTTP."""

from __future__ import annotations

import re
import time
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.admin.charts.sparkline import Charts, Mark
from django_ratelimit_rules.models import Rule as RuleRow
from django_ratelimit_rules.models import Ruleset, RulesetVersion
from django_ratelimit_rules.monitoring.last_hour import Series
from django_ratelimit_rules.rulesets import history
from django_ratelimit_rules.testing import override_ruleset
from tests.servers import AWAY

COUNTING = {"characteristics": ["ip"], "limit": 2, "period": 60}
EXPLAIN = "/admin/django_ratelimit_rules/ruleset/explain/"
FIRST = 1_700_000_000 // 60 * 60


def series(calls: int = 0, exceeded: int = 0, blocked: int = 0, minute: int = 30) -> Series:
    return Series(*(tuple(number if at == minute else 0 for at in range(60)) for number in (calls, exceeded, blocked)))


@pytest.fixture
def url() -> str:
    return reverse("admin:django_ratelimit_rules_ruleset_live", args=["search"])


def test_a_chart_stacks_allowed_exceeded_and_blocked_calls():
    drawn = ElementTree.fromstring(f"<div>{Charts(FIRST).of('per_ip', series(10, 6, 2))}</div>")
    paths = {path.get("class"): path.get("d") for path in drawn.iter("path")}
    assert paths == {
        "ratelimit-bar-passed": "M120 36.0v-14.4h3v14.4z",
        "ratelimit-bar-exceeded": "M120 21.6v-14.4h3v14.4z",
        "ratelimit-bar-blocked": "M120 7.2v-7.2h3v7.2z",
    }


def test_a_single_call_in_a_busy_hour_is_still_seen():
    one, many = series(1, minute=3), series(1_000_000)
    both = Series(*(tuple(map(sum, zip(a, b, strict=True))) for a, b in
                    zip((one.calls, one.exceeded, one.blocked), (many.calls, many.exceeded, many.blocked),
                        strict=True)))  # fmt: skip
    assert "M12 36.0v-1.0h3" in Charts(FIRST).of("per_ip", both)


def test_numbers_that_contradict_each_other_are_drawn_as_far_as_there_is_room():
    drawn = ElementTree.fromstring(f"<div>{Charts(FIRST).of('per_ip', series(1, 9, 3))}</div>")
    assert [path.get("d") for path in drawn.iter("path")] == ["", "M120 36.0v-36.0h3v36.0z", "M120 0.0v-36.0h3v36.0z"]


def test_a_chart_has_a_name_a_description_and_a_table_for_screen_readers():
    marked = Charts(FIRST, [Mark(FIRST + 90, "version 3")])
    drawn = ElementTree.fromstring(f"<div>{marked.of('per_ip', series(1200, 6, 2))}</div>")
    svg = next(drawn.iter("svg"))
    ids = svg.get("aria-labelledby").split()
    said = {element.get("id"): element.text for element in svg.iter() if element.get("id")}
    assert said[ids[0]] == "per_ip: the last hour"
    assert said[ids[1]].startswith("1,200 calls, 6 over the limit, 2 blocked, 1,200 a minute at most. version 3 at ")
    rows = [[cell.text for cell in row] for row in drawn.iter("tr")]
    assert rows[0] == ["From", "Calls", "Over the limit", "Blocked"]
    assert [row[1:] for row in rows[1:]] == [["0", "0", "0"]] * 3 + [["1,200", "6", "2"]] + [["0", "0", "0"]] * 2
    assert 'class="ratelimit-mark" d="M6.0 0v36"' in marked.of("per_ip", series(1))


def test_a_quiet_rule_has_words_instead_of_a_chart_and_a_change_before_the_hour_no_mark():
    assert "No calls" in Charts(FIRST).of("per_ip", series())
    assert "svg" not in Charts(FIRST).of("per_ip", series())
    assert "ratelimit-mark" not in Charts(FIRST, [Mark(FIRST - 1, "version 1")]).of("per_ip", series(1))


@pytest.mark.django_db
def test_the_page_shows_the_hour_of_every_rule_in_force_and_the_fullest_counters(admin_client, url):
    RulesetVersion.objects.create(ruleset="search", number=7)
    with override_ruleset("search", [Rule("staff", action="skip", match={"user": "1"}), Rule("all", **COUNTING)]):
        for _ in range(3):
            Limiter("search").check({"ip": "203.0.113.7", "user": "2"})
        page = admin_client.get(url).content.decode()
    row = re.search(r'<th scope="row">all <.*?</tr>', page, re.S)[0]
    words = re.sub(r"<[^>]*>", "", row)
    assert "3 calls, 1 over the limit, 1 blocked in the last hour" in words
    assert "version 7 at" in words
    assert "No calls in the last hour." in re.search(r'<th scope="row">staff <.*?</tr>', page, re.S)[0]
    counter = re.search(r'<tr class="ratelimit-full">.*?</tr>', page, re.S)[0]
    assert re.search(r"203\.0\.113\.7.*<td>2 of 2</td><td>3</td><td>[1-9]", counter)
    assert (
        'href="/admin/django_ratelimit_rules/ruleset/explain/?limiter=search&amp;ip=203.0.113.7&amp;explain=now"'
        in counter
    )
    assert "1 of 1 counters" in page


@pytest.mark.django_db
def test_a_full_counter_of_a_log_rule_is_not_marked_as_one_that_blocks(admin_client, url):
    with override_ruleset("search", [Rule("shadow", action="log", **COUNTING), Rule("all", **COUNTING)]):
        for _ in range(3):
            Limiter("search").check({"ip": "203.0.113.7"})
        page = admin_client.get(url).content.decode()
    assert '<tr class="ratelimit-full"><th scope="row">all</th>' in page
    assert '<tr><th scope="row">shadow <span class="ratelimit-said">(log)</span></th>' in page


@pytest.mark.django_db
def test_thousands_are_apart_in_the_counters_of_both_pages(admin_client, url):
    with override_ruleset("search", [Rule("all", **COUNTING | {"limit": 12_000})]):
        Limiter("search").check({"ip": "203.0.113.7"}, cost=2_500)
        page = admin_client.get(url).content.decode()
        explained = admin_client.get(EXPLAIN, {"limiter": "search", "ip": "203.0.113.7", "explain": "now"})
    assert "<td>2,500 of 12,000</td><td>2,500</td>" in page
    assert "limit 12,000 per 1 min by ip" in page
    words = re.sub(r"<[^>]*>", "", explained.content.decode())
    assert "2,500 of 12,000 used per 1 min, 9,500 left" in words
    assert "2,500 calls counted" in words


@pytest.mark.django_db
def test_a_rule_that_is_gone_is_shown_for_the_rest_of_its_hour(admin_client, url):
    with override_ruleset("search", [Rule("old", **COUNTING)]):
        Limiter("search").check({"ip": "203.0.113.7"})
    with override_ruleset("search", [Rule("new", **COUNTING)]):
        page = admin_client.get(url).content.decode()
    assert "no longer in force" in re.search(r'<th scope="row">old<.*?</tr>', page, re.S)[0]


@pytest.mark.django_db
def test_no_client_written_text_is_on_the_page(admin_client, url):
    with override_ruleset("search", [Rule("all", **COUNTING | {"characteristics": ["header.x-key"]})]):
        Limiter("search").check({"header.x-key": "SECRET"})
        page = admin_client.get(url).content.decode()
    assert "SECRET" not in page
    assert "<code>#" in page


@pytest.mark.django_db
@pytest.mark.parametrize("live", [True, False])
def test_without_redis_and_switched_off_the_page_reports_it(admin_client, url, settings, live):
    settings.RATELIMIT_RULES_LIVE = live
    if live:
        settings.CACHES = AWAY
    page = admin_client.get(url).content.decode()
    assert ("failed" if live else "RATELIMIT_RULES_LIVE is off") in page


@pytest.mark.django_db
def test_strangers_and_staff_without_permission_see_nothing(client, url):
    assert client.get(url).status_code == 302
    client.force_login(User.objects.create_user("staff", is_staff=True))
    assert client.get(url).status_code == 403


@pytest.mark.django_db
def test_a_long_ruleset_in_use_is_shown_in_few_queries_and_little_time(
    admin_client, url, django_assert_max_num_queries
):
    rules = [Rule(f"r{number}", **COUNTING | {"limit": 10**6}) for number in range(200)]
    with override_ruleset("search", rules):
        for number in range(5):
            Limiter("search").check({"ip": f"203.0.113.{number}"})
        with django_assert_max_num_queries(12):
            started = time.process_time()
            assert admin_client.get(url).status_code == 200
            assert time.process_time() - started < 2


@pytest.mark.django_db
def test_a_rulesets_own_page_has_the_chart_beside_the_rule(admin_client):
    ruleset = Ruleset.objects.create(name="search")
    RuleRow.objects.create(ruleset=ruleset, name="all", **COUNTING)
    with override_ruleset("search", [Rule("all", **COUNTING)]):
        Limiter("search").check({"ip": "203.0.113.7"})
        page = admin_client.get(reverse("admin:django_ratelimit_rules_ruleset_change", args=[ruleset.pk]))
    assert "all: the last hour" in page.content.decode()


@pytest.mark.django_db(transaction=True)
def test_the_version_in_force_and_the_time_of_its_change_are_on_both_pages(admin_client, url):
    with history.changing(["search"], history.Author("ann", "made")):
        ruleset = Ruleset.objects.create(name="search")
        RuleRow.objects.create(ruleset=ruleset, name="all", **COUNTING)
    Limiter("search").check({"ip": "203.0.113.7"})
    live = admin_client.get(url).content.decode()
    page = admin_client.get(reverse("admin:django_ratelimit_rules_ruleset_change", args=[ruleset.pk])).content.decode()
    assert "Version 1 is in force" in live
    for text in (live, page):
        assert 'class="ratelimit-mark"' in text
        assert "version 1 at " in text
