"""The admin tier as text: an export can be planned, applied and exported again, byte for byte."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from django_ratelimit_rules import Limiter, rulesets
from django_ratelimit_rules.engine.lint import Severity, Surroundings, lint
from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion
from django_ratelimit_rules.rulesets import file as rules_file
from django_ratelimit_rules.rulesets import findings
from django_ratelimit_rules.rulesets import text as ruleset_text

pytestmark = pytest.mark.django_db

CANONICAL = """\
login:
  rules:
    - name: per_ip
      characteristics: [ip, post.username|lower]
      limit: 5
      period: 10m
      ban_for: 15m
      response: {login: failed}
      warn_at: 60

"on": {}

search:
  description: The public search
  mode: dry_run
  failure_mode: closed
  rules:
    - name: staff
      action: skip
      match: {is_staff: true, path: {prefix: [/api/, "/b c"]}}
    - name: per_user
      characteristics: [user]
      limit: 30
      period: 90s
      algorithm: sliding_window
      enabled: false
      expires_at: "2999-12-31T21:59:59+00:00"
      description: "it's: why, not how"
      owner: The search team
      ticket: "https://tracker.example/7"
"""


def run(command, *arguments, **options):
    out = io.StringIO()
    call_command(command, *arguments, stdout=out, **options)
    return out.getvalue()


def plan(path, **options):
    out = io.StringIO()
    try:
        call_command("ratelimit_plan", str(path), stdout=out, **options)
    except SystemExit as end:
        return end.code, out.getvalue()
    return 0, out.getvalue()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rules.yaml"

    def written(text):
        path.write_text(text, "utf-8")
        return str(path)

    return written


def test_applied_text_is_exported_byte_for_byte_and_planning_it_again_changes_nothing(file):
    path = file(CANONICAL)
    code, shown = plan(path)
    assert code == 2
    assert "+ ruleset search" in shown
    run("ratelimit_apply", path)
    assert run("ratelimit_export") == CANONICAL
    assert plan(path) == (0, "Nothing would change.\n")
    assert run("ratelimit_apply", path) == "Nothing changed.\n"
    assert run("ratelimit_export", "login") == CANONICAL[: CANONICAL.index('\n"on"')]


def test_an_export_is_a_rules_file_as_well(tmp_path, settings, file):
    settings.RATELIMIT_RULES_FILE = file(CANONICAL.replace("enabled: false", "enabled: true"))
    assert [rule.name for rule in rulesets.get("search").rules] == ["staff", "per_user"]


def test_nothing_at_all_is_a_text_too(file):
    assert run("ratelimit_export") == "{}\n"
    assert plan(file("{}\n")) == (0, "Nothing would change.\n")


def test_an_export_follows_what_was_changed_deleted_and_renamed_since_the_last_one(file):
    run("ratelimit_apply", file(CANONICAL))
    assert run("ratelimit_export") == CANONICAL

    # Also without Django's signals.
    Rule.objects.filter(name="per_user").delete()
    Ruleset.objects.filter(name="on").update(name="an_other")
    assert run("ratelimit_export") == ruleset_text.dump(ruleset_text.stored())
    assert run("ratelimit_export").startswith("an_other: {}\n\nlogin:")

    Ruleset.objects.all().delete()
    assert run("ratelimit_export") == "{}\n"


def test_a_ruleset_that_there_is_not_is_no_empty_export():
    with pytest.raises(CommandError, match="no ruleset serach"):
        run("ratelimit_export", "serach")


def test_a_plan_lists_the_changes_in_readable_lines(file):
    run("ratelimit_apply", file(CANONICAL))
    changed = (
        CANONICAL.replace("mode: dry_run", "mode: enforce")
        .replace("limit: 30", "limit: 60")
        .replace("      enabled: false\n", "")
        .replace("    - name: staff\n", "    - {name: fresh, limit: 1, period: 1h, owner: me}\n    - name: staff\n")
        .replace("login:\n  rules:", "login:\n  rules: []\n# ")
    )
    changed = changed[: changed.index("# ")] + changed[changed.index('\n"on"') :]
    code, shown = plan(file(changed))
    assert code == 2
    lines = shown.splitlines()
    assert lines.pop(1).startswith("    - per_ip: limit 5 per 10 min by ip, post.username|lower")
    assert lines == [
        "~ ruleset login",
        "~ ruleset search",
        "    ~ mode: dry_run → enforce",
        "    + fresh: limit 1 per 1 h for everyone together (before staff)",
        "        ~ owner: none → me",
        "    ~ per_user: limit 60 per 90 s by user (sliding window)",
        "        ~ limit: 30 → 60",
        "        ~ enabled: false → true",
    ]
    assert Rule.objects.get(name="per_user").limit == 30, "a plan must not write"


def test_order_is_a_change_and_is_applied(file):
    rules = ["{name: a, limit: 1, period: 1m}", "{name: b, limit: 2, period: 1m}", "{name: c, limit: 3, period: 1m}"]
    run("ratelimit_apply", file("search:\n" + "".join(f"  - {rule}\n" for rule in rules)))
    turned = file("search:\n" + "".join(f"  - {rule}\n" for rule in rules[1:] + rules[:1]))
    assert plan(turned) == (2, "~ ruleset search\n    ~ order: b, c, a\n")
    run("ratelimit_apply", turned)
    assert [rule.name for rule in Ruleset.objects.get().rules.all()] == ["b", "c", "a"]
    assert plan(turned)[0] == 0


def test_rulesets_that_a_file_does_not_name_stay_unless_pruned(file):
    run("ratelimit_apply", file(CANONICAL))
    path = file(CANONICAL[: CANONICAL.index('\n"on"')])
    assert plan(path)[0] == 0
    assert plan(path, prune=True)[0] == 2
    run("ratelimit_apply", path)
    assert Ruleset.objects.count() == 3
    run("ratelimit_apply", path, prune=True)
    assert [ruleset.name for ruleset in Ruleset.objects.all()] == ["login"]


def test_applying_keeps_rows_and_counters_of_rules_whose_names_stay(file):
    path = file("search: [{name: per_user, limit: 5, period: 1h, characteristics: [user]}]")
    run("ratelimit_apply", path)
    rulesets.reload()
    Limiter("search").check({"user": 1}, cost=3)
    row = Rule.objects.get().pk
    run("ratelimit_apply", file("search: [{name: per_user, limit: 9, period: 1h, characteristics: [user]}]"))
    rulesets.reload()
    (evaluation,) = Limiter("search").peek({"user": 1}).evaluations
    assert (Rule.objects.get().pk, evaluation.used, evaluation.limit) == (row, 3, 9)


FAULTS = [
    ("search:\n  - {name: r, limit: -1, period: 1m}\n", ":2: rule 'r': limit:"),
    ("search:\n  - {name: r, limit: 1, period: 1m}\n  - {name: r, limit: 1, period: 1m}\n", ":3: "),
    (
        "search:\n  rules:\n    - name: r\n      limit: 1\n      period: 1m\n      characteristics: [usr]\n",
        ":6: rule 'r': characteristics: ",
    ),
    (
        'search:\n  rules:\n    - name: r\n      limit: 1\n      period: 1m\n      ticket: "a\\0b"\n',
        ":6: rule 'r': ticket: ",
    ),
    ("search:\n  - name: r\n    limit: 1\n    period: 1m\n    owner: " + "x" * 201, ":5: rule 'r': owner: "),
    ("search:\n  - name: r\n    limit: 1\n    period: 1m\n    match: {ip: 2020-01-01}", ":5: rule 'r': match: "),
    ("search:\n  - name: r\n    limit: 1\n    period: 1m\n    response: {path: /}", ":5: rule 'r': response: "),
    ("search:\n  mode: loud\n", ":2: mode: "),
    ("search:\n  description: [a]\n", ":2: description"),
    ('search: {description: "a\\0b"}\n', "limiter 'search': description: "),
    ("search: {\n", ":2: this is not valid YAML"),
]


@pytest.mark.parametrize(("text", "words"), FAULTS)
@pytest.mark.parametrize("command", ["ratelimit_plan", "ratelimit_apply"])
def test_a_fault_is_refused_with_file_line_and_reason_and_nothing_is_written(file, command, text, words):
    path = file(text)
    with pytest.raises(CommandError) as caught:
        run(command, path)
    assert str(caught.value).startswith(path)
    assert words in str(caught.value)
    assert caught.value.returncode == 1
    with pytest.raises(CommandError):
        run(command, file("aaa:\n  - {name: r, limit: 1, period: 1m}\n" + text))
    assert not Ruleset.objects.exists()
    assert not RulesetVersion.objects.exists()


ERRORS = [
    "match: {planet: earth}",
    "match: {path: /x, not_there: {exists: true}}",
    "characteristics: [ip, planet]",
    "count_distinct: planet",
]


@pytest.mark.parametrize("field", ERRORS)
def test_errors_of_the_linter_are_neither_applied_nor_imported(file, admin_client, field):
    run("ratelimit_apply", file(CANONICAL))
    before = run("ratelimit_export")
    text = f"other:\n  - {{name: fine, limit: 1, period: 1m}}\n  - {{name: bad, limit: 1, period: 1m, {field}}}\n"
    tiers = rules_file.read_text(text, "rules.yaml")
    found = lint(tiers["other"].rules, Surroundings(datetime.now(UTC), findings._fault_of))
    assert [finding.rule for finding in found if finding.severity is Severity.ERROR] == ["bad"]
    with pytest.raises(CommandError, match="bad"):
        run("ratelimit_apply", file(text))
    imported = admin_client.post(reverse("admin:django_ratelimit_rules_ruleset_import"), {"text": text})
    assert "Please correct the error" in imported.content.decode()
    assert run("ratelimit_export") == before


def test_a_file_that_is_not_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(CommandError, match=r"none\.yaml: the file cannot be read"):
        run("ratelimit_plan", str(tmp_path / "none.yaml"))


def test_a_row_that_is_no_valid_rule_is_in_the_text_which_is_rejected(file):
    ruleset = Ruleset.objects.create(name="search")
    Rule.objects.create(ruleset=ruleset, name="bad", limit=1, period=60, match={"path": {"regex": "("}})
    text = run("ratelimit_export")
    assert 'match: {path: {regex: "("}}' in text
    with pytest.raises(CommandError, match="does not compile"):
        run("ratelimit_plan", file(text))


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
scalars = st.one_of(texts, st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.none())
conditions = st.one_of(
    scalars,
    st.lists(scalars, max_size=3),
    st.fixed_dictionaries(
        {}, optional={"eq": scalars, "in": st.lists(scalars, max_size=2), "exists": st.booleans()}
    ).filter(bool),
    st.builds(lambda inner: {"not": inner}, scalars),
)
properties = st.sampled_from(["ip", "user", "header.X_Team", "post.a|strip | lower", "query.é", "json.y", "path"])
objects = st.dictionaries(properties, conditions, max_size=3)
notes = dict.fromkeys(("description", "owner", "reason", "ticket"), texts)
counting = st.fixed_dictionaries(
    {
        "limit": st.integers(0, 10**12),
        "period": st.integers(1, 31_536_000),
        "action": st.sampled_from(["limit", "log"]),
    },
    optional={
        **notes,
        "match": st.one_of(objects, st.lists(objects, min_size=1, max_size=2)),
        "characteristics": st.lists(properties, max_size=3, unique_by=str.lower),
        "ban_for": st.integers(1, 31_536_000),
        "warn_at": st.integers(0, 100),
        "algorithm": st.sampled_from(["fixed_window", "sliding_window", "token_bucket"]),
        "enabled": st.booleans(),
        "expires_at": st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)),
        "response": st.just({"status": [401, "5"], "header.X-a": {"prefix": "é"}}),
    },
)
skipping = st.fixed_dictionaries({"action": st.just("skip")}, optional={**notes, "match": objects})
names = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)
tiers = st.dictionaries(
    names,
    st.fixed_dictionaries(
        {"rules": st.dictionaries(names, st.one_of(counting, skipping), max_size=3)},
        optional={"mode": st.sampled_from(["enforce", "dry_run", "off"]), "description": texts},
    ),
    max_size=3,
)


@settings(deadline=None)
@given(tiers)
def test_export_apply_export_is_byte_identical_for_any_rows(said):
    Ruleset.objects.all().delete()
    for name, fields in said.items():
        ruleset = Ruleset.objects.create(name=name, **{key: fields[key] for key in fields if key != "rules"})
        for position, (rule, values) in enumerate(fields["rules"].items()):
            Rule.objects.create(ruleset=ruleset, name=rule, position=position, **values)
    text = ruleset_text.dump(ruleset_text.stored())
    assert rules_file.read_text(text, "export.yaml").keys() == said.keys()
    ruleset_text.write(ruleset_text.load(text, "export.yaml"))
    assert ruleset_text.dump(ruleset_text.stored()) == text
    Ruleset.objects.all().delete()
    ruleset_text.write(ruleset_text.load(text, "export.yaml"))
    assert ruleset_text.dump(ruleset_text.stored()) == text
