"""The explain page over HTTP: the expected decision and its reason, stored refusals, and the reset."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client, RequestFactory
from django.urls import reverse

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.counters.aliases import current
from django_ratelimit_rules.engine.keys import prefixes
from django_ratelimit_rules.identifiers import property_provider
from django_ratelimit_rules.models import Ruleset
from django_ratelimit_rules.monitoring import decisions
from django_ratelimit_rules.testing import override_ruleset
from tests.servers import AWAY

pytestmark = pytest.mark.django_db

COUNTING = {"characteristics": ["ip"], "limit": 2, "period": 60}
IP = "203.0.113.7"


@pytest.fixture
def url() -> str:
    return reverse("admin:django_ratelimit_rules_ruleset_explain")


@pytest.fixture
def ask(admin_client, url):
    """Post the form. Return the page's rows by rule, its verdict, and the page itself."""
    Limiter("search")

    def post(client: Client = admin_client, **said: str) -> dict[str, str]:
        response = client.post(url, {"limiter": "search", "method": "GET", **said})
        assert response.status_code == 200, response.content
        text = response.content.decode()
        page = {"page": plain(text), "form": response.context["form"].errors}
        for row in re.findall(r'<tr class="ratelimit-.*?</tr>', text, re.S):
            page[re.search(r'scope="row">(\w+)', row)[1]] = plain(row)
        page["verdict"] = plain("".join(re.findall(r"<h2 id=.ratelimit-verdict.*?</h2>", text)))
        return page

    return post


def plain(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def reader(*permissions: str) -> Client:
    user = User.objects.create_user("reader", password="p", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_ruleset", *permissions]))
    client = Client()
    client.force_login(user)
    return client


def test_every_rule_shows_its_effect_and_the_failed_condition(ask):
    rules = [
        Rule("staff", action="skip", match={"is_staff": True}),
        Rule("api", match={"path": {"prefix": "/api/"}, "method": "POST"}, **COUNTING),
        Rule("shadow", action="log", **COUNTING | {"limit": 0}),
        Rule("all", **COUNTING),
        Rule("behind", **COUNTING | {"characteristics": []}),
    ]
    with override_ruleset("search", rules):
        for _ in range(3):
            Limiter("search").check({"ip": IP, "path": "/"})
        page = ask(ip=IP, path="/search/?q=x")
    assert "does not apply needs is_staff is true , but it is 0" in page["staff"]
    assert "needs path starts with /api/ , but it is /search/" in page["api"]
    assert "over the limit , but does not block" in page["shadow"]
    assert "blocks" in page["all"]
    assert "2 of 2 used per 1 min, 0 left" in page["all"]
    assert "3 calls counted" in page["all"]
    assert prefixes("search", rules)[3] + IP in page["all"]
    assert "not reached" in page["behind"]
    assert page["verdict"].startswith("Blocked by all. The request may pass in ")


def test_explaining_changes_nothing(ask, keys, redis_client):
    with override_ruleset("search", [Rule("all", ban_for=60, **COUNTING)]):
        Limiter("search").check({"ip": IP})
        before = [(key, redis_client.get(key)) for key in keys()]
        for _ in range(5):
            assert ask(ip=IP)["verdict"] == "Allowed."
        assert [(key, redis_client.get(key)) for key in keys()] == before


def test_a_request_is_made_up_from_user_headers_method_and_path(ask):
    someone = User.objects.create_user("Mary", is_staff=True)
    match = {
        "user": someone.pk,
        "is_staff": True,
        "header.x-team": "blue",
        "cookie.sid": "7",
        "method": "POST",
        "query.q": "a b",
        "host": "testserver",
        "route": "admin:index",
        "path": "/admin/",
    }
    with override_ruleset("search", [Rule("all", match=match, **COUNTING)]):
        page = ask(user="Mary", method="POST", path="/admin/?q=a%20b", headers="X-Team: blue\nCookie: sid=7")
        assert "within the limit" in page["all"]
        assert "within the limit" in ask(user=str(someone.pk), method="POST", path="admin/?q=a+b",
                                         headers="x-team:blue\nCookie:sid=7")["all"]  # fmt: skip
        assert "needs user is" in ask(ip=IP)["all"]


def test_facts_alone_are_the_whole_identifier_and_win_over_a_request(ask):
    rule = Rule("all", match={"method": {"exists": False}}, **COUNTING)
    with override_ruleset("search", [rule]):
        assert ":198.51.100.1" in ask(facts='{"ip": "198.51.100.1"}')["all"]
        assert "but it is GET" in ask(ip=IP, facts='{"ip": "198.51.100.1"}')["all"]
    rule = Rule("all", **COUNTING | {"characteristics": ["post.email|lower", "team"]})
    with override_ruleset("search", [rule]):
        counter = ask(ip=IP, facts='{"post.email": "A@example.org", "team": 7}')["all"]
        assert counter == ask(ip=IP, facts='{"post.email": "a@EXAMPLE.org", "team": "7"}')["all"]
        assert "_unknown_" not in counter


def test_an_anonymous_caller_counts_by_the_address_as_in_a_real_request(ask):
    with override_ruleset("search", [Rule("all", **COUNTING | {"characteristics": ["user"]})]):
        Limiter("search").check_request(RequestFactory().get("/", REMOTE_ADDR=IP))
        assert "1 of 2 used" in ask(ip=IP)["all"]


def test_a_property_that_cannot_be_computed_is_named_and_taken_as_missing(ask):
    @property_provider("explain_test_broken")
    def broken(request):
        raise RuntimeError("no session")

    with override_ruleset("search", [Rule("all", match={"explain_test_broken": "1"}, **COUNTING)]):
        page = ask(ip=IP)
    assert "no session" in page["page"]
    assert "but it is missing" in page["all"]


def test_the_values_of_a_link_can_be_sent_unchanged(ask, admin_client, url):
    with override_ruleset("search", [Rule("all", **COUNTING)]):
        form = admin_client.get(url, {"limiter": "search", "ip": IP}).context["form"]
        shown = {field.name: str(field.value() or "") for field in form}
        assert (shown["limiter"], shown["ip"], shown["facts"]) == ("search", IP, "{}")
        assert ask(**shown)["verdict"] == "Allowed."


@pytest.mark.parametrize(
    ("field", "said", "message"),
    [
        ("user", "nobody", "no user"),
        ("user", "9" * 40, "no user"),
        ("ip", "1.2.3", "valid"),
        ("headers", "no colon", "is not a header"),
        ("facts", "[1]", "object"),
        ("facts", '{"a": [1]}', "must be a string, a number"),
        ("facts", "{", "not valid JSON"),
        ("limiter", "unknown", "valid choice"),
        ("path", " ", "Describe the request"),
    ],
)
def test_unreadable_input_is_an_error_on_its_field(ask, field, said, message):
    with override_ruleset("search", [Rule("all", **COUNTING)]):
        errors = ask(**{field: said})["form"]
    assert re.search(message, str(errors.get(field) or errors["__all__"]))


def test_a_refusal_is_shown_by_the_id_that_the_client_was_given(admin_client, url):
    rules = [Rule("api", match={"path": {"prefix": "/api/"}}, **COUNTING), Rule("all", **COUNTING | {"limit": 0})]
    with override_ruleset("search", rules):
        result = Limiter("search").check_request(RequestFactory().get("/", REMOTE_ADDR=IP))
    page = plain(admin_client.get(url, {"decision": f" {result.decision.upper()} "}).content.decode())
    assert "Blocked by all. Waiting does not help." in page
    assert "needs path starts with /api/ , but it is /" in page
    assert "kept for an hour" in page


@pytest.mark.parametrize("decision", ["aaaaaaaa", "<script>", "\x00"])
def test_an_unknown_id_is_reported(admin_client, url, decision):
    response = admin_client.get(url, {"decision": decision})
    assert "There is no record of decision" in response.content.decode()
    assert "<script>'" not in response.content.decode()


def test_a_refusal_kept_by_another_release_with_other_fields_counts_as_not_kept(admin_client, url):
    current().put(decisions._name("aaaaaaaa"), decisions._sealed(json.dumps({"at": 1.5, "rules": [{}]})), 60)
    assert decisions.find("aaaaaaaa")
    page = admin_client.get(url, {"decision": "aaaaaaaa"})
    assert page.status_code == 200
    assert "There is no record of decision" in page.content.decode()


def test_texts_that_no_page_can_hold_and_markup_are_shown_escaped(ask):
    with override_ruleset("search", [Rule("all", match={"query.q": "<b>"}, **COUNTING)]):
        assert "\\udc80" in ask(facts='{"query.q": "\\udc80"}')["all"]
        assert "but it is <i>" in ask(facts='{"query.q": "<i>"}')["all"]


def test_without_redis_the_page_reports_it_and_the_decision_of_the_failure_mode(ask, settings):
    settings.CACHES = AWAY
    with override_ruleset("search", [Rule("all", **COUNTING)], failure_mode="closed"):
        page = ask(ip=IP)
    assert page["verdict"] == "Blocked: the check failed, so the failure mode decided."
    assert "fails" in page["all"]


def test_a_user_who_may_only_view_sees_explanations_but_no_reset(ask, url):
    client = reader()
    with override_ruleset("search", [Rule("all", **COUNTING)]):
        Limiter("search").check({"ip": IP})
        assert "Reset 1 counter" not in ask(client, ip=IP)["page"]
        posted = client.post(url, {"limiter": "search", "ip": IP, "reset": "Reset", "reason": "x"})
        assert posted.status_code == 403
        assert Limiter("search").peek({"ip": IP}).evaluations[0].used == 1


def test_strangers_and_staff_without_permission_see_nothing(client, url):
    assert client.get(url).status_code == 302
    client.force_login(User.objects.create_user("staff", is_staff=True))
    assert client.get(url).status_code == 403


def test_a_reset_forgets_counters_and_bans_of_one_caller_and_is_in_the_history(ask, admin_user):
    ruleset = Ruleset.objects.create(name="search")
    client = reader("reset_counters")
    with override_ruleset("search", [Rule("all", ban_for=600, **COUNTING), Rule("behind", **COUNTING)]):
        limiter = Limiter("search")
        for _ in range(4):
            limiter.check({"ip": IP})
        limiter.check({"ip": "198.51.100.1"})
        assert "the ban ends in" in ask(client, ip=IP)["all"]
        page = ask(client, ip=IP, reset="Reset", reason="ticket 7")
        assert page["verdict"] == "Allowed."
        assert "Reset 2 counters of search." in page["page"]
        assert not limiter.peek({"ip": IP}).blocked
        assert limiter.peek({"ip": "198.51.100.1"}).evaluations[0].used == 1
    entry = LogEntry.objects.get()
    assert (entry.user.username, entry.object_id) == ("reader", str(ruleset.pk))
    assert prefixes("search", [Rule("all", **COUNTING)])[0] + IP in entry.change_message
    assert entry.change_message.endswith("Reason: ticket 7")


def test_a_link_explains_at_once_and_counts_nothing(admin_client, url, keys):
    with override_ruleset("search", [Rule("all", **COUNTING)]):
        page = admin_client.get(url, {"limiter": "search", "ip": IP, "explain": "now"}).content.decode()
        assert 'id="ratelimit-verdict"' in page
        assert keys() == []


def test_a_reset_needs_a_reason_and_a_post(ask, admin_client, url):
    with override_ruleset("search", [Rule("all", **COUNTING)]):
        Limiter("search").check({"ip": IP})
        assert "Enter a reason" in ask(ip=IP, reset="Reset", reason="  ")["page"]
        admin_client.get(url, {"limiter": "search", "ip": IP, "reset": "Reset", "reason": "x"})
        assert Limiter("search").peek({"ip": IP}).evaluations[0].used == 1
    assert not LogEntry.objects.exists()


def test_a_reset_of_a_limiter_without_a_row_is_logged_under_its_name(ask):
    with override_ruleset("search", [Rule("all", **COUNTING)]):
        Limiter("search").check({"ip": IP})
        ask(ip=IP, reset="Reset", reason="why")
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.object_repr) == (None, "search")


def test_a_failed_reset_is_reported_and_not_logged(ask, settings):
    settings.CACHES = AWAY
    with override_ruleset("search", [Rule("all", **COUNTING)]):
        assert "Nothing was reset" in ask(ip=IP, reset="Reset", reason="why")["page"]
    assert not LogEntry.objects.exists()


def test_history_of_a_limiter_without_a_row_does_not_break_the_admin_index(ask, admin_client):
    test_a_reset_of_a_limiter_without_a_row_is_logged_under_its_name(ask)
    assert "search" in admin_client.get(reverse("admin:index")).content.decode()


def test_a_ruleset_of_two_hundred_rules_is_explained_in_few_queries(ask, django_assert_max_num_queries):
    rules = [Rule(f"r{number}", match={"path": f"/{number}"}, **COUNTING) for number in range(200)]
    with override_ruleset("search", rules), django_assert_max_num_queries(10):
        assert "does not apply" in ask(ip=IP, path="/x")["r199"]
