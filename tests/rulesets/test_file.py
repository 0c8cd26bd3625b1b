"""The file tier: valid files are read, and invalid files are rejected with path, line and reason."""

from __future__ import annotations

import contextlib
import json
import logging
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_ratelimit_rules import Limiter, models, rulesets
from django_ratelimit_rules.exceptions import InvalidRulesFile
from django_ratelimit_rules.rulesets.file import read
from django_ratelimit_rules.runtime import background
from tests.servers import wait_until

GOOD = """\
search:
  mode: dry_run
  failure_mode: closed
  rules:
    - {name: staff, action: skip, match: {is_staff: true}}
    - name: per_user
      limit: 30
      period: 1m
      characteristics: [user]
      expires_at: 2999-12-31T23:59:59+00:00
login:
  - {name: per_ip, limit: 5, period: 10m, characteristics: [ip], ban_for: 15m}
"""


def written(folder, text, name="rules.yaml"):
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_yaml_is_read(tmp_path):
    said = read(written(tmp_path, GOOD))
    assert {name: [rule.name for rule in tier.rules] for name, tier in said.items()} == {
        "search": ["staff", "per_user"],
        "login": ["per_ip"],
    }
    assert (said["search"].mode, said["search"].failure_mode, said["login"].mode) == ("dry_run", "closed", None)
    assert said["login"].rules[0].ban_for == 900


def test_json_is_read_tabs_and_escapes_included(tmp_path):
    rule = {"name": "r", "limit": 1, "period": 60, "match": {"path": ["/é", "\U0001f600"]}}
    text = json.dumps({"search": [rule]}, indent="\t")
    assert read(written(tmp_path, text, "rules.json"))["search"].rules[0].match == rule["match"]


def test_off_without_quotes_is_the_mode_off(tmp_path):
    assert read(written(tmp_path, "search: {mode: off}"))["search"].mode == "off"


def test_yaml_with_the_intended_types_is_read(tmp_path):
    text = "search: [{name: a, action: skip, enabled: no, match: {is_staff: yes, header.x: ['NO', '010', 0, True]}}]"
    (rule,) = read(written(tmp_path, text))["search"].rules
    assert (rule.enabled, rule.match) == (False, {"is_staff": True, "header.x": ["NO", "010", 0, True]})


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}"])
def test_an_empty_file_has_no_rules(tmp_path, text):
    assert read(written(tmp_path, text)) == {}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("search:\n  rules: [\n", 3, "this is not valid YAML"),
        ("- 1\n- 2\n", 1, "must map limiters"),
        ("Bad Name: []\n", 1, "is not a valid name"),
        ("search: 5\n", 1, "list of rules"),
        ("search:\n  rules: []\n  modus: off\n", 3, "unknown field 'modus'"),
        ("search:\n  mode: maybe\n", 2, "mode"),
        ("search:\n  mode: 0\n", 2, "mode"),
        ("search:\n  failure_mode: off\n", 2, "failure_mode"),
        ("search:\n  rules: {a: b}\n", 2, "must be a list"),
        ("search:\n  - {name: a, limit: 1, period: 60}\n  - 7\n", 3, "object of fields"),
        ("search:\n  - name: a\n    limit: -1\n    period: 60\n", 3, "rule 'a': limit: -1 is out of range"),
        ("search:\n  - name: a\n    limit: 1\n    perod: 60\n", 4, "perod: unknown field"),
        ("search:\n  - {limit: 1, period: 60}\n", 2, "needs a name"),
        ("search:\n  - {name: a, action: skip}\n  - {name: a, action: skip}\n", 3, "used twice"),
        ("search:\n  - name: a\n    action: skip\n    match:\n      path: {regex: '('}\n", 5, "'path'"),
        ("search: []\nsearch: []\n", 2, "'search' is written twice"),
        ("search:\n  - name: a\n    name: b\n    action: skip\n", 3, "'name' is written twice"),
        ("a: &x []\nb: *x\n", 1, "aliases"),
        ("a: !!python/object:os.system []\n", 1, "could not determine a constructor"),
        ("? [1, 2]\n: []\n", 1, ""),
        ("a:\n  - {name: a, action: skip, match: {header.x-country: NO}}\n", 2, "YAML reads NO as False"),
        ("a:\n  - {name: a, action: skip, match: {header.x-state: [CA,\n  ON]}}\n", 3, "YAML reads ON as True"),
        ("a:\n  - {name: a, limit: 010, period: 60}\n", 2, "YAML reads 010 as 8"),
        ("a:\n  - {name: a, limit: 1, period: 1:30}\n", 2, "YAML reads 1:30 as 90"),
    ],
)
def test_a_fault_is_named_with_path_line_and_reason(tmp_path, text, line, reason):
    path = written(tmp_path, text)
    with pytest.raises(InvalidRulesFile) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}:{line}: ")
    assert reason in str(raised.value)


def test_broken_json_and_missing_files_are_named(tmp_path):
    with pytest.raises(InvalidRulesFile, match=r"rules\.json:2: this is not valid JSON"):
        read(written(tmp_path, "{\n", "rules.json"))
    with pytest.raises(InvalidRulesFile, match="absent"):
        read(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff")
    with pytest.raises(InvalidRulesFile, match="latin"):
        read(tmp_path / "latin.yaml")


@given(st.text(max_size=80) | st.text("-:{}[]&*!?|>'\"#\n \tab", max_size=80))
def test_no_text_raises_anything_else(text):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        for name in ("rules.yaml", "rules.json"):
            path = Path(folder) / name
            path.write_text(text, "utf-8", errors="replace")
            with contextlib.suppress(InvalidRulesFile):
                read(path)


@pytest.mark.django_db
def test_the_file_is_the_highest_tier_and_followed_when_it_changes(tmp_path, settings, caplog):
    path = written(tmp_path, "edited:\n  - {name: r, limit: 1, period: 60}\n")
    settings.RATELIMIT_RULES_FILE = str(path)
    limiter = Limiter("edited", rules=[{"name": "r", "limit": 9, "period": 60}])
    assert limiter.check({}).evaluations[0].limit == 1
    assert rulesets.effective("edited").rules[0][1] == "file"

    replacement = written(tmp_path, "edited:\n  - {name: r, limit: 2, period: 60}\n", "next.yaml")
    os.replace(replacement, path)
    wait_until(lambda: limiter.check({}).evaluations[0].limit == 2, 3, "the new file")

    path.write_text("edited:\n  - {name: r, limit: none, period: 60}\n")
    wait_until(lambda: "rejected as a whole" in caplog.text, 3, "the refusal")
    assert limiter.check({}).evaluations[0].limit == 2
    assert f"{path}:2" in caplog.text


@pytest.mark.django_db
def test_an_unannounced_change_is_found_in_time_with_any_refresh_seconds(tmp_path, settings, monkeypatch):
    monkeypatch.setattr(background, "LONGEST_SLEEP", 0.1)
    path = written(tmp_path, "edited: [{name: r, limit: 1, period: 60}]\n")
    settings.RATELIMIT_RULES_FILE = str(path)
    settings.RATELIMIT_RULES_REFRESH_SECONDS = 600
    limiter = Limiter("edited")
    # Change the file twice, because the refresher's thread may have been about to read it once anyway.
    for limit in (2, 3):
        path.write_text(f"edited: [{{name: r, limit: {limit}, period: 60}}]\n")
        wait_until(lambda limit=limit: limiter.peek({}).evaluations[0].limit == limit, 5, "the new file")


@pytest.mark.django_db
def test_a_file_that_is_read_before_the_first_check_does_not_replace_the_admins_rules(tmp_path, settings):
    settings.RATELIMIT_RULES_FILE = str(written(tmp_path, GOOD))
    ruleset = models.Ruleset.objects.create(name="feeds")
    models.Rule.objects.create(ruleset=ruleset, name="from_the_admin", limit=1, period=60)
    rulesets.forget()

    # The refresher's thread reads the file first, and may be faster than the check that started it.
    rulesets.reload_file()

    assert [rule.name for rule in rulesets.get("feeds").rules] == ["from_the_admin"]
    assert [rule.name for rule in rulesets.get("login").rules] == ["per_ip"]


def test_a_file_that_is_broken_at_the_first_load_leaves_the_other_tiers(tmp_path, settings, caplog):
    settings.RATELIMIT_RULES_FILE = str(written(tmp_path, "edited: 5\n"))
    limiter = Limiter("edited", rules=[{"name": "r", "limit": 9, "period": 60}])
    assert limiter.check({}).evaluations[0].limit == 9
    assert [record.levelno for record in caplog.records if "rejected" in record.getMessage()] == [logging.ERROR]


def test_a_file_that_is_not_there_at_the_first_load_is_complained_about_and_read_when_it_comes(
    tmp_path, settings, caplog
):
    settings.RATELIMIT_RULES_FILE = str(tmp_path / "late.yaml")
    limiter = Limiter("edited", rules=[{"name": "r", "limit": 9, "period": 60}])
    assert limiter.check({}).evaluations[0].limit == 9
    assert [record.levelno for record in caplog.records if "late.yaml" in record.getMessage()] == [logging.ERROR]
    written(tmp_path, "edited:\n  - {name: r, limit: 1, period: 60}\n", "late.yaml")
    wait_until(lambda: limiter.check({}).evaluations[0].limit == 1, 3, "the file")
