"""JSON lines as traffic: both shapes, times, and invalid lines."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from django_ratelimit_rules import Rule
from django_ratelimit_rules.engine import KeyWriter, Ruleset
from django_ratelimit_rules.replay import reader_of
from django_ratelimit_rules.replay.traffic.batches import Reader

RULES = Ruleset(
    "search",
    (Rule("all", characteristics=["user", "header.x-key|lower", "team"], limit=1, period=60),),
    keys=KeyWriter(b"secret"),
)


def reading(*lines: object) -> Reader:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    return reader_of(io.BytesIO(text.encode()), [RULES])


def told(reader: Reader, name: str) -> list[Any]:
    source = reader.source(name)
    return [source.read(text) for batch in reader.batches() for text in batch.columns[source.column]]


def test_an_identifier_or_the_other_fields_are_the_properties():
    nested = {"time": 1, "limiter": "search", "identifier": {"user": 7, "team": True, "header.X_Key": "AB"}}
    flat = {"@timestamp": "1970-01-01T00:00:01Z", "user": "7", "status": 401, "cost": 3}
    assert told(reading(nested, flat), "user") == ["7", "7"]
    assert told(reading(nested, flat), "team") == ["1", None]
    assert told(reading(nested, flat), "header.x-key|lower") == ["ab", None]
    (batch,) = reading(nested, flat).batches()
    assert batch.times == (1000, 1000)
    assert batch.limiters == ("search", None)
    assert (batch.costs, batch.statuses) == ((1, 3), (None, "401"))


@pytest.mark.parametrize("torn", ['fier": {"user": 1}}', "x" * 2000, "# recorded on Monday\n"])
def test_a_file_with_a_bad_first_line_gets_its_format_from_the_other_lines(torn):
    lines = [{"time": second, "user": second} for second in range(3)]
    reader = reading(torn, *lines)
    assert told(reader, "user") == ["0", "1", "2"]
    assert [number for number, _ in reader.bad.shown] == [1]


def test_an_access_log_with_a_bad_line_that_begins_with_a_brace_stays_one():
    line = '192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 12'
    reader = reading('{"error": 1}', line, line, line)
    assert sum(len(batch.times) for batch in reader.batches()) == 3
    assert [number for number, _ in reader.bad.shown] == [1]


def test_a_recorded_filtered_property_is_taken_as_recorded():
    line = {"time": 1, "identifier": {"header.x-key": "AB", "header.x-key|lower": "#digest"}}
    assert told(reading(line), "header.x-key|lower") == ["#digest"]


def test_text_is_utf_8():
    assert told(reading('{"time": 1, "user": "é"}'), "user") == ["é"]


def test_properties_that_no_rule_needs_are_not_read():
    assert reading({"time": 1, "path": "/"}).source("path") is None


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"user": 1}',
        '{"time": true}',
        '{"time": NaN}',
        '{"time": -1}',
        '{"time": "yesterday"}',
        '{"time": 1, "user": []}',
        '{"time": 1, "identifier": 5}',
        '{"time": 1, "cost": -1}',
        '{"time": 1, "cost": "1"}',
        '{"time": 1, "limiter": "No Name"}',
        '{"time": 1, "status": {}}',
        '{"a":' * 100_000,
    ],
)
def test_a_bad_line_is_noted_and_the_others_are_read(line):
    reader = reading({"time": 1, "user": 1}, line, "", {"time": 2, "user": 2})
    assert told(reader, "user") == ["1", "2"]
    assert reader.bad.total == 1
    assert reader.bad.shown[0][0] == 2
