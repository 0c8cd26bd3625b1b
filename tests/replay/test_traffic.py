"""Traffic out of order, and courses over time."""

from __future__ import annotations

from django_ratelimit_rules.replay.timeline import MOST_KEPT, Timeline
from django_ratelimit_rules.replay.traffic import batches
from django_ratelimit_rules.replay.traffic.batches import Batch, Order, in_order


def ordered(*batches: list[int]) -> tuple[list[int], list[str], Order]:
    order = Order()
    times, names = [], []
    for batch in in_order((Batch(times, [[str(time) for time in times]]) for times in batches), order):
        times += batch.times
        names += batch.columns[0]
    return times, names, order


def test_neighbours_that_changed_places_are_put_right_across_batches():
    times, names, order = ordered([1, 3, 2], [5, 4, 6], [6])
    assert times == [1, 2, 3, 4, 5, 6, 6]
    assert names == [str(time) for time in times]
    assert (order.requests, order.first, order.last, order.late) == (7, 1, 6, 0)


def test_a_request_far_from_its_place_counts_when_the_clock_stood_there(monkeypatch):
    monkeypatch.setattr(batches, "HELD", 1)
    times, names, order = ordered([10, 20, 30], [40, 5, 50], [60])
    assert times == [10, 20, 20, 30, 40, 50, 60]
    assert names == ["10", "20", "5", "30", "40", "50", "60"]
    assert (order.late, order.lateness) == (1, 15)


def test_no_traffic_is_no_batch():
    assert ordered() == ([], [], Order())
    assert ordered([], [])[0] == []


def test_a_course_has_no_gaps_and_its_columns_widen():
    course = Timeline()
    course.calls([0, 1, 60_000, 60_001, 180_000])
    course.note(60_001, True)
    course.note(180_000, False)
    assert course.columns(10) == (60_000, [(0, 2, 0, 0), (60_000, 2, 1, 1), (120_000, 0, 0, 0), (180_000, 1, 1, 0)])
    assert course.columns(2) == (120_000, [(0, 4, 1, 1), (120_000, 1, 1, 0)])
    course.calls([minute * 60_000 for minute in range(MOST_KEPT * 3)])
    assert course.width == 240_000
    width, columns = course.columns(100)
    assert len(columns) <= 100
    assert sum(column.calls for column in columns) == 5 + MOST_KEPT * 3
    assert [column.start for column in columns] == [number * width for number in range(len(columns))]
    assert Timeline().columns(5) == (60_000, [])
