"""The decision vectors on a Redis Cluster, because the keys of one check must be in one slot."""

from __future__ import annotations

import time

import pytest

from tests.vector_runner import Run, cases

DECISIONS = [pytest.param(case, id=title) for title, case in cases() if "invalid" not in case]


@pytest.mark.parametrize("case", DECISIONS)
def test_vector_holds_on_a_cluster(cluster, case):
    Run(case, wait=time.sleep, now=time.time).run()
