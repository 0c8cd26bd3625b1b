"""The requests of the replay: those of the access log, then a few scripted ones. This module sends nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from accounts.tokens import token_for
from django.contrib.auth import get_user_model
from django.test import RequestFactory
from django.utils.encoding import iri_to_uri

from .people import COLLEAGUES

ACCESS_LOG = Path(__file__).resolve().parent.parent / "traffic" / "access.log"

# Apache's combined log format: address, identity, user, [time], "request line", status, size, "referrer", "user agent".
LINE = re.compile(r'(\S+) \S+ \S+ \[([^\]]+)\] "([A-Z]+) (\S+) [^"]*" \d{3} \S+ "[^"]*" "(.*)"')
FORM = "application/x-www-form-urlencoded"


class Visit(NamedTuple):
    """One request to be sent.

    ``client`` is the client's name in the table. ``share`` is the part of the log's time that has passed by then.
    """

    client: str
    method: str
    target: str
    address: str
    headers: Mapping[str, str] = {}
    form: Mapping[str, str] = {}
    share: float = 1.0

    def environ(self) -> dict[str, object]:
        """Return the request as a WSGI server would hand it over."""
        # Keep one slash, because the part after two slashes would be a host name.
        target = "/" + iri_to_uri(self.target).lstrip("/")
        request = RequestFactory(headers={"Host": "127.0.0.1", **self.headers}).generic(
            self.method, target, urlencode(self.form), FORM if self.form else "", REMOTE_ADDR=self.address
        )
        # Django sets the decoded path. A WSGI server passes its bytes, decoded as Latin-1.
        return request.environ | {"PATH_INFO": request.path_info.encode().decode("iso-8859-1")}


def logged_visits(count: int | None = None) -> Iterator[Visit]:
    """Yield the first ``count`` requests of the access log, or all requests if ``count`` is None."""
    with ACCESS_LOG.open(encoding="utf-8", errors="replace") as lines:
        entries = [line.groups() for line in map(LINE.match, islice(lines, count)) if line]
    times = [datetime.strptime(entry[1], "%d/%b/%Y:%H:%M:%S %z").timestamp() for entry in entries]
    for (address, _, method, target, agent), at in zip(entries, times, strict=True):
        share = (at - times[0]) / (times[-1] - times[0] or 1)
        headers = {} if agent == "-" else {"User-Agent": agent}
        yield Visit(address, method, target, address, headers, share=share)


def pipeline_visits() -> Iterator[Visit]:
    """Yield twelve API calls by each of an organisation's twelve colleagues, one colleague after another."""
    users = get_user_model().objects.filter(username__in=COLLEAGUES).order_by("pk")
    for number, user in enumerate(users, start=1):
        headers = {"Authorization": f"Bearer {token_for(user)}", "User-Agent": "pipelines-cli/3.1"}
        for _ in range(12):
            yield Visit(user.get_username(), "POST", "/orgs/7/pipelines/", f"192.0.2.{number}", headers)


def sign_in_visits() -> Iterator[Visit]:
    """Yield eight guesses at the password of one account."""
    csrf_token = "0123456789abcdefghijABCDEFGHIJxy"
    headers = {"Cookie": f"csrftoken={csrf_token}", "User-Agent": "password-guesser/0.9"}
    for number in range(1, 9):
        form = {"username": "zoe", "password": f"guess {number}", "csrfmiddlewaretoken": csrf_token}
        yield Visit("198.51.100.1", "POST", "/accounts/login/", "198.51.100.1", headers, form)


def status_visits() -> Iterator[Visit]:
    """Yield a dashboard's 35 requests to the status view."""
    for _ in range(35):
        yield Visit("dashboard", "GET", "/status/", "203.0.113.9", {"User-Agent": "dashboard/1.0"})
