"""Tasks wait for a log, expire to quarantine, and come back when it comes after all."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from flywheel.errors import PoolError
from flywheel.pool import validation
from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import QuarantinedLine, list_quarantine, reject, release
from flywheel.pool.retention import enforce_retention
from flywheel.pool.rows import read_rows
from flywheel.pool.schemas import VALIDATED
from flywheel.pool.tenant_lines import erase_lines
from flywheel.pool.tenants import Tenant
from flywheel.pool.validation import ValidationReport, validate_day
from flywheel.pool.waiting import count_waiting, expire_waiting, list_waiting
from tests.pool.logs import NOON, Log, evaluation, execution, routing, task_logs, write_segment

DAY = NOON.date()
HOUR, WEEK = timedelta(hours=1), timedelta(days=7)


def arrive(pool: BenchmarkPool, logs: Sequence[Log | bytes], *, at: datetime) -> None:
    """Logs come, in a segment of their own."""
    number = len(list(pool.settings.segments_dir.glob("*.segment")))
    write_segment(pool.settings, f"s{number:03}", logs, written_at=at)
    index_segments(pool, now=at)


def run_due(pool: BenchmarkPool, *, now: datetime) -> dict[date, ValidationReport]:
    """What the sensor and the runs that it starts do, up to validation."""
    expire_waiting(pool, now=now)
    due = [stale.day for stale in stale_days(pool) if not is_validated(pool, stale.day)]
    return {day: validate_day(pool, day, now=now) for day in due}


def is_validated(pool: BenchmarkPool, day: date) -> bool:
    with pool.transaction() as connection:
        row = connection.execute("SELECT revision <= validated_revision FROM days WHERE day = %s", (day,)).fetchone()
    assert row is not None
    return bool(row[0])


def expired_lines(pool: BenchmarkPool) -> tuple[QuarantinedLine, ...]:
    return list_quarantine(pool, gate="incomplete-expired")


def points(pool: BenchmarkPool, day: date = DAY) -> set[str]:
    return {row["task_id"] for row in read_rows(pool, VALIDATED, day, columns=("task_id",))}


def test_waiting_tasks_are_listed_with_what_came_what_is_missing_and_when_they_expire(pool: BenchmarkPool) -> None:
    arrive(pool, task_logs("t1")[:2], at=NOON + HOUR)
    arrive(pool, [*task_logs("whole"), routing("t2", tenant="globex")], at=NOON + 2 * HOUR)
    arrive(pool, [evaluation("nobodys")], at=NOON + 3 * HOUR)
    run_due(pool, now=NOON + 4 * HOUR)
    hashes = [tenant_hash(name, salt=salt_of(pool.settings)) for name in ("acme", "globex")]
    found = list_waiting(pool)
    assert [(task.task_id, task.tenant_id, task.present, task.missing) for task in found] == [
        ("t1", hashes[0], ("routing", "execution"), ("evaluation",)),
        ("t2", hashes[1], ("routing",), ("execution", "evaluation")),
        ("nobodys", None, ("evaluation",), ("routing", "execution")),
    ]
    assert [(task.day, task.since, task.lines) for task in found[:2]] == [
        (DAY, NOON + HOUR, 2),
        (DAY, NOON + 2 * HOUR, 1),
    ]
    assert all(task.expires_at - task.since == WEEK for task in found)
    assert [task.task_id for task in list_waiting(pool, tenants=hashes[1:])] == ["t2"]
    assert [task.task_id for task in list_waiting(pool, before=NOON + 2 * HOUR)] == ["t1", "t2"]
    assert list_waiting(pool, tenants=["0" * 64]) == ()
    assert len(list_waiting(pool, limit=1)) == 1
    assert count_waiting(pool, DAY, now=NOON + 2 * HOUR + timedelta(minutes=1)) == {
        "evaluation, <1d": 1,
        "execution+evaluation, <1h": 1,
        "routing+execution, <1h": 1,
    }
    assert count_waiting(pool, DAY + timedelta(days=1), now=NOON) == {}


def test_a_task_waits_from_its_first_line_on_whatever_its_logs_say_of_their_time(pool: BenchmarkPool) -> None:
    """An import of old logs does not expire at once, and another copy every day does not prolong the wait."""
    long_ago = NOON - timedelta(days=90)
    arrive(pool, [routing("t1", at=long_ago)], at=NOON)
    arrive(pool, [routing("t1", at=long_ago), execution("t1", at=long_ago)], at=NOON + timedelta(days=5))
    run_due(pool, now=NOON + timedelta(days=5))
    (task,) = list_waiting(pool)
    assert (task.day, task.since) == (long_ago.date(), NOON)


def test_what_waited_long_enough_goes_to_quarantine_and_only_its_day_runs(pool: BenchmarkPool) -> None:
    arrive(pool, [*task_logs("whole"), *task_logs("t1")[:2]], at=NOON)
    arrive(pool, task_logs("later", at=NOON + timedelta(days=1))[:1], at=NOON + timedelta(days=1))
    run_due(pool, now=NOON + timedelta(days=1))
    assert run_due(pool, now=NOON + WEEK - timedelta(microseconds=1)) == {}
    for day, report in run_due(pool, now=NOON + WEEK).items():
        assert day == DAY
        assert report.outcome == {"in points": 3, "quarantined": 2, "duplicates": 0, "waiting": 0}
        assert (report.expired_tasks, report.waiting_tasks, report.quarantined_tasks) == (1, 0, 0)
        assert report.clean_fraction == 1.0  # no gate judged it
    lines = expired_lines(pool)
    assert {(line.task_id, line.gates, line.state) for line in lines} == {("t1", ("incomplete-expired",), "pending")}
    assert {line.reasons for line in lines} == {
        (
            "its evaluation log did not come within 7 days (joining.waiting_days): it waits since 2026-03-02 12:00:00 "
            "UTC. A log that comes after all completes it",
        )
    }
    assert [task.task_id for task in list_waiting(pool)] == ["later"]
    assert run_due(pool, now=NOON + WEEK + HOUR) == {}


def test_the_reason_names_every_missing_log(pool: BenchmarkPool) -> None:
    feedback: Log = {"log": "feedback", "source": "user", "name": "thumbs", "value": True}
    arrive(pool, [{**feedback, "taskId": "t1", "timestamp": NOON.isoformat()}, execution("t2")], at=NOON)
    run_due(pool, now=NOON)
    run_due(pool, now=NOON + WEEK)
    assert {line.task_id: line.reasons[0].split(" did")[0] for line in expired_lines(pool)} == {
        "t1": "its routing, execution and evaluation logs",
        "t2": "its routing and evaluation logs",
    }


def test_a_log_that_comes_after_all_completes_its_task_on_its_own_day(pool: BenchmarkPool) -> None:
    arrive(pool, task_logs("t1")[:2], at=NOON)
    run_due(pool, now=NOON)
    run_due(pool, now=NOON + WEEK)
    assert len(expired_lines(pool)) == 2
    late = NOON + timedelta(days=40)
    arrive(pool, task_logs("t1")[2:], at=late)
    reports = run_due(pool, now=late)
    assert {day: report.outcome["in points"] for day, report in reports.items()} == {DAY: 3}
    assert points(pool) == {"t1"}
    assert list_quarantine(pool) == ()


def test_what_a_reviewer_rejected_while_it_was_incomplete_stays_out_until_a_reviewer_lets_it_pass(
    pool: BenchmarkPool,
) -> None:
    arrive(pool, task_logs("t1")[:2], at=NOON)
    run_due(pool, now=NOON)
    run_due(pool, now=NOON + WEEK)
    line = expired_lines(pool)[0]
    with pytest.raises(PoolError, match="its evaluation log did not come within 7 days"):
        release(pool, line.id, note="never mind", now=NOON + WEEK)
    reject(pool, line.id, note="a test of theirs", now=NOON + WEEK)
    assert {(one.state, one.note) for one in expired_lines(pool)} == {("rejected", "a test of theirs")}
    patient = pool.settings.model_copy(
        update={"joining": pool.settings.joining.model_copy(update={"waiting_days": 99})}
    )
    validate_day(BenchmarkPool(pool.engine, pool.lake, patient), DAY, now=NOON + WEEK)
    assert len(expired_lines(pool)) == 2  # a longer wait does not take the decision back
    arrive(pool, task_logs("t1")[2:], at=NOON + WEEK)
    for _ in range(2):
        report = validate_day(pool, DAY, now=NOON + WEEK)
        assert report.outcome == {"in points": 0, "quarantined": 3, "duplicates": 0, "waiting": 0}
    found = {one.id: (one.gates, one.state) for one in list_quarantine(pool)}
    assert sorted(found.values()) == [(("rejected",), "pending"), *[(("rejected",), "rejected")] * 2]
    release(pool, line.id, note="it is real", now=NOON + WEEK)
    assert validate_day(pool, DAY, now=NOON + WEEK).points == 1
    assert points(pool) == {"t1"}


def test_asking_again_before_the_day_ran_changes_nothing_also_from_several_at_once(pool: BenchmarkPool) -> None:
    arrive(pool, task_logs("t1")[:2], at=NOON)
    run_due(pool, now=NOON)
    before = stale_days(pool)[0].version
    with ThreadPoolExecutor(4) as threads:
        asked = list(threads.map(lambda _: expire_waiting(pool, now=NOON + WEEK), range(8)))
    assert sorted(asked) == [*[()] * 7, (DAY,)]
    assert stale_days(pool)[0].version == before + 1
    with ThreadPoolExecutor(3) as threads:
        reports = list(threads.map(lambda _: validate_day(pool, DAY, now=NOON + WEEK), range(3)))
    assert reports[0] == reports[1] == reports[2]
    assert len(expired_lines(pool)) == 2
    assert expire_waiting(pool, now=NOON + WEEK) == ()


class KilledError(BaseException):
    pass


@pytest.mark.parametrize("step", ["copy_waiting", "copy_rejected", "replace_quarantine", "record"])
def test_a_run_that_is_killed_at_any_step_is_finished_by_the_next(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def die(connection: Connection[Any], *arguments: Any, **options: Any) -> None:
        raise KilledError

    arrive(pool, [*task_logs("t1")[:2], *task_logs("t2")], at=NOON)
    run_due(pool, now=NOON)
    with monkeypatch.context() as patch:
        patch.setattr(validation, step, die)
        with pytest.raises(KilledError):
            run_due(pool, now=NOON + WEEK)
    assert [task.task_id for task in list_waiting(pool)] == ["t1"]
    assert expired_lines(pool) == ()
    (report,) = run_due(pool, now=NOON + WEEK).values()
    assert report.outcome == {"in points": 3, "quarantined": 2, "duplicates": 0, "waiting": 0}
    assert (len(expired_lines(pool)), list_waiting(pool), points(pool)) == (2, (), {"t2"})


def test_a_moved_task_waits_on_its_new_day_alone(pool: BenchmarkPool) -> None:
    midnight = NOON + timedelta(hours=12)
    arrive(pool, [execution("t1", at=midnight)], at=midnight)
    run_due(pool, now=midnight)
    arrive(pool, [routing("t1", at=midnight - timedelta(seconds=1))], at=midnight + HOUR)
    run_due(pool, now=midnight + HOUR)
    assert [(task.day, task.since, task.missing) for task in list_waiting(pool)] == [(DAY, midnight, ("evaluation",))]


def test_an_erased_tenants_tasks_wait_no_more(pool: BenchmarkPool) -> None:
    arrive(pool, [*task_logs("t1")[:2], *task_logs("t2", tenant="globex")[:2]], at=NOON)
    run_due(pool, now=NOON)
    erase_lines(pool, Tenant(id="acme", hashes=()), now=NOON + HOUR)
    assert [task.task_id for task in list_waiting(pool)] == ["t2"]
    (report,) = run_due(pool, now=NOON + HOUR).values()
    assert (report.lines, report.waiting) == (2, 2)


def test_of_an_erased_task_nothing_waits_and_the_tenants_others_do(pool: BenchmarkPool) -> None:
    arrive(pool, [*task_logs("t1")[:2], *task_logs("t2")[:2]], at=NOON)
    run_due(pool, now=NOON)
    erase_lines(pool, Tenant(id="acme", hashes=(), tasks=frozenset(["t1"])), now=NOON + HOUR)
    assert [task.task_id for task in list_waiting(pool)] == ["t2"]
    (report,) = run_due(pool, now=NOON + HOUR).values()
    assert (report.lines, report.waiting) == (2, 2)


def test_what_is_older_than_the_pool_keeps_does_not_wait(pool: BenchmarkPool) -> None:
    arrive(pool, task_logs("t1")[:2], at=NOON)
    run_due(pool, now=NOON)
    old = NOON + timedelta(days=pool.settings.cold_days + 1)
    removed = {item.store: item.rows for item in enforce_retention(pool, now=old).removed}
    assert removed["waiting"] == 1
    assert (list_waiting(pool), expire_waiting(pool, now=old)) == ((), ())


def test_an_empty_pool_has_nobody_waiting(pool: BenchmarkPool) -> None:
    assert (list_waiting(pool), expire_waiting(pool, now=NOON)) == ((), ())


KINDS = (routing, execution, evaluation)
arrivals = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["t1", "t2"]), st.sampled_from(range(3))), max_size=8)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arriving=arrivals)
def test_in_any_order_days_apart_twice_or_never_every_line_is_accounted_for_every_day(
    pool: BenchmarkPool, arriving: list[tuple[int, str, int]]
) -> None:
    for path in pool.settings.segments_dir.glob("*.segment"):
        path.unlink()
    with pool.transaction() as connection:
        connection.execute("TRUNCATE segments, tasks, days, quarantine, waiting_tasks, watermark")
    report: ValidationReport | None = None
    for number in sorted({day for day, _, _ in arriving} | {6, 13, 20}):
        now = NOON + timedelta(days=number)
        if came := [KINDS[kind](task) for day, task, kind in arriving if day == number]:
            arrive(pool, came, at=now)
        report = run_due(pool, now=now).get(DAY, report)
        seen = [(day, task, kind) for day, task, kind in arriving if day <= number]
        known = {task: {kind for _, other, kind in seen if other == task} for _, task, _ in seen}
        first = {task: min(day for day, other, _ in seen if other == task) for task in known}
        partial = {task for task, kinds in known.items() if len(kinds) < 3}
        waiting = {task for task in partial if first[task] + 7 > number}
        if report is None:
            assert not seen
            continue
        assert report.lines == len(seen) == sum(report.outcome.values())
        assert points(pool) == known.keys() - partial
        assert {task.task_id for task in list_waiting(pool)} == waiting
        assert sum(task.lines for task in list_waiting(pool)) == report.waiting
        assert {line.task_id for line in expired_lines(pool)} == partial - waiting
        assert (report.waiting_tasks, report.expired_tasks) == (len(waiting), len(partial - waiting))
        assert sum(report.missing.values()) == len(waiting)
