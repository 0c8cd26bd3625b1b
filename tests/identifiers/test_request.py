"""Properties of a request: their values, the time of their computation, and hostile requests."""

from __future__ import annotations

import functools
import json

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import RequestDataTooBig, SynchronousOnlyOperation
from django.http import HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.test import AsyncRequestFactory, RequestFactory
from django.urls import ResolverMatch
from django.utils.functional import SimpleLazyObject
from django.views import View
from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules import identifiers
from django_ratelimit_rules.engine.properties import PROPERTIES
from django_ratelimit_rules.exceptions import CallableFailed, UnknownProperty
from django_ratelimit_rules.identifiers import build, declare, find, known_properties, property_provider, registry
from django_ratelimit_rules.identifiers.builtin import FAMILY_READERS, READERS, USER_READERS, dotted_path

rf = RequestFactory()


@pytest.fixture(autouse=True)
def _own_registry():
    with registry.isolated(empty=True):
        yield


def text(name, request, **kwargs):
    return build(request, kwargs or None).text(name)


def never():
    raise AssertionError("the session or the user was touched")


def signed_in(user, factory=rf, path="/"):
    """Return a request after Django's session and authentication middleware."""
    request = factory.get(path)
    SessionMiddleware(HttpResponse).process_request(request)
    request.session["_auth_user_id"] = str(user.pk)
    request.session["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
    request.session["_auth_user_hash"] = user.get_session_auth_hash()
    request.session.save()
    request.COOKIES["sessionid"] = request.session.session_key
    SessionMiddleware(HttpResponse).process_request(request)
    AuthenticationMiddleware(HttpResponse).process_request(request)
    return request


# --- the request itself


@pytest.mark.parametrize(
    ("method", "expected"), [("get", "GET"), ("head", "GET"), ("post", "POST"), ("options", "OPTIONS")]
)
def test_method_reads_head_as_get(method, expected):
    assert text("method", getattr(rf, method)("/")) == expected


def test_method_compares_in_upper_case():
    assert text("method", rf.generic("purge", "/")) == "PURGE"


def test_path_is_the_one_below_script_name():
    assert text("path", rf.get("/shop/見/", SCRIPT_NAME="/shop")) == "/shop/見/"


@pytest.mark.parametrize(
    ("host", "expected"), [("Shop.Example.com:8000", "shop.example.com"), ("evil.test", None), ("a b", None)]
)
def test_host_is_the_allowed_name_without_port(settings, host, expected):
    settings.ALLOWED_HOSTS = [".example.com"]
    assert text("host", rf.get("/", HTTP_HOST=host)) == expected


def test_ip_is_the_client_address():
    assert text("ip", rf.get("/", REMOTE_ADDR="::ffff:203.0.113.9")) == "203.0.113.9"


def route_of(**match):
    request = rf.get("/")
    request.resolver_match = ResolverMatch(match.pop("func", never), (), match.pop("kwargs", {}), **match)
    return request


def test_route_is_the_namespaced_name_or_for_unnamed_patterns_the_pattern():
    assert text("route", route_of(url_name="detail", namespaces=["shop"], route="i/<int:pk>/")) == "shop:detail"
    assert text("route", route_of(route="i/<int:pk>/")) == "i/<int:pk>/"
    assert text("route", rf.get("/")) is None


class Page(View):
    pass


def test_view_is_the_dotted_path_of_the_view_inside_decorators_partials_and_as_view():
    @functools.wraps(never)
    def decorated():
        """Decorate a view like any decorator."""

    around_partial = functools.wraps(functools.partial(never))(lambda: None)
    assert text("view", route_of(func=never)) == "tests.identifiers.test_request.never"
    assert text("view", route_of(func=decorated)) == "tests.identifiers.test_request.never"
    assert text("view", route_of(func=functools.partial(never))) == "tests.identifiers.test_request.never"
    assert text("view", route_of(func=around_partial)) == "tests.identifiers.test_request.never"
    assert text("view", route_of(func=Page.as_view())) == "tests.identifiers.test_request.Page"
    assert text("view", rf.get("/")) is None
    assert dotted_path(Page().dispatch) == "tests.identifiers.test_request.Page.dispatch"
    assert dotted_path(Page()) == "tests.identifiers.test_request.Page"


def test_kwargs_are_those_given_else_those_of_the_url():
    request = route_of(kwargs={"pk": 7, "ids": [1, 2]})
    assert text("kwarg.pk", request) == "7"
    assert text("kwarg.pk", request, pk=8) == "8"
    assert text("kwarg.slug", request) is None
    assert text("kwarg.ids", request) is None
    assert text("kwarg.pk", rf.get("/")) is None


@pytest.mark.parametrize("name", ["header.X-Test", "header.x-test", "Header.X_TEST", "header.x_test"])
def test_header_has_no_case(name):
    """Report 27: the name is written in another case."""
    name = find(name).name
    assert text(name, rf.get("/", HTTP_X_TEST="AbC")) == "AbC"
    assert text(name, rf.get("/", HTTP_X_TEST="")) == ""
    assert text(name, rf.get("/")) is None


def test_content_type_is_a_header_and_missing_when_empty():
    assert text("header.content-type", rf.post("/", "{}", content_type="application/json")) == "application/json"
    assert text("header.content-type", rf.get("/", CONTENT_TYPE="")) is None


def test_header_that_is_no_unicode_text_is_a_value_like_any_other():
    assert text("header.x-name", rf.get("/", HTTP_X_NAME="\udcff")) == "\udcff"


def test_query_and_cookie():
    request = rf.get("/?q=a&q=b&a.b=c&empty=")
    request.COOKIES["sid"] = "s"
    assert [text(name, request) for name in ("query.q", "query.a.b", "query.empty", "query.x")] == ["b", "c", "", None]
    assert [text(name, request) for name in ("cookie.sid", "cookie.x")] == ["s", None]


def test_filters_work_on_the_property_from_left_to_right():
    request = rf.post("/", {"email": "  Ann@Example.COM "})
    assert text("post.email|strip|lower", request) == "ann@example.com"
    assert text("post.email", request) == "  Ann@Example.COM "
    assert text("post.name|strip", request) is None


@pytest.mark.parametrize(
    ("method", "headers", "expected"),
    [
        ("options", {"HTTP_ORIGIN": "https://a.test", "HTTP_ACCESS_CONTROL_REQUEST_METHOD": "PUT"}, "1"),
        ("options", {}, "0"),
        ("get", {"HTTP_ORIGIN": "https://a.test", "HTTP_ACCESS_CONTROL_REQUEST_METHOD": "PUT"}, "0"),
    ],
)
def test_preflight_is_an_options_request_that_asks_for_permission(method, headers, expected):
    assert text("preflight", getattr(rf, method)("/", **headers)) == expected


@pytest.mark.parametrize(
    ("header", "value", "sent", "expected"),
    [
        (None, "s3cret", "s3cret", "0"),
        ("X-Bypass", "s3cret", "s3cret", "1"),
        ("X-Bypass", "s3cret", "S3cret", "0"),
        ("X-Bypass", "s3cret", None, "0"),
        ("X-Bypass", "s3cret", "\udcff", "0"),
        ("X-Bypass", "", "", "0"),
        ("X-Bypass", None, "", "0"),
        ("X-Bypass", True, "1", "1"),
    ],
)
def test_bypass_is_the_secret_in_the_configured_header(settings, header, value, sent, expected):
    settings.RATELIMIT_RULES_BYPASS_HEADER = header
    settings.RATELIMIT_RULES_BYPASS_VALUE = value
    assert text("bypass", rf.get("/", **({} if sent is None else {"HTTP_X_BYPASS": sent}))) == expected


# --- bodies


def test_form_is_read_and_left_readable():
    request = rf.post("/", "email=a%40b.test&email=c%40d.test", content_type="application/x-www-form-urlencoded")
    assert text("post.email", request) == "c@d.test"
    assert request.read() == b"email=a%40b.test&email=c%40d.test"
    assert request.POST["email"] == "c@d.test"
    assert request.body == b"email=a%40b.test&email=c%40d.test"


def test_multipart_form_is_read_and_left_readable_with_its_body():
    request = rf.post("/", {"email": "a@b.test"})
    assert text("post.email", request) == "a@b.test"
    assert request.body.count(b"a@b.test") == 1
    assert request.POST["email"] == "a@b.test"


def test_multipart_form_too_large_for_memory_still_has_its_fields(settings, tmp_path):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    upload = tmp_path / "big.bin"
    upload.write_bytes(b"x" * 5000)
    with upload.open("rb") as file:
        request = rf.post("/", {"email": "a@b.test", "file": file})
    assert text("post.email", request) == "a@b.test"
    assert request.FILES["file"].size == 5000


def test_json_is_read_and_left_readable():
    body = json.dumps({"email": "a@b.test", "user": {"id": 7, "tags": ["x"]}, "on": True, "n": None, "f": 1.5})
    request = rf.post("/", body, content_type="application/json")
    names = ["email", "user.id", "on", "n", "f", "user", "user.tags", "user.tags.0", "email.x", "user.x", "x"]
    assert [text(f"json.{name}", request) for name in names] == ["a@b.test", "7", "1", None, "1.5", *[None] * 6]
    assert json.loads(request.body)["email"] == "a@b.test"


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_json_is_read_for_any_method_and_content_type(method):
    request = getattr(rf, method)("/", '{"email": "a"}', content_type="text/plain")
    assert text("json.email", request) == "a"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b"1",
        b"null",
        b"\xff\xfe\xfd",
        b'{"email": ',
        b"[" * 100_000,
        b'{"email":' + b"9" * 5000 + b"}",
    ],
)
def test_malformed_json_is_a_missing_property(body):
    request = rf.post("/", body, content_type="application/json")
    assert text("json.email", request) is None
    assert request.body == body


BROKEN_MULTIPART = {"data": b"--x\r\nbroken", "content_type": "multipart/form-data; boundary=" + "y" * 300}


def test_malformed_multipart_is_a_missing_property_and_the_view_still_meets_the_error():
    request = rf.post("/", **BROKEN_MULTIPART)
    assert text("post.email", request) is None
    with pytest.raises(MultiPartParserError):
        _ = request.POST


@pytest.mark.parametrize(
    ("body", "content_type", "headers"),
    [
        (b"a=b", "application/x-www-form-urlencoded; charset=latin-1", {}),
        (b"a=b", "application/x-www-form-urlencoded", {"CONTENT_LENGTH": "many"}),
        (b"a=b", "multipart/form-data", {}),
        (b"a=b", "", {}),
        (b"a=b", "multipart/form-data; boundary=x", {"CONTENT_LENGTH": "-1"}),
        (b"\xff%ff%", "application/x-www-form-urlencoded", {}),
    ],
)
def test_odd_form_bodies_never_raise(body, content_type, headers):
    request = rf.generic("POST", "/", body, content_type=content_type, **headers)
    assert text("post.email", request) is None
    assert text("json.email", request) is None


def test_body_over_the_limits_is_a_missing_property_and_the_view_still_meets_the_error(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    request = rf.post("/", json.dumps({"email": "a" * 100}), content_type="application/json")
    assert text("json.email", request) is None
    with pytest.raises(RequestDataTooBig):
        _ = request.body
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 2
    assert text("query.a", rf.get("/?a=1&b=2&c=3")) is None


def test_body_that_was_consumed_already_is_a_missing_property():
    request = rf.post("/", '{"email": "a"}', content_type="application/json")
    request.read()
    assert text("json.email", request) is None
    assert text("post.email", request) is None


@given(body=st.binary(max_size=300), content_type=st.text(st.characters(max_codepoint=255), max_size=60))
def test_no_property_raises_for_any_body(body, content_type):
    for kind in ("multipart/form-data; boundary=x", "application/x-www-form-urlencoded", content_type):
        request = rf.generic("POST", "/", body, content_type=kind)
        for name in ("post.a", "json.a", "query.a", "cookie.a", "header.content-type"):
            found = text(name, request)
            assert found is None or isinstance(found, str)


# --- users


def test_user_without_authentication_is_a_stranger():
    request = rf.get("/")
    assert [text(name, request) for name in ("user", "is_authenticated", "is_staff")] == ["<anonymous>", "0", "0"]
    request.user = AnonymousUser()
    assert [text(name, request) for name in ("user", "is_authenticated", "is_staff")] == ["<anonymous>", "0", "0"]
    request.user = None
    assert text("user", request) == "<anonymous>"


def test_user_is_the_primary_key():
    request = rf.get("/")
    request.user = get_user_model()(pk=42, is_staff=True)
    assert [text(name, request) for name in ("user", "is_authenticated", "is_staff")] == ["42", "1", "1"]


def test_no_property_but_those_of_the_user_touches_user_or_session():
    """Report 31: access to request.user makes each page uncacheable."""
    request = rf.post("/?q=1", {"a": "b"})
    request.user = SimpleLazyObject(never)
    request.session = SimpleLazyObject(never)
    identifier = build(request)
    for name in known_properties():
        if name not in ("user", "is_authenticated", "is_staff"):
            identifier.text(name.replace("*", "a"))


def test_each_property_that_is_read_straight_from_a_request_is_cheap_and_no_other():
    cheap = {row.name for row in PROPERTIES.values() if row.cheap and not row.is_family}
    assert set(READERS) == cheap == {"ip", "method", "path", "route", "view", "host", "bypass", "preflight"}


def test_each_built_in_property_has_a_reader():
    # URL arguments come from the view's own arguments, which readers do not receive.
    assert {*READERS, *USER_READERS, *FAMILY_READERS, "kwarg.*"} == set(PROPERTIES)


@pytest.mark.django_db
def test_signed_in_user_is_known_by_session():
    user = get_user_model().objects.create_user("ann")
    assert text("user", signed_in(user)) == str(user.pk)


async def loaded(identifier, *names):
    """Load properties as a check on the event loop does that asks for them."""
    await identifier.load(names)


@pytest.mark.django_db(transaction=True)
async def test_async_code_loads_the_user_without_a_synchronous_query():
    """Report 28: no SynchronousOnlyOperation in async code."""
    user = await get_user_model().objects.acreate_user("ann", is_staff=True)
    request = await _async_signed_in(user)
    identifier = build(request)
    await loaded(identifier, "user", "is_staff|lower", "ip")
    assert [identifier.text(name) for name in ("user", "is_staff", "is_authenticated")] == [str(user.pk), "1", "1"]


async def _async_signed_in(user):
    from asgiref.sync import sync_to_async

    return await sync_to_async(signed_in)(user, AsyncRequestFactory())


@pytest.mark.django_db(transaction=True)
async def test_load_loads_the_properties_that_are_named_and_no_others():
    user = await get_user_model().objects.acreate_user("ann")
    request = await _async_signed_in(user)
    request.session.accessed = False
    identifier = build(request)
    await loaded(identifier, "path")
    assert identifier.text("path") == "/"
    assert request.session.accessed is False
    await loaded(identifier, "user", "is_staff")
    assert [identifier.text("user"), identifier.text("is_staff")] == [str(user.pk), "0"]
    assert request.session.accessed is True


@pytest.mark.django_db(transaction=True)
async def test_synchronous_text_in_async_code_treats_the_user_as_a_stranger_and_warns(caplog):
    user = await get_user_model().objects.acreate_user("ann")
    identifier = build(await _async_signed_in(user))
    assert identifier.text("user") == "<anonymous>"
    assert identifier.text("is_staff") is None
    assert "Use acheck_request" in caplog.text


async def test_async_code_awaits_the_user_and_leaves_the_lazy_one_alone():
    async def auser():
        return get_user_model()(pk=5)

    request = rf.get("/")
    request.user = SimpleLazyObject(never)
    request.auser = auser
    identifier = build(request)
    await loaded(identifier, "user", "is_staff")
    assert [identifier.text("user"), identifier.text("is_staff")] == ["5", "0"]


async def test_lazy_user_without_auser_is_loaded_in_a_thread():
    def load():
        _refuse_event_loop()
        return get_user_model()(pk=5)

    request = rf.get("/")
    request.user = SimpleLazyObject(load)
    identifier = build(request)
    await loaded(identifier, "user")
    assert identifier.text("user") == "5"


def _refuse_event_loop():
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SynchronousOnlyOperation("as a query would")


# --- providers


def test_provider_runs_once_a_request_and_only_when_asked():
    calls = []

    @property_provider("plan", description="Billing plan", choices=["free", "pro"])
    def plan(request):
        calls.append(request.path)
        return "Pro"

    request = rf.get("/a/")
    assert text("ip", request) == "127.0.0.1"
    assert calls == []
    identifier = build(request)
    assert [identifier.text("plan"), identifier.text("plan|lower"), text("plan", request)] == ["Pro", "pro", "Pro"]
    assert calls == ["/a/"]
    assert known_properties()["plan"].choices == ("free", "pro")
    assert find("plan|lower").description == "Billing plan"


def test_provider_that_returns_none_is_called_once():
    calls = []
    property_provider("team")(lambda request: calls.append(1))
    identifier = build(rf.get("/"))
    assert [identifier.text("team"), identifier.text("team")] == [None, None]
    assert calls == [1]


def test_provider_that_raises_is_a_failed_callable_and_is_not_called_again():
    calls = []

    @property_provider("plan")
    def plan(request):
        calls.append(1)
        raise AttributeError("profile")

    identifier = build(rf.get("/"))
    for _ in range(2):
        with pytest.raises(CallableFailed, match=r"property 'plan' .* AttributeError\('profile'\)"):
            identifier.text("plan")
    assert calls == [1]


def test_provider_that_returns_a_container_is_a_failed_callable():
    property_provider("teams")(lambda request: [1, 2])
    with pytest.raises(CallableFailed, match="'teams' is a list"):
        text("teams", rf.get("/"))


def test_provider_may_return_a_model_instance_or_a_boolean():
    property_provider("owner")(lambda request: get_user_model()(pk=9))
    property_provider("beta")(lambda request: True)
    assert [text("owner", rf.get("/")), text("beta", rf.get("/"))] == ["9", "1"]


def test_async_provider_is_run_for_sync_code():
    @property_provider("plan")
    async def plan(request):
        return "pro"

    assert text("plan", rf.get("/")) == "pro"


async def test_async_code_awaits_async_providers_and_runs_sync_ones_in_a_thread_each_once():
    calls = []

    @property_provider("plan")
    async def plan(request):
        calls.append("plan")
        return "pro"

    @property_provider("team")
    def team(request):
        _refuse_event_loop()
        calls.append("team")
        return 7

    request = rf.get("/")
    identifier = build(request)
    await loaded(identifier, "plan|upper", "team")
    assert (identifier.text("plan|upper"), identifier.text("team")) == ("PRO", "7")
    again = build(request)
    await loaded(again, "plan", "team")
    assert [again.text("plan"), again.text("team")] == ["pro", "7"]
    assert calls == ["plan", "team"]


async def test_async_provider_that_raises_fails_when_its_value_is_read():
    @property_provider("plan")
    async def plan(request):
        raise LookupError("no plan")

    identifier = build(rf.get("/"))
    await loaded(identifier, "plan")
    for _ in range(2):
        with pytest.raises(CallableFailed, match="no plan"):
            identifier.text("plan")


async def test_synchronous_text_in_async_code_has_no_async_provider():
    @property_provider("plan")
    async def plan(request):
        return "pro"

    assert text("plan", rf.get("/")) is None


@pytest.mark.parametrize("name", ["ip", "header.x", "json.a", "plan|lower", " plan", "", "kwarg.pk"])
def test_name_that_is_built_in_or_malformed_cannot_be_registered(name):
    with pytest.raises(ValueError, match=r"cannot be registered|is not a property"):
        property_provider(name)


# --- names


def test_unknown_property_is_answered_with_the_nearest_name():
    with pytest.raises(UnknownProperty, match=r"'usr'.*did you mean 'user'"):
        find("usr")
    with pytest.raises(UnknownProperty, match="there are ip, user"):
        find("qqqqqqq")
    for name in ("header.", "header.*", "headers.x"):
        with pytest.raises(UnknownProperty):
            find(name)


def test_family_member_is_known_by_its_family():
    assert find("header.X-Team|lower").name == "header.x-team"
    assert find("json.user.email").description.startswith("A value in a JSON body")


def test_declared_names_are_known_and_a_request_has_no_value_for_them():
    declare("namespace", "org.id|lower", "ip", "header.x")
    assert {"namespace", "org.id"} <= set(known_properties())
    assert "header.x" not in known_properties()
    assert text("namespace", rf.get("/")) is None
    property_provider("namespace")(lambda request: 3)
    declare("namespace")
    assert text("namespace", rf.get("/")) == "3"


def test_an_object_that_is_no_request_is_rejected_and_a_wrapper_of_a_request_is_not():
    class Wrapper:
        _request = rf.get("/", REMOTE_ADDR="203.0.113.1")

    assert text("ip", Wrapper()) == "203.0.113.1"
    with pytest.raises(TypeError, match="expected an HttpRequest, found str"):
        identifiers.http_request("request")
