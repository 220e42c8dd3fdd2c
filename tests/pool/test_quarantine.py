from datetime import date, timedelta

import pytest

from flywheel.errors import PoolError
from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine, quarantined, reject, release
from flywheel.pool.rows import read_rows
from flywheel.pool.schemas import VALIDATED, check_rows
from flywheel.pool.validation import validate_day
from tests.pool.logs import NOON, evaluation, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(days=1)


def quarantine_a_task(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", [*task_logs("t1", toolCallCount=5), b"\xffbroken"])
    index_segments(pool, now=LATER)
    assert validate_day(pool, DAY, now=LATER).quarantined == 4


def line_of(pool: BenchmarkPool, task_id: str | None) -> str:
    return next(line.id for line in list_quarantine(pool) if line.task_id == task_id)


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


def test_a_released_task_is_a_point_that_says_what_was_waived_also_when_the_day_runs_again(pool: BenchmarkPool) -> None:
    quarantine_a_task(pool)
    before = stale_days(pool)[0].version
    released = release(pool, line_of(pool, "t1"), note="the tool counts retries", now=LATER)
    assert [(line.state, line.reviewed_at) for line in released] == [("approved", LATER)] * 3
    assert stale_days(pool)[0].version > before
    for _ in range(2):
        report = validate_day(pool, DAY, now=LATER)
        assert (report.points, report.released, report.quarantined) == (1, 1, 1)
        assert report.lines == sum(report.outcome.values())
        (point,) = read_rows(pool, VALIDATED, DAY)
        assert (point["waived"], point["warnings"]) == (["consistent"], [])


def test_a_released_success_without_a_score_fits_the_schema_of_the_table(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", task_logs("t1", overallScore=0.0))
    index_segments(pool, now=LATER)
    validate_day(pool, DAY, now=LATER)
    release(pool, line_of(pool, "t1"), note="scored by hand", now=LATER)
    validate_day(pool, DAY, now=LATER)
    assert check_rows(pool, DAY).passed
    (point,) = read_rows(pool, VALIDATED, DAY)
    assert (point["waived"], point["warnings"]) == (["consistent"], ["plausible"])


def test_a_log_that_comes_after_the_release_is_judged_anew(pool: BenchmarkPool) -> None:
    quarantine_a_task(pool)
    release(pool, line_of(pool, "t1"), note="", now=LATER)
    write_segment(pool.settings, "b", [evaluation("t1", at=NOON + timedelta(seconds=9))])
    index_segments(pool, now=LATER)
    report = validate_day(pool, DAY, now=LATER)
    assert (report.points, report.released) == (0, 0)
    pending = list_quarantine(pool, state="pending", gate="consistent")
    assert len(pending) == 1


def test_a_decision_is_not_about_another_tenants_task_of_the_same_name(pool: BenchmarkPool) -> None:
    for tenant in ("acme", "globex"):
        logs = task_logs("t1", tenant=tenant, toolCallCount=5)
        write_segment(pool.settings, tenant, [{**log, "tenantId": tenant} for log in logs])
    index_segments(pool, now=LATER)
    assert validate_day(pool, DAY, now=LATER).quarantined == 6
    assert len(release(pool, line_of(pool, "t1"), note="", now=LATER)) == 3
    report = validate_day(pool, DAY, now=LATER)
    assert (report.points, report.quarantined) == (1, 3)


def test_a_review_is_kept_when_the_day_runs_again(pool: BenchmarkPool) -> None:
    quarantine_a_task(pool)
    line = line_of(pool, None)
    reject(pool, line, note="a test of theirs", now=LATER)
    validate_day(pool, DAY, now=LATER)
    ((kept, *_),) = (quarantined(pool, line),)
    assert (kept.state, kept.note) == ("rejected", "a test of theirs")


def test_what_failed_before_joining_or_is_of_an_unknown_type_cannot_be_released(pool: BenchmarkPool) -> None:
    quarantine_a_task(pool)
    write_segment(pool.settings, "b", task_logs("t2", taskType="magic"))
    index_segments(pool, now=LATER)
    validate_day(pool, DAY, now=LATER)
    for task_id, words in ((None, "not JSON"), ("t2", "task type 'magic' is unknown; add it to the setting")):
        with pytest.raises(PoolError, match=words):
            release(pool, line_of(pool, task_id), note="", now=LATER)
    assert list_quarantine(pool, state="approved") == ()


def test_a_release_does_not_waive_what_cannot_be_waived(pool: BenchmarkPool) -> None:
    """The type was known when it was released."""
    quarantine_a_task(pool)
    release(pool, line_of(pool, "t1"), note="", now=LATER)
    poorer = BenchmarkPool(pool.engine, pool.lake, pool.settings.model_copy(update={"task_types": ("research",)}))
    assert validate_day(poorer, DAY, now=LATER).points == 0


def test_lines_from_before_the_tenants_key_was_kept_go_together_too(pool: BenchmarkPool) -> None:
    quarantine_a_task(pool)
    with pool.transaction() as connection:
        connection.execute("UPDATE quarantine SET owner_key = NULL")
    assert len(release(pool, line_of(pool, "t1"), note="", now=LATER)) == 3


def test_a_line_that_is_not_there_or_not_told_apart_cannot_be_reviewed(pool: BenchmarkPool) -> None:
    with pytest.raises(PoolError, match="no quarantined line has the id nothing"):
        release(pool, "nothing", note="", now=LATER)
    quarantine_a_task(pool)
    first = list_quarantine(pool)[0].id
    with pool.transaction() as connection:
        connection.execute(
            "INSERT INTO quarantine (id, day, gates, reasons, line)"
            " SELECT %s, day, gates, reasons, line FROM quarantine WHERE id = %s",
            (first[:8] + "f" * 24, first),
        )
    with pytest.raises(PoolError, match=f"several quarantined lines begin with {first[:8]}"):
        reject(pool, first[:8], note="", now=LATER)
