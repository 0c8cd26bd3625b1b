"""My limits of several limiters with counters on several masters."""

from __future__ import annotations

import pytest

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.http import my_limits
from django_ratelimit_rules.testing import override_ruleset


@pytest.mark.django_db
def test_a_user_sees_limits_that_lie_in_different_slots(cluster, rf, django_user_model):
    request = rf.get("/")
    request.user = django_user_model.objects.create_user("ada")
    rule = Rule("all", characteristics=["user"], limit=10, period=3600)
    with override_ruleset("one", [rule]), override_ruleset("two", [rule]), override_ruleset("three", [rule]):
        for name, times in (("one", 1), ("two", 2), ("three", 3)):
            for _ in range(times):
                Limiter(name).check({"user": request.user})
        seen = {limit.limiter: limit.used for limit in my_limits.of_user(request)}
    assert seen == {"one": 1, "two": 2, "three": 3}
