"""Random requests through the real middleware and a server's entry points cause no exception and no 5xx of this app.

``RATELIMIT_TEST_REQUESTS`` is the number of requests for each entry point, 300 by default.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import traceback
from urllib.parse import quote

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import got_request_exception
from django.http import HttpResponse
from django.test import override_settings
from django.urls import path, re_path
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_ratelimit_rules import Rule, rate_limited
from django_ratelimit_rules.testing import override_ruleset

REQUESTS = int(os.environ.get("RATELIMIT_TEST_REQUESTS", "300"))
PROFILE = settings(
    max_examples=REQUESTS,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
READ = ("header.x-a", "header.authorization", "cookie.sid", "query.q", "post.email|strip|lower", "json.user.email")
ASKED = (*READ, "path", "host", "method", "route", "view", "user", "ip", "kwarg.slug", "bypass", "preflight")
CONDITIONS = (
    {"regex": "^(a+)+$|é"},
    {"glob": "**a*"},
    {"prefix": ["a", "/"]},
    {"gt": 10},
    {"cidr": ["10.0.0.0/8", "2001:db8::/32", "0.0.0.0/0"]},
    {"not": {"in": ["a", None]}},
)
RULES = [
    Rule("welcome", action="skip", match={"header.x-a": "let me in"}),
    *(
        Rule(f"log_{n}", action="log", match={name: condition}, characteristics=[name], limit=2, period=60)
        for n, (name, condition) in enumerate((name, one) for name in ASKED for one in CONDITIONS)
    ),
    Rule("distinct", action="log", count_distinct="query.q", characteristics=["ip"], limit=3, period=60),
    Rule("outcome", characteristics=["ip", "path"], limit=5, period=60, response={"status": {"gte": 400}}),
    Rule("everything", characteristics=ASKED[:4], limit=5, period=60),
    Rule("address", characteristics=["ip"], limit=20, period=60, algorithm="sliding_window"),
]


@rate_limited("view")
def view(request, **kwargs):
    return HttpResponse(status=401 if request.method == "POST" else 200)


@rate_limited("view")
async def async_view(request, **kwargs):
    return HttpResponse(status=401 if request.method == "POST" else 200)


urlpatterns = [path("a/<slug:slug>/", view), path("b/", async_view), re_path("^(?P<slug>.*é.*)$", view)]

# Servers reject control characters in header values.
LATIN = st.text(st.characters(max_codepoint=255, exclude_categories=["Cc"]), max_size=40)
ADDRESSES = st.one_of(
    st.ip_addresses(v=4, network="203.0.113.0/28").map(str),
    st.ip_addresses(v=6).map(str),
    st.sampled_from(
        ["", "unix:", "10.0.0.1", "::ffff:10.0.0.1", "[2001:db8::1]:443", "fe80::1%eth0", "198.51.100.7:80"]
    ),
    LATIN,
)
VALUES = st.one_of(LATIN, st.sampled_from(["a", "let me in", "é", "sid=1; sid=2", "=;=", '"', "a" * 9000]))
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "x-a",
            "authorization",
            "cookie",
            "host",
            "origin",
            "access-control-request-method",
            "accept",
            "x-pass",
            "content-length",
            "x-forwarded-proto",
            "if-none-match",
            "user-agent",
        ]
    ),
    st.one_of(VALUES, st.sampled_from(["text/html", "application/json;q=0.5, */*;q=nan", "localhost", "[::1]:80"])),
    max_size=6,
)
PATHS = st.one_of(
    st.sampled_from(["/a/b/", "/b/", "/a/b", "//a/b/", "", "/é/", "/%2e%2e/"]),
    st.binary(max_size=30).map(lambda raw: "/" + raw.decode("latin-1")),
)
METHODS = st.sampled_from(
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE", "get", "M-É", ""]
)
TYPES = st.one_of(
    st.sampled_from(
        [
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "multipart/form-data",
            "",
            "application/json",
            "text/plain; charset=utf-16",
            "multipart/form-data; boundary=é",
        ]
    ),
    LATIN,
)
BODIES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b'{"user": {"email": ["a"]}}',
            b'{"user": {"email": "\\ud800"}}',
            b'{"user": 1}',
            b"[" * 5000,
            b"email=%ff&email",
            b'--x\r\nContent-Disposition: form-data; name="email"\r\n\r\na\r\n--x--\r\n',
            b"--x\r\nContent-Disposition",
        ]
    ),
)
QUERIES = st.one_of(LATIN, st.sampled_from(["q=a", "q=%ff", "q=" + "9" * 400, "q&q=1&&;", "&".join(["q"] * 1200)]))
REQUEST = {
    "peer": ADDRESSES,
    "chain": st.one_of(st.none(), st.lists(ADDRESSES, max_size=4).map(", ".join)),
    "headers": HEADERS,
    "method": METHODS,
    "target": PATHS,
    "query": QUERIES,
    "content_type": TYPES,
    "body": BODIES,
    "hops": st.sampled_from([None, 1, 2]),
}


class Witness(logging.Handler):
    """Records faults that a response hides: errors that this app logs, and exceptions that Django turns into a 500."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.faults = []

    def emit(self, record):
        self.faults.append(record.getMessage())

    def raised(self, sender, **kwargs):
        self.faults.append(traceback.format_exc())


@pytest.fixture
def site(db, settings, monkeypatch):
    """Serve a site with the usual middleware around this app's. The given functions make its handlers."""
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django_ratelimit_rules.middleware.RateLimitMiddleware"]
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    settings.RATELIMIT_RULES_MIDDLEWARE_LIMITERS = ["site"]
    settings.RATELIMIT_RULES_BYPASS_HEADER = "X-Pass"
    settings.RATELIMIT_RULES_TRUSTED_PROXIES = ["10.0.0.0/8", "unix"]
    witness = Witness()
    logging.getLogger("django_ratelimit_rules").addHandler(witness)
    got_request_exception.connect(witness.raised)
    # Drop Django's log lines about odd requests, because there are many and no test reads them.
    monkeypatch.setattr(logging.getLogger("django"), "disabled", True)
    for name in ("django.request", "django.security", "django.security.DisallowedHost"):
        monkeypatch.setattr(logging.getLogger(name), "propagate", False)
    monkeypatch.setattr(logging.getLogger("django_ratelimit_rules"), "level", logging.ERROR)
    with override_ruleset("site", RULES), override_ruleset("view", [Rule("view", limit=9, period=60)]):
        yield witness
    got_request_exception.disconnect(witness.raised)
    logging.getLogger("django_ratelimit_rules").removeHandler(witness)


def answered(send, witness, hops):
    """Send a request, and fail on a fault of this app, which the same site without its limits does not have."""
    with override_settings(RATELIMIT_RULES_PROXY_HOPS=hops):
        status, faults = tried(send, witness)
    if status >= 500 or faults:
        with override_settings(RATELIMIT_RULES_ENABLED=False):
            assert tried(send, witness)[0] == status, faults
    return status


def tried(send, witness):
    """Return the status of a response and its faults. The status is 500 if no response was sent."""
    witness.faults.clear()
    try:
        status = send()
    except Exception:  # noqa: BLE001 -- such as Django's own about a request that it cannot read
        witness.raised(None)
        status = 500
    return status, list(witness.faults)


def environ(peer, chain, headers, method, target, query, content_type, body):
    """Return a WSGI environ. Header values and paths are bytes decoded as Latin-1."""
    given = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
    given |= {} if chain is None else {"HTTP_X_FORWARDED_FOR": chain}
    length = given.pop("HTTP_CONTENT_LENGTH", str(len(body)))
    return {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": target,
        "QUERY_STRING": query,
        "CONTENT_TYPE": content_type,
        "CONTENT_LENGTH": length,
        "REMOTE_ADDR": peer,
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        **given,
    }


def test_any_request_over_wsgi_is_answered_without_a_fault_of_this_app(site):
    application = WSGIHandler()
    seen = set()

    @PROFILE
    @given(**REQUEST)
    def run(hops, **request):
        def send():
            response = application(environ(**request), lambda status, headers: None)
            b"".join(response)
            response.close()
            return response.status_code

        seen.add(answered(send, site, hops))

    run()
    assert {200, 429} <= seen


def scope(peer, chain, headers, method, target, query, content_type, body):
    """Return an ASGI scope."""
    found = {**headers, "content-type": content_type} | ({} if chain is None else {"x-forwarded-for": chain})
    raw = target.encode("latin-1")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": raw.decode("utf-8", "replace"),
        "raw_path": quote(raw).encode(),
        "query_string": query.encode("latin-1"),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in found.items()],
        "client": [peer, 4711] if peer else None,
        "server": ["testserver", 80],
        "scheme": "http",
    }


# Django leaves the body open if it cannot create the request, for example for a charset with too many parameters.
@pytest.mark.filterwarnings("ignore:.*SpooledTemporaryFile:pytest.PytestUnraisableExceptionWarning")
def test_any_request_over_asgi_is_answered_without_a_fault_of_this_app(site):
    application = ASGIHandler()
    seen = set()

    async def call(request):
        parts = [{"type": "http.request", "body": request["body"], "more_body": False}]
        statuses = []

        async def receive():
            return parts.pop() if parts else await asyncio.Event().wait()

        async def send(message):
            statuses.append(message.get("status"))

        await application(scope(**request), receive, send)
        return statuses[0]

    with asyncio.Runner() as runner:

        @PROFILE
        @given(**REQUEST)
        def run(hops, **request):
            seen.add(answered(lambda: runner.run(call(request)), site, hops))

        run()
    assert {200, 429} <= seen
