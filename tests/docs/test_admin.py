"""The admin's page: the commands for drafts run."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.docs.pages import take
from tests.docs.running import shell
from tests.replay.test_logs import LOG

REPLAY, SUGGEST = take("docs/admin.md#before-a-draft-comes-into-force")


@pytest.mark.django_db
def test_recorded_traffic_is_replayed_and_a_limit_suggested(tmp_path):
    draft = "site: {rules: [{name: clients, characteristics: [ip], limit: 9, period: 1h}]}"
    (tmp_path / "draft.yaml").write_text(draft)
    shutil.copy(LOG, tmp_path / "access.log")
    replayed, suggested = shell(REPLAY + SUGGEST, tmp_path)
    assert re.search(r"clients +[\d,]+ +[\d,]+ +[\d,]+", replayed.said)
    assert all(word in suggested.said for word in ("p50", "p95", "p99", "max", "limit:"))
