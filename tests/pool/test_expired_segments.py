"""Raw segments go when all of their lines are older than anything that is kept, and not before."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import date, datetime, timedelta

import pytest

from flywheel.collection.segments import remove_closed_segment
from flywheel.errors import PoolError
from flywheel.pool import expired_segments
from flywheel.pool.expired_segments import remove_segments
from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.overview import pool_counts
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.raw import collect_day
from flywheel.pool.retention import Expired, enforce_retention, find_expired
from tests.pool.kills import KilledError, killing
from tests.pool.logs import NOON, Log, routing, task_logs, write_segment
from tests.pool.test_retention import DAY, run_day

NEXT_DAY = DAY + timedelta(days=1)
TOO_OLD = NOON + timedelta(days=731)


def arrive(
    pool: BenchmarkPool, name: str, logs: Sequence[Log | bytes], *days: date, written_at: datetime = NOON
) -> None:
    write_segment(pool.settings, name, logs, written_at=written_at)
    index_segments(pool, now=written_at)
    for day in days:
        run_day(pool, now=written_at, day=day)


def on_disk(pool: BenchmarkPool) -> list[str]:
    return sorted(path.stem for path in pool.settings.segments_dir.iterdir())


def in_ledger(pool: BenchmarkPool) -> list[str]:
    with pool.transaction() as connection:
        return [name.removesuffix(".segment") for (name,) in connection.execute("SELECT name FROM segments ORDER BY 1")]


def tasks_of(pool: BenchmarkPool) -> int:
    with pool.transaction() as connection:
        (count,) = connection.execute("SELECT count(*) FROM tasks").fetchone() or (-1,)
    return int(count)


def test_a_segment_leaves_disk_and_ledger_after_two_years(pool: BenchmarkPool) -> None:
    arrive(pool, "a", [*task_logs("t1"), b"broken"], DAY)
    assert Expired(store="segments", day=DAY, rows=4) not in find_expired(pool, now=NOON + timedelta(days=730))
    enforce_retention(pool, now=NOON + timedelta(days=730))
    assert (on_disk(pool), in_ledger(pool), tasks_of(pool)) == (["a"], ["a"], 2)

    announced = find_expired(pool, now=TOO_OLD)
    assert announced[-1] == Expired(store="segments", day=DAY, rows=4)
    assert on_disk(pool) == ["a"]
    assert enforce_retention(pool, now=TOO_OLD).removed == announced
    assert (on_disk(pool), in_ledger(pool), tasks_of(pool)) == ([], [], 0)
    assert find_expired(pool, now=TOO_OLD) == ()


def test_a_segment_stays_while_somebody_reads_segments(pool: BenchmarkPool) -> None:
    arrive(pool, "a", task_logs("t1"), DAY)
    with ThreadPoolExecutor() as threads:
        with pool.transaction() as connection:
            pool.keep_segments(connection)
            removal = threads.submit(remove_segments, pool, DAY, TOO_OLD)
            assert not wait([removal], timeout=0.5).done
            assert on_disk(pool) == ["a"]
        removal.result(timeout=30)
    assert on_disk(pool) == []


def test_the_accounts_still_add_up_and_the_day_is_not_run_again(pool: BenchmarkPool) -> None:
    arrive(pool, "a", [*task_logs("t1"), *task_logs("t2")[:2], b"broken"], DAY)
    before = pool_counts(pool)
    enforce_retention(pool, now=TOO_OLD)
    assert pool_counts(pool) == before
    assert before["lines"] == sum(before[name] for name in ("lines_in_points", "quarantined", "duplicates", "waiting"))
    assert stale_days(pool) == ()
    assert index_segments(pool, now=TOO_OLD).new_segments == 0
    assert collect_day(pool, DAY).lines == 0


def test_a_segment_with_a_line_of_a_younger_day_stays_whole(pool: BenchmarkPool) -> None:
    both = [*task_logs("t1"), *task_logs("t2", at=NOON + timedelta(days=1))]
    arrive(pool, "a", both, DAY, NEXT_DAY, written_at=NOON + timedelta(days=1))
    enforce_retention(pool, now=TOO_OLD)
    assert (on_disk(pool), collect_day(pool, NEXT_DAY).lines) == (["a"], 3)
    enforce_retention(pool, now=TOO_OLD + timedelta(days=1))
    assert (on_disk(pool), in_ledger(pool), tasks_of(pool)) == ([], [], 0)


def test_a_task_in_two_segments_keeps_the_one_that_stays(pool: BenchmarkPool) -> None:
    first, *rest = task_logs("t1")
    arrive(pool, "a", [first])
    tomorrow = NOON + timedelta(days=1)
    arrive(pool, "b", [*rest, *task_logs("t2", at=tomorrow)], DAY, NEXT_DAY, written_at=tomorrow)
    enforce_retention(pool, now=TOO_OLD)
    assert (on_disk(pool), in_ledger(pool)) == (["b"], ["b"])
    assert collect_day(pool, DAY).lines == 2
    enforce_retention(pool, now=TOO_OLD + timedelta(days=1))
    assert (on_disk(pool), tasks_of(pool)) == ([], 0)


def test_old_logs_that_came_late_go_though_their_segment_is_young(pool: BenchmarkPool) -> None:
    arrive(pool, "a", task_logs("t1"), DAY, written_at=TOO_OLD)
    assert enforce_retention(pool, now=TOO_OLD).removed[-1].store == "segments"
    assert on_disk(pool) == []


def test_a_stray_line_keeps_its_segment_for_as_long_as_the_day_it_was_written(pool: BenchmarkPool) -> None:
    written = NOON + timedelta(days=1)
    arrive(pool, "a", [*task_logs("t1"), b"broken"], DAY, NEXT_DAY, written_at=written)
    enforce_retention(pool, now=TOO_OLD)
    assert on_disk(pool) == ["a"]
    enforce_retention(pool, now=TOO_OLD + timedelta(days=1))
    assert on_disk(pool) == []


def test_a_segment_without_a_readable_line_goes_by_the_day_it_was_written(pool: BenchmarkPool) -> None:
    arrive(pool, "a", [])
    enforce_retention(pool, now=NOON + timedelta(days=730))
    assert on_disk(pool) == ["a"]
    enforce_retention(pool, now=TOO_OLD)
    assert on_disk(pool) == []


def test_a_segment_stays_while_a_run_of_its_day_is_due(pool: BenchmarkPool) -> None:
    arrive(pool, "a", task_logs("t1"), DAY)
    arrive(pool, "b", [routing("t2")])
    enforce_retention(pool, now=TOO_OLD)
    assert on_disk(pool) == ["a", "b"]
    run_day(pool, now=TOO_OLD)
    enforce_retention(pool, now=TOO_OLD)
    assert on_disk(pool) == []


@pytest.mark.parametrize("after_the_file", [False, True])
def test_a_kill_between_file_and_ledger_is_finished_by_the_next_run(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch, after_the_file: bool
) -> None:
    arrive(pool, "a", task_logs("t1"), DAY)

    remove = killing(remove_closed_segment, before=not after_the_file)
    with monkeypatch.context() as patched:
        patched.setattr(expired_segments, "remove_closed_segment", remove)
        with pytest.raises(KilledError):
            enforce_retention(pool, now=TOO_OLD)
    assert in_ledger(pool) == ["a"]
    assert index_segments(pool, now=TOO_OLD).new_segments == 0
    enforce_retention(pool, now=TOO_OLD)
    assert (on_disk(pool), in_ledger(pool), tasks_of(pool)) == ([], [], 0)


def test_a_segment_that_is_missing_before_its_time_is_still_an_error(pool: BenchmarkPool) -> None:
    arrive(pool, "a", task_logs("t1"), DAY)
    (pool.settings.segments_dir / "a.segment").unlink()
    enforce_retention(pool, now=NOON)
    with pytest.raises(PoolError, match="in the ledger but not in"):
        collect_day(pool, DAY)
