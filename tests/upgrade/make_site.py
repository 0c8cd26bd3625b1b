"""Write the state of a site that runs release 1.0: its rows as SQL, its counters and its answers as JSON.

Run in a checkout of commit 5363096, with that checkout's environment:

    python make_site.py FOLDER

``site.sql`` has the rows of all tables of the app. ``site.json`` has the counters, the rules in force, the export and
the used counts, as the code of that commit reports them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, os.getcwd())
FOLDER = Path(sys.argv[1])
APP = "django_ratelimit_rules"
YEAR = "365d"
IDENTIFIER = {"user": "42", "ip": "203.0.113.7", "post.name": "ann"}

FIRST = f"""
fixed: [{{name: per_user, limit: 100, period: {YEAR}, characteristics: [user]}}]
sliding: [{{name: per_user, limit: 100, period: {YEAR}, characteristics: [user], algorithm: sliding_window}}]
bucket: [{{name: per_user, limit: 100, period: {YEAR}, characteristics: [user], algorithm: token_bucket}}]
distinct: [{{name: names, limit: 100, period: {YEAR}, characteristics: [ip], count_distinct: post.name}}]
banned: [{{name: per_ip, limit: 3, period: {YEAR}, characteristics: [ip], ban_for: {YEAR}}}]
parted:
  partition_by: user
  failure_mode: closed
  rules: [{{name: per_user, limit: 100, period: {YEAR}, characteristics: [user]}}]
search:
  description: "The public search\\nof all shops: é, ✓"
  mode: dry_run
  rules:
    - {{name: staff, action: skip, match: {{is_staff: true, path: {{prefix: [/api/, "/b c"]}}}}}}
    - {{name: shadow, action: log, limit: 9, period: 90s, characteristics: [ip, post.username|lower]}}
    - name: failed
      limit: 5
      period: 10m
      characteristics: [ip]
      ban_for: 15m
      response: {{login: failed, status: [401, "5"]}}
      warn_at: 60
    - name: noted
      limit: 7
      period: 1h
      enabled: false
      expires_at: "2999-12-31T21:59:59+00:00"
      description: "it's: why, not how"
      owner: The search team
      reason: "an incident\\n    - name: of long ago"
      ticket: "https://tracker.example/7"
      match: [{{header.x-team: {{eq: 1.0}}}}, {{query.page: {{eq: 1}}}}, {{json.on: true}}]
gone: [{{name: old, limit: 1, period: 1m}}]
"on": {{mode: off}}
"""
SECOND = "search: {mode: enforce, rules: [{name: only, limit: 1, period: 1m, characteristics: [ip]}]}"


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RATELIMIT_TEST_DB"] = str(Path(folder) / "site.sqlite3")
        import django

        django.setup()
        from django.conf import settings
        from django.core.management import call_command

        from tests.servers import redis_server

        with redis_server(int(settings.REDIS_URL.rpartition(":")[2])):
            call_command("migrate", verbosity=0)
            write_rows()
            site = count() | state()
            (FOLDER / "site.json").write_text(json.dumps(site, indent=1, ensure_ascii=False) + "\n", "utf-8")
            (FOLDER / "site.sql").write_text("".join(f"{line}\n" for line in statements()), "utf-8")


def write_rows() -> None:
    """Create each kind of rule and of version, by several authors."""
    from django_ratelimit_rules import rulestext, versions
    from django_ratelimit_rules.models import Rule, Ruleset, RulesetVersion

    versions.apply(rulestext.load(FIRST, "first.yaml"), versions.Author("ann", "ratelimit_apply first.yaml", "day one"))
    versions.apply(rulestext.load(SECOND, "second.yaml"), versions.Author("bob", "imported a text"))
    versions.restore(
        RulesetVersion.objects.get(ruleset="search", number=1), versions.Author("ann", "restored version 1")
    )
    with versions.changing(["gone"], versions.Author("bob", "deleted in the admin", "nobody asks for it")):
        Ruleset.objects.filter(name="gone").delete()
    # Rows that a page would reject, and a row that was not saved by a page.
    search = Ruleset.objects.get(name="search")
    Rule.objects.create(ruleset=search, name="bad", limit=1, period=60, match={"path": {"regex": "("}}, position=99)
    with versions.changing(["search"], versions.Author("ann", "saved in the admin")):
        search.rules.filter(name="shadow").update(limit=10)
    RulesetVersion.objects.create(ruleset="broken", number=1, user="eve", action="restored a backup", text="broken: {[")
    Ruleset.objects.create(name="unversioned").rules.create(name="all", limit=5, period=60)


def count() -> dict:
    """Charge each kind of counter. Return the counters."""
    from django_redis import get_redis_connection

    from django_ratelimit_rules import Limiter, rulesets

    rulesets.reload()
    client = get_redis_connection("default")
    counters, seen = [], set()
    for limiter in ("fixed", "sliding", "bucket", "distinct", "banned", "parted"):
        for _ in range(4 if limiter == "banned" else 1):
            Limiter(limiter).check(IDENTIFIER, cost=1 if limiter in ("distinct", "banned") else 3)
        for key in sorted(set(client.keys("*{*")) - seen):
            seen.add(key)
            distinct = client.type(key) == b"set"
            value = [each.decode() for each in client.smembers(key)] if distinct else client.get(key).decode()
            counters.append({"limiter": limiter, "key": key.decode(), "value": value, "px": client.pttl(key)})
    return {"made_at": int(time.time() * 1000), "counters": counters}


def state() -> dict:
    """Return the state as the code of this commit reports it."""
    from django_ratelimit_rules import Limiter, rulesets, rulestext
    from django_ratelimit_rules.models import Ruleset

    names = sorted(Ruleset.objects.values_list("name", flat=True))
    in_force = {name: rulesets.get(name) for name in names}
    return {
        "identifier": IDENTIFIER,
        "in_force": {
            name: {
                "mode": ruleset.mode,
                "partition_by": ruleset.partition_by,
                "version": ruleset.version,
                "rules": [rulestext.rule_of(rule) for rule in ruleset.rules],
            }
            for name, ruleset in in_force.items()
        },
        "used": {
            name: [[each.rule, each.used, each.exceeded] for each in Limiter(name).peek(IDENTIFIER).evaluations]
            for name in ("fixed", "sliding", "bucket", "distinct", "banned", "parted")
        },
        "export": rulestext.stored_text(),
    }


def statements():
    """Yield the rows as statements that SQLite and PostgreSQL run."""
    from django.apps import apps
    from django.db import connection

    for model in ("Ruleset", "Rule", "RulesetVersion"):
        fields = apps.get_model(APP, model)._meta.concrete_fields
        columns = ", ".join(f'"{field.column}"' for field in fields)
        with connection.cursor() as cursor:
            table = fields[0].model._meta.db_table
            cursor.execute(f'SELECT {columns} FROM "{table}" ORDER BY id')
            for row in cursor.fetchall():
                values = ", ".join(literal(field, value) for field, value in zip(fields, row, strict=True))
                yield f'INSERT INTO "{table}" ({columns}) VALUES ({values});'


def literal(field, value) -> str:
    if value is None:
        return "NULL"
    if field.get_internal_type() == "BooleanField":
        return str(bool(value)).upper()
    return str(value) if isinstance(value, (int, float)) else "'" + str(value).replace("'", "''") + "'"


if __name__ == "__main__":
    main()
