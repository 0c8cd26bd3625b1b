"""Whole replays: the exact numbers of real traffic, the difference from the live rules, and the messages."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from django_ratelimit_rules import Rule
from django_ratelimit_rules.engine import KeyWriter, Mode, Ruleset
from django_ratelimit_rules.replay import (
    Refusal,
    Report,
    reader_of,
    replay,
    text_report,
)
from tests.replay.test_logs import LOG

MINUTE, HOUR = 60, 3600
WELCOME = {"ip": {"cidr": "100.115.218.0/24"}}
SITE = (
    Rule("operators", action="skip", match={"path": {"prefix": ["/admin/", "/static/", "/favicon.ico"]}}),
    Rule("welcome_seen", action="log", match=WELCOME, characteristics=["ip"], limit=10, period=HOUR),
    Rule("welcome", action="skip", match=WELCOME),
    Rule(
        "crawlers",
        match={"header.user-agent": {"regex": "(?i)bot|crawler|spider|slurp"}},
        characteristics=["header.user-agent"],
        limit=50,
        period=HOUR,
    ),
    Rule("nameless", match={"header.user-agent": None}, characteristics=["ip"], limit=20, period=HOUR),
    Rule("downloads", match={"path": {"prefix": "/files/"}}, characteristics=["ip"], limit=15, period=HOUR),
    Rule("shadow", action="log", characteristics=["ip"], limit=50, period=MINUTE),
    Rule("clients", characteristics=["ip"], limit=100, period=MINUTE),
)


def ruleset(*rules: Rule, limiter: str = "site", mode: Mode = Mode.ENFORCE) -> Ruleset:
    return Ruleset(limiter, rules, mode=mode, keys=KeyWriter(b"secret"))


def of_log(draft: Ruleset, live: Ruleset | None = None, **options: Any) -> Report:
    lives = {} if live is None else {live.limiter: live}
    with LOG.open("rb") as file:
        return replay({draft.limiter: draft}, lives, reader_of(file, [draft, *lives.values()]), **options)


def of_lines(lines: Iterable[dict[str, Any]], *drafts: Ruleset, live: Iterable[Ruleset] = (), **options: Any) -> Report:
    file = io.BytesIO("".join(json.dumps(line) + "\n" for line in lines).encode())
    lives = {each.limiter: each for each in live}
    rulesets = {draft.limiter: draft for draft in drafts}
    return replay(rulesets, lives, reader_of(file, [*drafts, *lives.values()]), **options)


def numbers(report: Report) -> dict[str, tuple[int, int, int]]:
    (only,) = report.replays
    return {rule.name: (said.calls, said.exceeded, said.blocked) for rule, said, _ in only.rules}


def printed(report: Report, **options: Any) -> str:
    return "\n".join(text_report.lines(report, 20, **options))


def test_the_result_of_real_traffic():
    report = of_log(ruleset(*SITE))
    assert (report.order.requests, report.order.late, report.bad.total) == (9999, 0, 0)
    # A skip rule allows 807 favicons. Of the other requests, 171 come from the welcome network and are skipped too. The
    # rest reaches the rules of crawlers (1,411 match), nameless clients (181) and downloads (542). These three rules
    # block 62 requests, which the last two rules never see: 9,999 - 807 - 171 - 62 = 8,959.
    assert numbers(report) == {
        "operators": (807, 0, 0),
        "welcome_seen": (171, 2, 0),
        "welcome": (171, 0, 0),
        "crawlers": (1411, 12, 12),
        "nameless": (181, 33, 33),
        "downloads": (542, 17, 17),
        "shadow": (8959, 134, 0),
        "clients": (8959, 8, 8),
    }


def test_blocked_clients_of_real_traffic_with_time_and_duration():
    (only,) = of_log(ruleset(*SITE)).replays
    refusal, blocked = only.heaviest(1)[0]
    # The window began with the client's first nameless request at 12:05:01. The 21st came 26 seconds later.
    assert refusal == Refusal("nameless", "100.109.134.52")
    assert (blocked.calls, blocked.times) == (20, 1)
    assert [
        (at(spell.since), (spell.until - spell.since) / 1000, spell.calls) for spell in blocked.spells if spell.until
    ] == [("2015-05-18T12:05:27+00:00", 3574.0, 20)]
    crawler = next(refusal for refusal in only.draft.blocked if refusal.rule == "crawlers")
    assert crawler.who == "msnbot/2.0b (+http://search.msn.com/msnbot.htm)"


def at(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def test_real_traffic_is_counted_as_by_hand():
    """Compare one limit by address with a dozen lines of plain code that count the same."""
    windows: dict[str, tuple[float, int]] = {}
    refused: Counter[str] = Counter()
    for line in LOG.read_text("latin-1").splitlines():
        address, when = line.split(" ")[0], line.split("[")[1].split("]")[0]
        now = datetime.strptime(when, "%d/%b/%Y:%H:%M:%S %z").timestamp()
        ends, used = windows.get(address, (0, 0))
        if now >= ends:
            ends, used = now + HOUR, 0
        if used >= 30:
            refused[address] += 1
        else:
            used += 1
        windows[address] = ends, used
    (only,) = of_log(ruleset(Rule("limit", characteristics=["ip"], limit=30, period=HOUR))).replays
    assert refused.total() == only.draft.refused == 410
    assert {refusal.who: blocked.calls for refusal, blocked in only.draft.blocked.items()} == refused


def test_the_difference_from_the_live_rules_is_shown_by_rule_and_client():
    tighter = [rule.with_changes(limit=60) if rule.name == "clients" else rule for rule in SITE]
    report = of_log(ruleset(*SITE[:-1], Rule("renamed", limit=10**6, period=1)), ruleset(*tighter))
    (only,) = report.replays
    assert only.difference.added == {}
    assert only.difference.removed == {
        Refusal("clients", "100.99.29.165"): 72,
        Refusal("clients", "100.115.175.212"): 15,
    }
    said = printed(report)
    assert "0 more requests blocked, 87 no longer." in said
    assert "no longer  clients        72  100.99.29.165" in said
    assert "gone" in next(line for line in said.splitlines() if line.startswith("clients"))


def test_rules_that_block_the_same_are_reported_as_equal():
    report = of_log(ruleset(*SITE), ruleset(*SITE))
    assert "The live rules block the same requests." in printed(report)


def test_a_dry_run_blocks_no_request_unless_it_is_enforced():
    draft = ruleset(Rule("all", limit=1, period=60), mode=Mode.DRY_RUN)
    assert numbers(of_log(draft))["all"] == (9999, 9999 - len(windows_of_all()), 0)
    assert "--enforce" in printed(of_log(draft))
    assert numbers(of_log(draft, enforce=True))["all"][2] == 9999 - len(windows_of_all())


def windows_of_all() -> list[float]:
    begun: list[float] = []
    for line in LOG.read_text("latin-1").splitlines():
        now = datetime.strptime(line.split("[")[1].split("]")[0], "%d/%b/%Y:%H:%M:%S %z").timestamp()
        if not begun or now >= begun[-1] + 60:
            begun.append(now)
    return begun


def test_a_ruleset_that_is_off_counts_nothing():
    report = of_log(ruleset(Rule("all", limit=1, period=60), mode=Mode.OFF))
    assert numbers(report) == {}
    assert "the ruleset is off" in printed(report)


def test_a_limit_of_nothing_blocks_for_good_and_a_ban_for_its_time():
    lines = [{"time": 100 + second, "ip": "192.0.2.1", "path": path} for second in range(3) for path in ("/a", "/b")]
    report = of_lines(
        lines,
        ruleset(
            Rule("closed", match={"path": "/b"}, characteristics=["ip"], limit=0, period=1),
            Rule("ban", characteristics=["ip"], limit=1, period=60, ban_for=90),
        ),
    )
    said = printed(report, spells=True)
    row = next(line for line in said.splitlines() if line.startswith("closed") and "192.0.2.1" in line)
    assert row.split()[1:] == ["3", "1", "1969-12-31", "18:01:40", "1969-12-31", "18:01:42", "for", "good", "192.0.2.1"]
    assert "ban, 192.0.2.1:\n  1969-12-31 18:01:41 for 1 min 30 s, 2 requests" in said
    assert "closed, 192.0.2.1:\n  1969-12-31 18:01:40 for good, 3 requests" in said


def test_requests_of_several_limiters_meet_their_own_rules():
    lines = [{"time": second, "limiter": name, "user": 1} for second in range(4) for name in ("search", "login", "x")]
    one = Rule("one", characteristics=["user"], limit=1, period=60)
    report = of_lines([*lines, {"time": 9}], ruleset(one, limiter="search"), ruleset(one, limiter="login"))
    assert [(each.limiter, each.draft.requests, each.draft.refused) for each in report.replays] == [
        ("search", 4, 3),
        ("login", 4, 3),
    ]
    assert report.others == 5
    assert "5 requests of other limiters" in printed(report)


def test_properties_that_the_traffic_lacks_are_named_with_their_rules():
    report = of_log(ruleset(Rule("accounts", characteristics=["post.email", "user"], limit=5, period=60)))
    assert report.replays[0].untold == {"post.email": ["accounts"]}
    assert "does not contain post.email, so it is treated as missing (accounts)" in printed(report)


def test_properties_that_json_lines_lack_are_named_like_those_that_a_log_lacks():
    rule = Rule("accounts", characteristics=["post.email|lower", "user", "team"], limit=5, period=60)
    report = of_lines([{"time": 1, "user": 7}, {"time": 2, "post.email": "A@b"}], ruleset(rule))
    assert report.replays[0].untold == {"team": ["accounts"]}


def test_an_unrecorded_response_is_named_with_the_rules_charged_by_it():
    rules = [
        Rule("failures", characteristics=["ip"], limit=5, period=60, response={"status": 401, "login": "failed"}),
        Rule("errors", characteristics=["ip"], limit=5, period=60, response={"status": 500}),
    ]
    asked = {"time": 1, "ip": "203.0.113.1"}
    silent = of_lines([asked], ruleset(*rules))
    assert printed(silent).startswith("1 request from ")
    assert silent.replays[0].untold == {
        "the response's status": ["failures", "errors"],
        "the response's login": ["failures"],
    }
    assert "does not contain the response's login, so it is treated as missing (failures)" in printed(silent)
    told = of_lines([asked | {"status": 401}], ruleset(*rules))
    assert told.replays[0].untold == {"the response's login": ["failures"]}


def test_a_computed_limit_is_called_once_and_left_out_if_it_needs_a_request():
    draft = ruleset(
        Rule("computed", limit=lambda: 5, period=60), Rule("asks", limit=lambda request: request.limit, period=60)
    )
    report = of_log(draft)
    assert report.replays[0].left_out == ["asks"]
    assert list(numbers(report)) == ["computed"]
    assert "Left out" in printed(report)


def test_rules_by_outcome_are_charged_by_the_logs_status():
    def line(status: int) -> str:
        return f'192.0.2.1 - - [17/May/2015:10:05:03 +0000] "POST /login HTTP/1.1" {status} 1 "-" "x"\n'

    draft = ruleset(Rule("failed", characteristics=["ip"], limit=2, period=60, response={"status": 401}))
    file = io.BytesIO((line(200) * 5 + line(401) * 2 + line(200)).encode())
    (only,) = replay({"site": draft}, {}, reader_of(file, [draft])).replays
    assert only.draft.refused == 1


@pytest.mark.parametrize("bad", ["\x1b[31m", "\u202e", "\ud800"])
def test_no_client_writes_to_the_operators_terminal(bad):
    lines = [{"time": 1, "header.x-key": f"a{bad}b"}] * 2
    report = of_lines(lines, ruleset(Rule("keys", characteristics=["header.x-key"], limit=1, period=60)))
    said = printed(report)
    assert bad not in said
    assert "a\\" in said
    said.encode()


def test_missing_traffic_is_reported():
    assert "No request was read." in printed(of_lines([], ruleset(*SITE)))
