"""Access logs: the facts of a line, invalid lines, and the same results for many lines at once."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from django.urls import path

from django_ratelimit_rules.replay import reader_of
from django_ratelimit_rules.replay.traffic import access_log
from django_ratelimit_rules.replay.traffic.access_log import AccessLog
from django_ratelimit_rules.replay.traffic.batches import Batch

LOG = Path(__file__).resolve().parents[2] / "example_project" / "traffic" / "access.log"
LINE = '192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET /a%20b?q=x&q=y HTTP/1.1" 200 12 "http://r/" "Agent (x; 1.0)"'
urlpatterns = [path("a b", lambda request: None, name="page"), path("item/<int:pk>/", lambda request: None)]


def read(text: str) -> tuple[AccessLog, list[Batch]]:
    reader = AccessLog(io.BytesIO(text.encode()))
    return reader, list(reader.batches())


def told(text: str, name: str) -> Any:
    reader, (batch,) = read(text)
    source = reader.source(name)
    if source is None or source.column is None:
        return source and source.fixed
    return source.read(batch.columns[source.column][0])


def test_many_lines_at_once_give_the_same_facts_as_single_lines():
    lines = LOG.read_text("latin-1").rstrip("\n").split("\n")
    reader = AccessLog(io.BytesIO())
    at_once = reader._at_once("\n".join(lines), len(lines))
    line_by_line = reader._line_by_line(lines, 0)
    assert len(at_once.times) == 9999
    assert list(at_once.times) == list(line_by_line.times)
    assert list(map(list, at_once.columns)) == list(map(list, line_by_line.columns))
    assert list(at_once.statuses) == list(line_by_line.statuses)
    assert reader.bad.total == 0


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace("Agent", r"Ag\"ent"),
        LINE + ' "203.0.113.1"',
        LINE.rpartition(' "http')[0],
        LINE.replace("192.0.2.7 - -", "192.0.2.7 - Jane Doe"),
        LINE.replace("+0000", "+0200"),
        LINE.replace("GET /a", "-"),
        LINE.replace(":10:05:03", ":xx:05:03"),
        LINE.replace(" 200 ", " abc "),
        "",
        "garbage",
        '"""""" ',
    ],
)
def test_an_odd_line_among_plain_ones_is_read_alone(line):
    reader, batches = read(f"{LINE}\n{line}\n{LINE}\n")
    alone, of_line = read(line + "\n")
    sizes = [sum(len(batch.times) for batch in some) for some in (batches, of_line)]
    assert sizes == [2 + sizes[1], sizes[1]]
    assert reader.bad.total == alone.bad.total == (0 if sizes[1] or not line else 1)
    assert [number for number, _ in reader.bad.shown] == [2] * reader.bad.total


def test_every_fact_of_a_line_is_read():
    assert told(LINE, "ip") == "192.0.2.7"
    assert told(LINE, "method") == "GET"
    assert told(LINE, "path") == "/a b"
    assert told(LINE, "query.q") == "y"
    assert told(LINE, "header.user-agent") == "Agent (x; 1.0)"
    assert told(LINE, "header.user-agent|lower") == "agent (x; 1.0)"
    assert told(LINE, "header.referer") == "http://r/"
    assert told(LINE, "user") == "<anonymous>"
    assert told(LINE, "is_authenticated") == told(LINE, "is_staff") == told(LINE, "bypass") == "0"
    assert told(LINE, "post.email") is None
    assert AccessLog(io.BytesIO()).source("post.email") is None


def test_facts_have_the_same_form_as_in_the_limiter():
    assert told(LINE.replace("GET", "HEAD"), "method") == "GET"
    assert told(LINE.replace("192.0.2.7", "::ffff:192.0.2.7"), "ip") == "192.0.2.7"
    assert told(LINE.replace("- -", "- jane"), "user") == "jane"
    assert told(LINE.replace("- -", "- jane"), "is_authenticated") == "1"
    assert told(LINE.replace("/a%20b", "/caf%C3%A9"), "path") == "/café"
    assert told(LINE.replace("/a%20b", r"/caf\xc3\xa9"), "path") == "/café"
    assert told(LINE.replace("/a%20b", "http://h/p"), "path") == "/p"
    assert told(LINE.replace('"Agent (x; 1.0)"', '"-"'), "header.user-agent") is None
    assert told(LINE.replace("Agent", r"A\"g\\e\tn"), "header.user-agent") == 'A"g\\e\tn (x; 1.0)'


@override_settings(ROOT_URLCONF=__name__)
def test_paths_are_resolved_if_a_rule_needs_it():
    item = LINE.replace("/a%20b", "/item/7/")
    assert told(LINE, "route") == "page"
    assert told(item, "route") == "item/<int:pk>/"
    assert told(item, "kwarg.pk") == "7"
    assert told(LINE, "view").endswith("<lambda>")
    assert told(LINE.replace("/a%20b", "/none"), "route") is None


def test_times_are_read_in_every_zone_and_across_its_change():
    text = "\n".join(LINE.replace("10:05:03 +0000", time) for time in ("12:05:03 +0200", "11:05:04 +0100")) + "\n"
    _, (batch,) = read(text)
    assert [datetime.fromtimestamp(time / 1000, UTC).isoformat() for time in batch.times] == [
        "2015-05-17T10:05:03+00:00",
        "2015-05-17T10:05:04+00:00",
    ]


def test_only_the_first_bad_lines_are_shown_and_all_are_counted():
    reader, _ = read("x\n" * 5000)
    assert reader.bad.total == 5000
    assert [number for number, _ in reader.bad.shown] == list(range(1, 21))


def test_lines_across_chunks_and_endless_ones_are_read(monkeypatch):
    monkeypatch.setattr(access_log, "CHUNK", 100)
    monkeypatch.setattr(access_log, "MAX_LINE", 300)
    reader, batches = read(f"{LINE}\r\n" * 3 + "x" * 1000 + f"\n{LINE}")
    assert sum(len(batch.times) for batch in batches) == 4
    assert reader.bad.total >= 1


def test_a_compressed_log_is_read_directly():
    reader = reader_of(io.BytesIO(gzip.compress(f"{LINE}\n".encode())), [])
    assert [len(batch.times) for batch in reader.batches()] == [1]
