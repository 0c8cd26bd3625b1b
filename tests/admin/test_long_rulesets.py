"""With 50 rulesets of 200 rules, each page of the admin needs few queries."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests import long_rulesets

MOST_QUERIES = 20


@pytest.mark.django_db(transaction=True)
def test_no_page_takes_more_than_twenty_queries():
    client = long_rulesets.operator()
    long_rulesets.make()
    long_rulesets.use()
    numbers = {}
    for name, ready in long_rulesets.pages(client):
        ask = ready()
        with CaptureQueriesContext(connection) as queries:
            answer = ask()
        assert answer.status_code in (200, 302), name
        numbers[name] = len(queries)
    assert {name: number for name, number in numbers.items() if number > MOST_QUERIES} == {}
    assert len(numbers) >= 20
