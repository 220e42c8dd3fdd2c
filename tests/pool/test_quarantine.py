from datetime import date, timedelta

import pytest

from flywheel.errors import PoolError
from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine, review
from flywheel.pool.validation import validate_day
from tests.pool.logs import NOON, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(days=1)


def quarantine_a_task(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", [*task_logs("t1", toolCallCount=5), b"\xffbroken"])
    index_segments(pool, now=LATER)
    assert validate_day(pool, DAY, now=LATER).quarantined == 4


def test_lines_are_listed_with_their_reasons(pool: BenchmarkPool) -> None:
    quarantine_a_task(pool)
    found = list_quarantine(pool, day=DAY)
    assert len(found) == 4
    assert {line.task_id for line in found} == {"t1", None}
    (broken,) = (line for line in found if line.task_id is None)
    assert broken.line == "\ufffdbroken"
    assert broken.state == "pending"
    assert len(list_quarantine(pool, limit=2)) == 2
    assert list_quarantine(pool, day=DAY + timedelta(days=1)) == ()


def test_an_approved_task_is_released_and_stays_so_when_the_day_runs_again(pool: BenchmarkPool) -> None:
    quarantine_a_task(pool)
    before = stale_days(pool)[0].version
    for line in list_quarantine(pool):
        review(pool, line.id, state="approved", note="the tool counts retries", now=LATER)
    assert stale_days(pool)[0].version > before
    for _ in range(2):
        report = validate_day(pool, DAY, now=LATER)
        assert (report.points, report.released, report.quarantined) == (1, 1, 1)
        assert report.lines == sum(report.outcome.values())


def test_a_review_is_kept_when_the_day_runs_again(pool: BenchmarkPool) -> None:
    quarantine_a_task(pool)
    line = list_quarantine(pool)[0]
    review(pool, line.id, state="rejected", note="a test of theirs", now=LATER)
    validate_day(pool, DAY, now=LATER)
    (kept,) = (other for other in list_quarantine(pool) if other.id == line.id)
    assert (kept.state, kept.note) == ("rejected", "a test of theirs")


def test_a_line_that_is_not_there_cannot_be_reviewed(pool: BenchmarkPool) -> None:
    with pytest.raises(PoolError, match="no quarantined line has the id nothing"):
        review(pool, "nothing", state="approved", note="", now=LATER)
