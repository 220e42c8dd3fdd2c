"""Up to when all that collectors wrote was taken in, with real writers."""

import os
from datetime import UTC, date, datetime, timedelta

import pytest

from flywheel.collection import SegmentWriter
from flywheel.collection.segments import segment_bytes
from flywheel.errors import SegmentError
from flywheel.pool import intake
from flywheel.pool.headers import FIRST_MOMENT
from flywheel.pool.intake import index_segments
from flywheel.pool.overview import day_state, list_days, pool_watermark
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import validate_day
from flywheel.pool.watermark import Completeness, Watermark, completeness, enter_watermark, observe
from tests.pool.logs import NOON, evaluation, lines_of, task_logs, write_segment

DAY = date(2026, 3, 2)
ENDS_AT = datetime(2026, 3, 3, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def mark_of(pool: BenchmarkPool) -> Watermark:
    found = pool_watermark(pool)
    assert found is not None
    return found


def write(pool: BenchmarkPool, *, opened_at: datetime, task: str = "t1") -> SegmentWriter:
    """A collector with an open segment, by its own clock."""
    writer = SegmentWriter(pool.settings.segments_dir, clock=lambda: opened_at)
    for line in lines_of(task_logs(task)):
        writer.append(line)
    return writer


def test_without_an_open_segment_it_is_when_the_folder_was_looked_at(pool: BenchmarkPool) -> None:
    assert pool_watermark(pool) is None
    index_segments(pool, now=NOON)
    assert mark_of(pool) == Watermark(at=NOON, observed_at=NOON, held_by=None, open_segments=0)
    write_segment(pool.settings, "a", task_logs("t1"))
    index_segments(pool, now=NOON + HOUR)
    assert mark_of(pool).at == NOON + HOUR


def test_the_oldest_open_segment_of_several_collectors_holds_it_back(pool: BenchmarkPool) -> None:
    first, second = (write(pool, opened_at=NOON + minutes * MINUTE) for minutes in (3, 5))
    index_segments(pool, now=NOON + HOUR)
    mark = mark_of(pool)
    assert (mark.at, mark.open_segments) == (NOON + 3 * MINUTE, 2)
    assert mark.held_by is not None
    assert mark.held_by.startswith("20260302T120300")
    first.close()
    index_segments(pool, now=NOON + HOUR + MINUTE)
    assert mark_of(pool).at == NOON + 5 * MINUTE
    second.close()
    index_segments(pool, now=NOON + 2 * HOUR)
    assert (mark_of(pool).at, mark_of(pool).held_by) == (NOON + 2 * HOUR, None)


def test_a_dead_collectors_segment_is_taken_in_and_holds_nothing_back(pool: BenchmarkPool) -> None:
    path = write_segment(pool.settings, "20260302T110000000000-7-dead", task_logs("t1"))
    path.with_suffix(".open").write_bytes(segment_bytes(path))  # as it was before it was closed
    path.unlink()
    report = index_segments(pool, now=NOON)
    assert (report.lines, mark_of(pool).at) == (3, NOON)


def test_a_clock_that_is_fast_does_not_move_it_past_the_first_write(pool: BenchmarkPool) -> None:
    fast = write(pool, opened_at=NOON + timedelta(days=2))
    (path,) = pool.settings.segments_dir.glob("*.open")
    os.utime(path, ((NOON + MINUTE).timestamp(),) * 2)
    assert observe(pool.settings.segments_dir, now=NOON + HOUR).at == NOON + MINUTE
    fast.close()


def test_a_clock_that_is_slow_takes_it_back(pool: BenchmarkPool) -> None:
    """Its lines may be of a day that was complete: to say so is honest."""
    index_segments(pool, now=ENDS_AT + 2 * HOUR)
    slow = write(pool, opened_at=NOON)
    index_segments(pool, now=ENDS_AT + 3 * HOUR)
    assert mark_of(pool).at == NOON
    slow.close()


@pytest.mark.parametrize("name", ["theirs.open", "20269999T999999999999-1-a.open"])
def test_an_open_segment_whose_name_tells_no_time_holds_everything_back(pool: BenchmarkPool, name: str) -> None:
    pool.settings.segments_dir.mkdir(parents=True)
    (pool.settings.segments_dir / name).write_bytes(b"")
    mark = observe(pool.settings.segments_dir, now=NOON)
    assert (mark.at, mark.held_by) == (FIRST_MOMENT, name)


def test_it_does_not_move_when_a_segment_could_not_be_read(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object, **__: object) -> None:
        raise SegmentError("the disk is away")

    index_segments(pool, now=NOON)
    write_segment(pool.settings, "a", task_logs("t1"))
    with monkeypatch.context() as patch:
        patch.setattr(intake, "enter_segment", unreadable)
        with pytest.raises(SegmentError):
            index_segments(pool, now=NOON + HOUR)
    assert mark_of(pool).at == NOON


def test_who_looked_earlier_does_not_undo_what_a_later_one_saw(pool: BenchmarkPool) -> None:
    later = Watermark(at=NOON, observed_at=NOON + HOUR, held_by="b.open", open_segments=2)
    earlier = Watermark(at=NOON + MINUTE, observed_at=NOON + MINUTE, held_by=None, open_segments=0)
    for mark in (later, earlier):
        with pool.transaction() as connection:
            enter_watermark(connection, mark)
    assert mark_of(pool) == later


@pytest.mark.parametrize(
    ("after_end", "stale", "waiting", "expected"),
    [
        (HOUR - MINUTE, False, False, "open"),
        (HOUR, False, False, "complete"),
        (HOUR, False, True, "waiting"),
        (HOUR, True, True, "stale"),
        (-HOUR, True, True, "open"),
    ],
)
def test_a_day_is_complete_once_its_end_and_the_allowed_lateness_are_passed_and_nobody_waits(
    after_end: timedelta, stale: bool, waiting: bool, expected: Completeness
) -> None:
    mark = Watermark(at=ENDS_AT + after_end, observed_at=ENDS_AT + after_end, held_by=None, open_segments=0)
    assert completeness(DAY, mark, allowed_lateness=HOUR, stale=stale, waiting=waiting) == expected
    assert completeness(DAY, None, allowed_lateness=HOUR, stale=stale, waiting=waiting) == "open"


def test_a_day_goes_from_open_over_stale_and_waiting_to_complete(pool: BenchmarkPool) -> None:
    def state() -> Completeness:
        (day,) = list_days(pool)
        assert day.completeness == day_state(pool, DAY).completeness
        return day.completeness

    write_segment(pool.settings, "a", task_logs("t1")[:2])
    index_segments(pool, now=NOON + HOUR)
    validate_day(pool, DAY, now=NOON + HOUR)
    assert state() == "open"
    index_segments(pool, now=ENDS_AT + HOUR)
    assert state() == "waiting"
    write_segment(pool.settings, "b", [evaluation("t1")])
    index_segments(pool, now=ENDS_AT + 2 * HOUR)
    assert state() == "stale"
    validate_day(pool, DAY, now=ENDS_AT + 2 * HOUR)
    assert state() == "complete"
    assert day_state(pool, DAY + timedelta(days=9)).completeness == "open"
