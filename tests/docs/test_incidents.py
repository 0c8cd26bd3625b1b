"""The incident handbook: its commands work, its log lines are written, and its alerts exist."""

from __future__ import annotations

import re
import shutil

import pytest
from django.core.management import call_command

from django_ratelimit_rules import Limiter, Rule, rate_limited
from django_ratelimit_rules import models as stored
from django_ratelimit_rules.testing import override_ruleset
from tests.docs.pages import take, text_of
from tests.docs.running import define, serve, shell
from tests.replay.test_logs import LOG
from tests.servers import free_port

(CALM,) = take("docs/incidents.md#stop-the-blocking")
(BLOCKED,) = take("docs/incidents.md#find-the-rule-that-blocks")
(LET_THROUGH,) = take("docs/incidents.md#let-a-client-through")
(REPLAY,) = take("docs/incidents.md#stop-a-flood")
(OFF,) = take("docs/incidents.md#switch-everything-off")
(FAILS,) = take("docs/incidents.md#redis-fails")
pytestmark = pytest.mark.django_db

PER_USER = Rule("per_user", characteristics=["user"], limit=30, period=60)
ADA = {"user": 42, "ip": "203.0.113.7"}


def lines(caplog, start):
    return [message for message in caplog.messages if message.startswith(start)]


def test_a_ruleset_is_put_into_a_dry_run_without_a_browser(tmp_path):
    search = stored.Ruleset.objects.create(name="search")
    stored.Rule.objects.create(ruleset=search, name="per_user", position=1, limit=30, period=60)
    assert [ran.status for ran in shell(CALM, tmp_path)] == [0, 0, 2, 0]
    search.refresh_from_db()
    assert (search.mode, search.rules.get().limit) == ("dry_run", 30)


def test_the_log_line_of_a_block_is_as_shown(caplog):
    limiter = Limiter("search")
    with override_ruleset("search", [PER_USER]):
        for _ in range(33):
            limiter.check(ADA)
    shown = BLOCKED.strip().removesuffix("…")
    # The count of the last line differs, because only the 1st, 2nd, 4th … of blocked calls are logged.
    written = lines(caplog, "Rate limit exceeded")[-1]
    assert re.sub("count=[0-9]+", "", written).startswith(re.sub("count=[0-9]+", "", shown))


def test_a_shell_explains_and_resets_a_blocked_client():
    limiter = Limiter("search")
    with override_ruleset("search", [PER_USER]):
        for _ in range(31):
            limiter.check(ADA)
        assert limiter.peek(ADA).blocked
        define(LET_THROUGH)
        assert not limiter.peek(ADA).blocked


def test_a_draft_against_a_flood_is_replayed(tmp_path):
    shutil.copy(LOG, tmp_path / "access.log")
    (tmp_path / "draft.yaml").write_text(
        "search: {rules: [{name: flood, characteristics: [ip], limit: 9, period: 1m}]}"
    )
    (replayed,) = shell(REPLAY, tmp_path)
    assert "flood" in replayed.said


def test_everything_is_switched_off_by_one_setting(settings):
    client = serve(settings, search=rate_limited("search")(define("def view(request): ...")["view"]))
    with override_ruleset("search", [Rule("none", limit=0, period=60)]):
        assert client.get("/search/").status_code == 429
        settings.RATELIMIT_RULES_ENABLED = define(OFF)["RATELIMIT_RULES_ENABLED"]
        assert client.get("/search/").status_code == 200


def test_a_failing_redis_is_logged_as_shown(settings, caplog):
    cache = settings.CACHES["default"] | {"LOCATION": f"redis://127.0.0.1:{free_port()}/0"}
    settings.CACHES = {"default": cache}
    with override_ruleset("search", [PER_USER], failure_mode="open"):
        assert Limiter("search").check(ADA).error
    assert lines(caplog, FAILS.strip().removesuffix("…"))


def test_every_alert_there_is_has_its_line(tmp_path):
    with override_ruleset("search", [Rule("staff", action="skip", match={"is_staff": True}), PER_USER]):
        call_command("ratelimit_dashboard", str(tmp_path), verbosity=0)
    alerts = set(re.findall(r"alert: (\w+)", (tmp_path / "ratelimit-alerts.yml").read_text()))
    for page in ("docs/incidents.md", "docs/monitoring.md"):
        assert set(re.findall(r"^\| `(RateLimit\w+)` \|", text_of(page), re.MULTILINE)) == alerts
