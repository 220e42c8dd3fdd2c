from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pytest

from flywheel.pool import intake
from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.raw import collect_day
from tests.pool.kills import KilledError, killing
from tests.pool.logs import NOON, Log, evaluation, execution, parts_of_day, routing, task_logs, write_segment

DAY = date(2026, 3, 2)
NEXT_DAY = date(2026, 3, 3)
MIDNIGHT = NOON + timedelta(hours=12)


def lines_by_day(pool: BenchmarkPool, *days: date) -> dict[date, int]:
    return {day: collect_day(pool, day).lines for day in days}


def test_a_segment_is_indexed_once(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", task_logs("t1"))
    first = index_segments(pool, now=NOON)
    second = index_segments(pool, now=NOON)
    assert (first.new_segments, first.lines, first.days) == (1, 3, (DAY,))
    assert (second.new_segments, second.lines, second.days) == (0, 0, ())


def test_all_lines_of_a_task_are_in_one_day_though_midnight_falls_between_them(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", task_logs("t1", at=MIDNIGHT - timedelta(seconds=1)))
    report = index_segments(pool, now=NOON)
    assert report.days == (DAY,)
    assert lines_by_day(pool, DAY, NEXT_DAY) == {DAY: 3, NEXT_DAY: 0}


def test_an_earlier_log_that_arrives_late_moves_its_task_and_both_days_change(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", [execution("t1", at=MIDNIGHT), evaluation("t1", at=MIDNIGHT)])
    assert index_segments(pool, now=NOON).days == (NEXT_DAY,)
    write_segment(pool.settings, "b", [routing("t1", at=MIDNIGHT - timedelta(seconds=5))])
    assert index_segments(pool, now=NOON).days == (DAY, NEXT_DAY)
    assert lines_by_day(pool, DAY, NEXT_DAY) == {DAY: 3, NEXT_DAY: 0}


def test_a_second_tenant_with_the_same_task_id_gives_back_what_the_first_one_owned(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", [routing("t1", at=MIDNIGHT - timedelta(seconds=1)), execution("t1", at=MIDNIGHT)])
    assert index_segments(pool, now=NOON).days == (DAY,)
    write_segment(pool.settings, "b", [routing("t1", at=MIDNIGHT, tenant="umbrella")])
    assert index_segments(pool, now=NOON).days == (DAY, NEXT_DAY)
    owners = {line.log: line.owner_key for part in parts_of_day(pool, NEXT_DAY) for line in part}
    assert owners["execution"] is None
    assert owners["routing"] is not None


def test_a_line_without_task_or_time_belongs_to_the_day_its_segment_was_written(pool: BenchmarkPool) -> None:
    lines = [b"not json", b'{"taskId": "t1"}', b'{"taskId": 7, "timestamp": "2026-01-01T00:00:00Z"}', b"\xff\xfe"]
    write_segment(pool.settings, "a", lines, written_at=MIDNIGHT)
    report = index_segments(pool, now=NOON)
    assert (report.days, report.stray_lines) == ((NEXT_DAY,), 4)
    raw = collect_day(pool, NEXT_DAY)
    assert (raw.lines, raw.by_log) == (4, {"unreadable": 4})


def test_a_time_that_cannot_be_believed_leaves_the_task_where_it_was(pool: BenchmarkPool) -> None:
    wrong_clock = {"log": "feedback", "taskId": "t1", "source": "user", "name": "thumbs", "value": True}
    logs = [
        *task_logs("t1"),
        *({**wrong_clock, "timestamp": at} for at in ("1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z")),
    ]
    write_segment(pool.settings, "a", logs)
    report = index_segments(pool, now=NOON)
    assert report.stray_lines == 2
    assert report.days == (NOON.date(),)


def test_a_file_that_is_no_segment_holds_nothing_up(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "b", task_logs("t1"))
    (pool.settings.segments_dir / "a.segment").write_bytes(bytes(64))
    report = index_segments(pool, now=NOON)
    assert (report.new_segments, report.lines, report.torn) == (2, 3, 1)


def test_every_line_is_in_exactly_one_day(pool: BenchmarkPool) -> None:
    for number in range(6):
        at = NOON + timedelta(hours=5 * number)
        logs: list[Log | bytes] = [*task_logs(f"t{number}", at=at), *task_logs("again", at=at), b"broken"]
        write_segment(pool.settings, f"s{number}", logs, written_at=at)
    report = index_segments(pool, now=NOON)
    assert sum(lines_by_day(pool, *report.days).values()) == report.lines == 6 * 7


def test_a_killed_intake_leaves_nothing_of_its_segment_and_the_next_one_resumes(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(pool.settings, "a", task_logs("t1"))
    with monkeypatch.context() as patch:
        patch.setattr(intake, "mark_changed", killing(intake.mark_changed, before=True))
        with pytest.raises(KilledError):
            index_segments(pool, now=NOON)
    assert lines_by_day(pool, DAY) == {DAY: 0}
    assert index_segments(pool, now=NOON).lines == 3
    assert lines_by_day(pool, DAY) == {DAY: 3}


def test_intakes_that_run_at_once_count_every_segment_once(pool: BenchmarkPool) -> None:
    for number in range(6):
        write_segment(pool.settings, f"s{number}", task_logs(f"t{number}"))
    with ThreadPoolExecutor(4) as threads:
        reports = list(threads.map(lambda _: index_segments(pool, now=NOON), range(4)))
    assert sum(report.new_segments for report in reports) == 6
    assert lines_by_day(pool, DAY) == {DAY: 18}


def test_a_changed_day_is_stale_with_a_growing_version(pool: BenchmarkPool) -> None:
    assert stale_days(pool) == ()
    write_segment(pool.settings, "a", task_logs("t1"))
    index_segments(pool, now=NOON)
    (first,) = stale_days(pool)
    write_segment(pool.settings, "b", task_logs("t2"))
    index_segments(pool, now=NOON)
    (second,) = stale_days(pool)
    assert (first.day, second.day) == (DAY, DAY)
    assert second.version > first.version


def test_the_digest_of_a_day_changes_with_its_lines(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", task_logs("t1"))
    index_segments(pool, now=NOON)
    before = collect_day(pool, DAY)
    assert collect_day(pool, DAY) == before
    write_segment(pool.settings, "b", [execution("t1", latencyMs=5.0)])
    index_segments(pool, now=NOON)
    assert collect_day(pool, DAY).digest != before.digest
