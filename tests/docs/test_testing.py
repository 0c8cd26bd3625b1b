"""Testing your limits: the example of a project's own test passes."""

from __future__ import annotations

from django.test import Client

from tests.docs.pages import take
from tests.docs.running import define, serve

(OWN_TESTS,) = take("docs/testing.md#testing-your-limits")
(_, VIEWS, _) = take("README.md#five-minute-installation")


def test_the_example_of_a_project_s_own_test_passes(settings):
    serve(settings, search=define(VIEWS)["search"])
    define(OWN_TESTS)["test_the_second_search_is_refused"](Client())
