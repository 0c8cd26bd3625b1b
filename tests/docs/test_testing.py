"""Testing your limits: the examples of a project's own tests pass."""

from __future__ import annotations

from django.test import Client

from tests.docs.pages import take
from tests.docs.running import define, serve

(OWN_TESTS,) = take("docs/testing.md#testing-your-limits")
(OWN_CLOCK,) = take("docs/testing.md#moving-the-clock")
(_, VIEWS, _) = take("README.md#five-minute-installation")


def test_the_example_of_a_project_s_own_test_passes(settings):
    serve(settings, search=define(VIEWS)["search"])
    tests = define(OWN_TESTS, OWN_CLOCK)
    tests["test_the_second_search_is_refused"](Client())
    tests["test_a_client_may_search_again_tomorrow"](Client())
