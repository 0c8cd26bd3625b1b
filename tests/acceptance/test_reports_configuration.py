"""Bug reports about other limiters, group N: changed rules that do not reach a worker, and foreign migrations."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from django.conf import settings as django_settings

from tests.servers import free_port, redis_server

SETTINGS = """
from tests.settings import *
ROOT_URLCONF = "urls_of_b"
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "counters": CACHES["default"],
}
RATELIMIT_RULES_CACHE_ALIAS = "counters"
"""

URLS = """
from django.http import HttpResponse
from django.urls import path
from django_ratelimit_rules import rate_limited

@rate_limited("api")
def view(request):
    return HttpResponse("fine")

urlpatterns = [path("t/", view)]
"""

# Prints each change of the response, with its time.
PROCESS_B = """
import time
import django
django.setup()
from django.test import Client
before = None
while True:
    status = Client().get("/t/").status_code
    if status != before:
        print(time.time(), status, flush=True)
    before = status
    time.sleep(0.01)
"""

# Runs the lines that it receives, and prints the time at which they were done.
PROCESS_A = """
import sys, time
import django
django.setup()
from django.db import connection
from django_ratelimit_rules.models import Rule, Ruleset
for line in sys.stdin:
    exec(line)
    print(time.time(), flush=True)
"""

CREATE = (
    "Rule.objects.create(ruleset=Ruleset.objects.create(name='api'), name='r', limit={}, period=60,"
    " characteristics=['ip'])"
)
# The actions of process A, and the responses of process B after each. No step reaches 100
# calls, because each begins a new count. Limit 0 blocks each call, and limit 10**6 allows each call.
STEPS = [
    ("rule = Rule.objects.get(); rule.limit = 0; rule.save()", 429),
    ("rule.enabled = False; rule.save()", 200),
    ("Rule.objects.update(enabled=True)", 429),
    ("Ruleset.objects.update(mode='off')", 200),
    ("ruleset = Ruleset.objects.get(); ruleset.mode = ''; ruleset.save()", 429),
    ("rule.limit = 10**6; Rule.objects.bulk_update([rule], ['limit'])", 200),
    ("Rule.objects.all().update(limit=0)", 429),
    ("rule.delete()", 200),
    ("Rule.objects.bulk_create([Rule(ruleset=ruleset, name='r', limit=0, period=60)])", 429),
    ("Ruleset.objects.get().delete()", 200),
    (CREATE.format(0), 429),
]
RAW = ("connection.cursor().execute('UPDATE django_ratelimit_rules_rule SET \"limit\" = 1000000')", 200)
# The documented bounds, and the time that a busy machine may add.
SAVED, BEHIND, SLACK = 1.0, 15.0, 3.0


@pytest.fixture
def site(tmp_path) -> Iterator[dict[str, str]]:
    """Create a database file, and return the environment of processes that use it."""
    (tmp_path / "settings_of_b.py").write_text(SETTINGS)
    (tmp_path / "urls_of_b.py").write_text(URLS)
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "settings_of_b",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "RATELIMIT_TEST_DB": str(tmp_path / "site.sqlite3"),
        "RATELIMIT_TEST_REDIS_URL": django_settings.REDIS_URL,
    }
    subprocess.run([sys.executable, "-m", "django", "migrate", "-v0"], env=environment, check=True)
    return environment


def started(program: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_report_33_every_process_follows_every_way_of_changing_a_rule(site):
    a, b = started(PROCESS_A, site), started(PROCESS_B, site)

    def change(lines: str) -> float:
        a.stdin.write(lines + "\n")
        a.stdin.flush()
        return float(a.stdout.readline())

    def answer() -> tuple[float, int]:
        at, status = b.stdout.readline().split()
        return float(at), int(status)

    try:
        assert answer()[1] == 200
        change(CREATE.format(100))
        for lines, expected in STEPS:
            at = change(lines)
            seen, status = answer()
            assert status == expected, lines
            assert seen - at < SAVED + SLACK, lines
        at = change(RAW[0])
        seen, status = answer()
        assert status == RAW[1]
        assert seen - at < BEHIND + SLACK
    finally:
        for process in (a, b):
            process.kill()
            process.communicate()


def test_report_33_a_rule_saved_while_redis_was_away_is_followed_as_soon_as_it_is_back(site):
    port = free_port()
    site["RATELIMIT_TEST_REDIS_URL"] = f"redis://127.0.0.1:{port}"
    a, b = started(PROCESS_A, site), started(PROCESS_B, site)

    def change(lines: str) -> None:
        a.stdin.write(lines + "\n")
        a.stdin.flush()
        a.stdout.readline()

    try:
        with redis_server(port):
            change(CREATE.format(10**6))
            assert b.stdout.readline().split()[1] == "200"
        # Redis comes back so soon that B may not have noticed the outage. Earlier announcements are lost.
        change("rule = Rule.objects.get(); rule.limit = 0; rule.save()")
        with redis_server(port):
            back = time.time()
            seen, status = b.stdout.readline().split()
            assert status == "429"
            # B's breaker paused for two seconds at most.
            assert float(seen) - back < SAVED + 2 * SLACK
    finally:
        for process in (a, b):
            process.kill()
            process.communicate()


USER_MODEL = """
from django.conf import settings
from django.contrib.auth.models import AbstractUser

class Person(AbstractUser):
    class Meta:
        abstract = settings.AUTH_USER_MODEL != "people.Person"
"""

PROJECT = """
import sys
from django.conf import settings
auto, variant = sys.argv[1:]
apps = ["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.messages",
        "django.contrib.sessions", "django_ratelimit_rules"]
changed = {
    "USE_TZ": False, "LANGUAGE_CODE": "ar", "DEFAULT_TABLESPACE": "elsewhere", "AUTH_USER_MODEL": "people.Person",
}
settings.configure(
    INSTALLED_APPS=[*apps, "people"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models." + auto, **(changed if variant == "changed" else {}),
)
import django
django.setup()
from django.core.management import call_command
call_command("makemigrations", "django_ratelimit_rules", check=True, dry_run=True)
call_command("migrate", run_syncdb=True, verbosity=0)
from django_ratelimit_rules.models import Rule, Ruleset
Rule.objects.create(ruleset=Ruleset.objects.create(name="api"), name="r", limit=1, period=60)
assert Rule.objects.get().to_engine().limit == 1
assert type(Rule._meta.pk).__name__ == type(Ruleset._meta.pk).__name__ == "BigAutoField"
"""


@pytest.mark.parametrize("variant", ["plain", "changed"])
@pytest.mark.parametrize("auto", ["AutoField", "BigAutoField", "SmallAutoField"])
def test_report_34_no_project_is_given_a_migration_for_this_app(tmp_path, auto, variant):
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "__init__.py").touch()
    (tmp_path / "people" / "models.py").write_text(USER_MODEL)
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-c", PROJECT, auto, variant]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (made.returncode, made.stdout) == (0, "No changes detected in app 'django_ratelimit_rules'\n"), made.stderr
