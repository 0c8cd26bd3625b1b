"""Reports and suggestions in another language: every sentence is translated, and numbers are written its way."""

from __future__ import annotations

import io
import json

import pytest
from django.utils import translation

from django_ratelimit_rules.engine import Mode, Rule, Ruleset
from django_ratelimit_rules.replay import Report, reader_of, replay, suggestion_text, text_report
from django_ratelimit_rules.replay.distribution import measure, only
from tests.i18n import pseudo

# Names, values and times of the traffic, which no language changes.
DATA = [
    "zz_[a-z]+",
    "_unknown_",
    "post.email",
    "header.x-key",
    "log|limit|skip",
    "(UTC|America/Chicago)",
    "p[0-9]+",
    "enforce",
]
LIMIT = Rule("zz_limit", characteristics=["ip"], limit=1, period=60)
CLOSED = Rule("zz_closed", match={"path": "/zz"}, characteristics=["ip", "post.email"], limit=0, period=60)
DISTINCT = Rule("zz_paths", characteristics=["ip"], limit=9, period=60, count_distinct="path")
FAILED = Rule("zz_failed", action="log", limit=9, period=60, response={"zz_login": "failed"})
COMPUTED = Rule("zz_computed", limit=lambda request: request.limit, period=60)


@pytest.fixture
def pseudo_language(pseudo_language):
    with translation.override(pseudo.LANGUAGE):
        yield


def traffic() -> io.BytesIO:
    lines = [{"time": second, "ip": "203.0.113.7", "path": path} for second in range(30) for path in ("/zz", "/")]
    lines += [{"time": 9, "limiter": "zz_other", "ip": "203.0.113.7"}]
    bad = ["[]", "{}", '{"time": "zz"}', '{"time": 1, "cost": -1}', '{"time": 1, "identifier": 1}']
    return io.BytesIO("\n".join([*map(json.dumps, lines), *bad]).encode())


def report(mode: Mode = Mode.ENFORCE, live: Rule = LIMIT) -> Report:
    draft = Ruleset("zz_site", (CLOSED, LIMIT, FAILED, COMPUTED), mode=mode)
    lives = {"zz_site": Ruleset("zz_site", (live,))}
    return replay({"zz_site": draft}, lives, reader_of(traffic(), [draft, *lives.values()]))


@pytest.mark.parametrize("mode", Mode)
def test_every_sentence_of_a_report_can_be_translated(pseudo_language, mode):
    lines = list(text_report.lines(report(mode, LIMIT.with_changes(name="zz_old", limit=9)), 20, spells=True))
    assert pseudo.untranslated("<p>".join(lines), DATA) == []
    assert any("⟦" in line for line in lines)


@pytest.mark.parametrize("rule", [LIMIT, DISTINCT, LIMIT.with_changes(characteristics=())])
def test_every_sentence_of_a_suggestion_can_be_translated(pseudo_language, rule):
    ruleset = Ruleset("zz_site", (rule,))
    (distribution,), _ = measure(ruleset, reader_of(traffic(), [ruleset]))
    lines = list(suggestion_text.lines(distribution, 0.5))
    data = [*DATA, r"\bip\b", r"\bpath\b"]
    assert pseudo.untranslated("<p>".join(lines), data) == []
    with pytest.raises(LookupError, match=r"⟦.*zz_limits.*⟧"):
        only(ruleset, "zz_limits")


def test_reasons_of_unreadable_lines_can_be_translated(pseudo_language):
    reasons = [reason for _, reason in report().bad.shown]
    assert len(reasons) == 5
    assert [reason for reason in reasons if not reason.startswith("⟦")] == []


def test_numbers_are_written_as_the_language_writes_them():
    with translation.override("de"):
        assert text_report.grouped(12_345) == "12.345"
        assert "0,70" in text_report.share(70, 9999)
    with translation.override("en"):
        assert text_report.share(70, 9999) == "70 of 9,999 (0.70 %)"
