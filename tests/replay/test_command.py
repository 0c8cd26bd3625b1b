"""``ratelimit_replay`` as an operator runs it."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.testing import override_ruleset
from tests.replay.test_logs import LINE, LOG
from tests.servers import AWAY

LIMIT = """
site:
  rules:
    - {name: clients, characteristics: [ip], limit: 30, period: 1h}
"""
LIVE = [Rule("clients", characteristics=["ip"], limit=100, period="1h")]

pytestmark = pytest.mark.django_db


@pytest.fixture
def rules(tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text(LIMIT)
    return str(file)


def run(*arguments: str, **options: Any) -> str:
    out = io.StringIO()
    call_command("ratelimit_replay", *arguments, stdout=out, **options)
    return out.getvalue()


def test_a_draft_is_run_and_compared_with_the_live_rules(rules):
    with override_ruleset("site", LIVE):
        said = run("--rules", rules, "--traffic", str(LOG))
    assert "9,999 requests from 2015-05-17" in said
    assert "410 of 9,999 (4.10 %) requests blocked" in said
    assert said.count("clients") > 2
    assert "more requests blocked, 0 no longer" in said


def test_without_a_draft_the_live_rules_are_run_and_nothing_is_compared():
    with override_ruleset("site", LIVE):
        said = run("--traffic", str(LOG), "--limiter", "site")
    assert "live" not in said
    assert "clients  limit   9,999" in said


def test_a_draft_of_the_admin_leaves_the_rules_in_code_where_they_are(rules):
    with override_ruleset("site", [Rule("in_code", action="log", limit=1, period=60)]):
        said = run("--rules", rules, "--traffic", str(LOG))
    assert "in_code  log" in said


def test_a_log_that_could_be_of_several_limiters_needs_one_named(rules, tmp_path):
    file = tmp_path / "two.yaml"
    file.write_text(LIMIT + LIMIT.replace("site", "search"))
    with pytest.raises(CommandError, match="--limiter, one of site, search"):
        run("--rules", str(file), "--traffic", str(LOG))
    assert "search: 410 of" in run("--rules", str(file), "--traffic", str(LOG), "--limiter", "search")


def test_unreadable_input_is_reported_without_a_traceback(rules, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("site: [{name: x}]")
    with pytest.raises(CommandError, match=r"bad\.yaml:1"):
        run("--rules", str(bad), "--traffic", str(LOG))
    with pytest.raises(CommandError, match="No such file"):
        run("--rules", rules, "--traffic", str(tmp_path / "none.log"))
    with pytest.raises(CommandError, match="no rules for login"):
        run("--rules", rules, "--traffic", str(LOG), "--limiter", "login")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
    with pytest.raises(CommandError, match=r"cut\.gz"):
        run("--rules", rules, "--traffic", str(cut))


def test_bad_lines_are_counted_and_named_and_the_rest_is_replayed(rules, tmp_path):
    log = tmp_path / "access.log"
    log.write_text(f"{LINE}\nnonsense\n{LINE}\n")
    said = run("--rules", rules, "--traffic", str(log))
    assert "2 requests" in said
    assert "1 line could not be read:\n  line 2: no request" in said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_progress_bar_is_drawn_on_a_terminal_and_nowhere_else(rules):
    terminal, file = Terminal(), io.StringIO()
    run("--rules", rules, "--traffic", str(LOG), stderr=terminal)
    assert "Replaying: 100%" in terminal.getvalue()
    run("--rules", rules, "--traffic", str(LOG), stderr=file)
    run("--rules", rules, "--traffic", str(LOG), "--no-progress", stderr=file)
    assert file.getvalue() == ""


def test_our_own_record_is_replayed(settings, rules):
    settings.RATELIMIT_RULES_RECORD = 1
    with override_ruleset("site", [Rule("wide", characteristics=["ip"], limit=10**6, period=60)]):
        before = time.time()
        for number in range(40):
            Limiter("site").check({"ip": "203.0.113.7", "header.x-key": f"SECRET{number}"})
        said = run("--rules", rules, "--traffic", "redis")
    assert f"{40} requests" in said
    assert time.strftime("%Y", time.localtime(before)) in said
    assert "10 of 40 (25.00 %) requests blocked" in said
    assert "203.0.113.7" in said
    assert "SECRET" not in said


def test_an_unavailable_redis_is_reported_without_a_traceback(settings, rules):
    settings.CACHES = AWAY
    with pytest.raises(CommandError, match="redis: "):
        run("--rules", rules, "--traffic", "redis")


def test_the_record_is_written_as_lines_that_replay_the_same(settings, rules, tmp_path):
    settings.RATELIMIT_RULES_RECORD = 1
    with override_ruleset("site", [Rule("wide", characteristics=["ip"], limit=10**6, period=60)]):
        for _ in range(40):
            Limiter("site").check({"ip": "203.0.113.7"})
        out = io.StringIO()
        call_command("ratelimit_record", stdout=out)
        file = tmp_path / "record.jsonl"
        file.write_text(out.getvalue())
        assert run("--rules", rules, "--traffic", str(file)) == run("--rules", rules, "--traffic", "redis")
    assert out.getvalue().count("\n") == 40
