"""One command of the demo shows real decisions, serves a site that obeys its admin, and cleans up."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

MANAGE = Path(__file__).resolve().parents[2] / "example_project" / "manage.py"
START_SECONDS = 60
T = TypeVar("T")


class Row(NamedTuple):
    """The row of a rule in the table."""

    limiter: str
    rule: str
    action: str
    counted: str
    exceeded: str
    blocked: str
    clients: str


def rows(output: str) -> dict[str, Row]:
    """Return the table's rows by rule. Skips lines that only continue a cell."""
    lines = output.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("──"))
    found: dict[str, Row] = {}
    for line in lines[start + 1 :]:
        if not line:
            break
        if not line.startswith(" "):
            row = Row(*line.split(maxsplit=6))
            found[row.rule] = row
    return found


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(MANAGE), "demo", *arguments]


def environ(**changes: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "REDIS_URL"} | {"COLUMNS": "160"} | changes


def wait_for(condition: Callable[[], T], seconds: float, what: str) -> T:
    """Return the value of the condition as soon as it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


def is_free(url: str) -> bool:
    """Return whether no server answers at a URL's port."""
    address = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((address.hostname, address.port)) != 0


class Demo:
    """A running demo with its output and its addresses."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def output(self) -> str:
        return self._log.read_text()

    def address(self, pattern: str) -> str:
        """Return the URL that the demo prints after a word."""

        def printed() -> str | None:
            assert self.process.poll() is None, self.output
            found = re.search(pattern + r"\s+(\w+://\S+)", self.output)
            return found and found[1]

        return wait_for(printed, START_SECONDS, pattern)


@contextmanager
def running_demo(log: Path, *arguments: str) -> Iterator[Demo]:
    with log.open("wb") as output:
        # Start it in its own group, as a shell does, so that Ctrl-C reaches only the demo and its children.
        process = subprocess.Popen(
            command(*arguments), stdout=output, stderr=output, env=environ(), start_new_session=True
        )
    try:
        yield Demo(process, log)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(30)


class Form(HTMLParser):
    """The fields of the forms on a page, as a browser would send them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._select = self._textarea = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name, value = given.get("name") or "", given.get("value")
        if tag == "select":
            self._select = name
        elif tag == "textarea":
            self._textarea = name
            self.fields[name] = ""
        elif tag == "option" and self._select and "selected" in given:
            self.fields[self._select] = value or ""
        elif tag == "input" and name and given.get("type") not in ("submit", "button"):
            if given.get("type") not in ("checkbox", "radio"):
                self.fields[name] = value or ""
            elif "checked" in given:
                self.fields[name] = value or "on"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("select", "textarea"):
            self._select = self._textarea = ""

    def handle_data(self, data: str) -> None:
        if self._textarea:
            # HTML drops the line break that Django writes after the opening tag.
            self.fields[self._textarea] += data.removeprefix("\n") if not self.fields[self._textarea] else data


class Browser:
    """A client with cookies. It returns error responses like others."""

    def __init__(self, site: str) -> None:
        self.site = site.rstrip("/")
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))

    def open(self, path: str, fields: dict[str, str] | None = None) -> tuple[int, dict[str, str], str]:
        """Return status, headers and text of a page. POSTs the fields, if given."""
        data = None if fields is None else urlencode(fields).encode()
        try:
            answer = self._opener.open(self.site + path, data, timeout=30)
        except HTTPError as error:
            answer = error
        with answer:
            return answer.status, dict(answer.headers), answer.read().decode()

    def sign_in_to_admin(self) -> None:
        form = Form(self.open("/admin/login/")[2]).fields
        self.open("/admin/login/?next=/admin/", form | {"username": "admin", "password": "admin"})

    def set_limit(self, limiter: str, rule: str, limit: int) -> None:
        """Change the limit of one rule on its ruleset's page, and send all other fields unchanged."""
        listed = self.open(f"/admin/django_ratelimit_rules/ruleset/?q={limiter}")[2]
        links = re.findall(rf'href="(/admin/django_ratelimit_rules/ruleset/\d+/change/[^"]*)">{limiter}<', listed)
        page = links[0].partition("?")[0]
        fields = Form(self.open(page)[2]).fields
        row = next(name for name, value in fields.items() if name.endswith("-name") and value == rule)
        status, _, answer = self.open(page, fields | {row.removesuffix("name") + "limit": str(limit)})
        assert status == 200
        assert "was changed successfully" in answer, re.findall(r"errorlist[^<]*<li>([^<]*)", answer)


def metric(page: str, name: str, **labels: str) -> float:
    """Return a sample of ``/metrics``. Returns 0 if the page does not contain it."""
    for line in page.splitlines():
        if line.startswith(name + "{") and all(f'{label}="{value}"' in line for label, value in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def test_demo_without_a_redis_on_the_path_prints_the_decisions_of_all_rules_and_ends_its_store(tmp_path):
    done = subprocess.run(
        command("--no-serve", "--requests", "300"),
        cwd=tmp_path,
        env=environ(PATH=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert "Replaying" in done.stderr
    table = rows(done.stdout)
    assert {row.limiter for row in table.values()} == {"site", "search", "feeds", "login", "pipelines_create", "status"}
    assert {row.action for row in table.values()} == {"limit", "log", "skip"}
    # Twelve colleagues send twelve calls each. Ten of each are allowed, until the organisation's 100 are used up.
    assert table["org_pipeline_limit"][3:6] == ("144", "26", "26")
    assert table["user_pipeline_limit"][3:6] == ("118", "18", "18")
    assert "ada (12)" in table["org_pipeline_limit"].clients
    # Five failed guesses are charged, and the other three of eight are blocked.
    assert table["account_limit"][3:6] == ("8", "3", "3")
    assert table["status_limit"][3:6] == ("35", "5", "5")
    # The whole log passed the middleware. This rule did not see requests that an earlier rule skipped or blocked.
    assert 200 < int(table["client_shadow"].counted) <= 300 + 144 + 8 + 35
    assert table["client_shadow"].blocked == "0"
    assert re.search(r"100\.\d+\.\d+\.\d+ \(\d+\)", table["client_limit"].clients)
    store = re.search(r"redis://\S+", done.stdout)
    assert store
    assert is_free(store[0])


def test_served_demo_shows_headers_obeys_an_edit_in_the_admin_counts_it_and_stops_with_ctrl_c(tmp_path):
    with running_demo(tmp_path / "demo.log", "--requests", "50", "--port", "0") as demo:
        store, site = demo.address("Store ready:"), demo.address("site")
        browser = Browser(site)
        status, headers, _ = browser.open("/search/?q=redis")
        assert status == 200
        assert '"minute_limit";q=20;w=60' in headers["RateLimit-Policy"]

        browser.sign_in_to_admin()
        before = browser.open("/metrics")[2]
        browser.set_limit("search", "minute_limit", 1)
        refusals: list[dict[str, str]] = []

        def refused_ten_times() -> bool:
            """Return whether all processes of the site obey, because any process may answer a request."""
            answers = [browser.open("/search/?q=redis") for _ in range(10)]
            refusals.extend(headers for status, headers, _ in answers if status == 429)
            return [status for status, _, _ in answers] == [429] * 10

        wait_for(refused_ten_times, START_SECONDS, "the new limit in all processes")
        assert all(1 <= int(headers["Retry-After"]) <= 60 for headers in refusals)
        after = browser.open("/metrics")[2]
        blocked = {"rate_limiter": "search", "rule": "minute_limit", "action": "limit", "result": "block"}
        evaluations = "django_rate_limiter_rule_evaluations_total"
        assert metric(after, evaluations, **blocked) - metric(before, evaluations, **blocked) == len(refusals)
        assert metric(after, "django_rate_limiter_limit", rate_limiter="search", rule="minute_limit") == 1

        os.killpg(demo.process.pid, signal.SIGINT)
        demo.process.wait(30)
        assert is_free(site)
        assert is_free(store)
        assert "Traceback" not in demo.output


def test_sign_in_allows_a_user_who_mistypes_twice_and_blocks_the_sixth_guess(tmp_path):
    with running_demo(tmp_path / "demo.log", "--requests", "0", "--port", "0") as demo:
        site = demo.address("site")

        def sign_in(username: str, password: str) -> int:
            """Return the status of an attempt with a fresh browser. A successful attempt returns 302."""
            browser = Browser(site)
            fields = Form(browser.open("/accounts/login/")[2]).fields
            status, _, page = browser.open("/accounts/login/", fields | {"username": username, "password": password})
            return 302 if status == 200 and 'class="errorlist' not in page else status

        assert [sign_in("ada", password) for password in ("add", "aad", "ada")] == [200, 200, 302]
        assert [sign_in("ada", "ada") for _ in range(8)] == [302] * 8
        assert [sign_in("bob", f"guess {number}") for number in range(6)] == [200] * 5 + [429]
        assert sign_in(" Bob ", "bob") == 429
        assert sign_in("ada", "ada") == 302


def test_demo_that_is_terminated_leaves_no_server_running(tmp_path):
    with running_demo(tmp_path / "demo.log", "--requests", "0", "--port", "0") as demo:
        store, site = demo.address("Store ready:"), demo.address("site")

        demo.process.terminate()
        demo.process.wait(30)

        assert is_free(site)
        assert is_free(store)


def test_demo_on_a_used_port_fails_before_any_start(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            command("--port", str(port)), env=environ(), capture_output=True, text=True, timeout=60, check=False
        )

    assert done.returncode == 1
    assert f"Port {port} is not free" in done.stderr
    assert "--port" in done.stderr
    assert "Store ready" not in done.stdout
