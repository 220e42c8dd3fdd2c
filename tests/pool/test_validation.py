import os
import threading
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flywheel.errors import PoolError
from flywheel.pool import judging
from flywheel.pool.expectations import expect_day
from flywheel.pool.intake import index_segments
from flywheel.pool.lake import Lake
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row, read_rows
from flywheel.pool.schemas import VALIDATED, check_rows
from flywheel.pool.validation import ValidationReport, last_report, validate_day
from flywheel.pool.workers import mapped
from flywheel.records import DataPoint, decode_point
from tests.pool.logs import NOON, evaluation, execution, routing, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(days=1)
Logs = Sequence[dict[str, Any] | bytes]


def validated(pool: BenchmarkPool, *segments: Logs, day: date = DAY) -> ValidationReport:
    known = len(list(pool.settings.segments_dir.glob("*.segment")))
    for number, logs in enumerate(segments, start=known):
        write_segment(pool.settings, f"s{number:03}", logs)
    index_segments(pool, now=LATER)
    return validate_day(pool, day, now=LATER)


def points(pool: BenchmarkPool, day: date = DAY) -> list[DataPoint]:
    return [decode_point(row["payload"]) for row in read_rows(pool, VALIDATED, day)]


def quarantined(pool: BenchmarkPool) -> list[Row]:
    with pool.transaction() as connection:
        rows = connection.execute("SELECT task_id, gates, reasons, line, state FROM quarantine ORDER BY id").fetchall()
    return [dict(zip(("task_id", "gates", "reasons", "line", "state"), row, strict=True)) for row in rows]


def test_three_logs_become_one_point(pool: BenchmarkPool) -> None:
    report = validated(pool, task_logs("t1"))
    (point,) = points(pool)
    assert report.outcome == {"in points": 3, "quarantined": 0, "duplicates": 0, "waiting": 0}
    assert (point.tenant_id, point.task.id, point.task.source) == ("acme", "t1", "bench:t1")
    assert (point.rl_labels.final_outcome, point.rl_labels.total_reward, point.rl_ready) == ("success", 0.95, True)
    assert point.provenance.segments == ("s000.segment",)


def test_a_malformed_line_is_quarantined_with_its_reason(pool: BenchmarkPool) -> None:
    report = validated(pool, [*task_logs("t1"), b'{"log": "execution", "taskId": '])
    (row,) = quarantined(pool)
    assert report.outcome == {"in points": 3, "quarantined": 1, "duplicates": 0, "waiting": 0}
    assert row["gates"] == ["types"]
    assert row["reasons"][0].startswith("not JSON")
    assert row["line"] == b'{"log": "execution", "taskId": '


@pytest.mark.parametrize(
    ("changes", "gate", "words"),
    [
        ({"latencyMs": 0}, "bounds", "`float` > 0.0 - at `$.latencyMs`"),
        ({"tokensUsed": "many"}, "types", "Expected `int | null`, got `str` - at `$.tokensUsed`"),
        ({"agentId": ""}, "bounds", "length >= 1 - at `$.agentId`"),
    ],
)
def test_a_log_that_does_not_decode_quarantines_its_task(
    pool: BenchmarkPool, changes: dict[str, Any], gate: str, words: str
) -> None:
    report = validated(pool, [routing("t1"), execution("t1", **changes), evaluation("t1")])
    assert (report.points, report.quarantined, report.quarantined_tasks, report.waiting) == (0, 3, 1, 0)
    (bad,) = (row for row in quarantined(pool) if row["gates"] == [gate])
    assert words in bad["reasons"][0]
    others = [row["reasons"][0] for row in quarantined(pool) if row["gates"] == ["incomplete"]]
    assert len(others) == 2
    assert all(words in reason for reason in others)


def test_a_missing_log_makes_its_task_wait_until_it_comes(pool: BenchmarkPool) -> None:
    logs = task_logs("t1")
    before = validated(pool, logs[:2])
    after = validated(pool, logs[2:])
    assert (before.points, before.waiting, before.waiting_tasks) == (0, 2, 1)
    assert (after.points, after.waiting, after.lines_in_points) == (1, 0, 3)


def test_a_late_log_completes_its_task_on_the_earlier_day(pool: BenchmarkPool) -> None:
    midnight = NOON + timedelta(hours=12)
    logs = [
        routing("t1", at=midnight - timedelta(seconds=1)),
        execution("t1", at=midnight),
        evaluation("t1", at=midnight),
    ]
    next_day = DAY + timedelta(days=1)
    assert validated(pool, logs[1:], day=next_day).waiting == 2
    assert validated(pool, logs[:1]).points == 1
    assert validate_day(pool, next_day, now=LATER).lines == 0
    assert points(pool, next_day) == []


def test_copies_count_once_however_they_are_written(pool: BenchmarkPool) -> None:
    logs = task_logs("t1")
    rewritten = [dict(reversed(log.items())) for log in logs]
    report = validated(pool, logs, rewritten, logs)
    assert report.outcome == {"in points": 3, "quarantined": 0, "duplicates": 6, "waiting": 0}
    assert len(points(pool)) == 1


def test_a_later_log_of_a_kind_takes_the_place_of_the_earlier_which_is_kept_in_quarantine(pool: BenchmarkPool) -> None:
    report = validated(pool, [*task_logs("t1"), execution("t1", at=NOON + timedelta(seconds=1.5), latencyMs=7.0)])
    (point,) = points(pool)
    assert point.execution.latency_ms == 7.0
    assert (report.lines_in_points, report.quarantined, report.quarantined_tasks) == (3, 1, 0)
    assert quarantined(pool)[0]["gates"] == ["superseded"]


def test_tenants_with_the_same_task_id_never_join(pool: BenchmarkPool) -> None:
    mine = [{**log, "tenantId": "acme"} for log in task_logs("t1")]
    theirs = [{**log, "tenantId": "umbrella"} for log in task_logs("t1", latencyMs=5.0)]
    report = validated(pool, [mine[0], theirs[1], theirs[0], mine[2], mine[1], theirs[2]])
    assert report.points == 2
    assert {p.tenant_id: p.execution.latency_ms for p in points(pool)} == {"acme": 400.0, "umbrella": 5.0}


def test_a_log_that_two_tenants_could_own_is_quarantined_as_ambiguous(pool: BenchmarkPool) -> None:
    report = validated(pool, [*task_logs("t1"), routing("t1", tenant="umbrella")])
    assert report.outcome == {"in points": 0, "quarantined": 2, "duplicates": 0, "waiting": 2}
    assert [row["gates"] for row in quarantined(pool)] == [["ambiguous"], ["ambiguous"]]


def test_a_backfilled_day_gives_the_same_rows(pool: BenchmarkPool) -> None:
    first = validated(pool, [log for number in range(30) for log in task_logs(f"t{number}")] + [b"broken"])
    rows = list(read_rows(pool, VALIDATED, DAY))
    assert validate_day(pool, DAY, now=LATER + timedelta(days=9)) == first == last_report(pool, DAY)
    assert list(read_rows(pool, VALIDATED, DAY)) == rows
    assert len(quarantined(pool)) == 1


def test_segments_in_any_order_give_the_same_points(pool: BenchmarkPool) -> None:
    logs = [log for number in range(12) for log in task_logs(f"t{number}")]
    first = validated(pool, logs[::-1])
    ids = {point.id for point in points(pool)}
    pool.settings.segments_dir.joinpath("s000.segment").unlink()
    with pool.transaction() as connection:
        connection.execute("TRUNCATE segments, tasks, days")
    second = validated(pool, logs[1::2], logs[::2])
    assert {point.id for point in points(pool)} == ids
    assert first.points == second.points == 12


def test_lines_that_are_not_accounted_for_stop_the_day(pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "row_of_task", lambda *arguments: None)
    with pytest.raises(PoolError, match="3 lines came in, 0 are accounted for"):
        validated(pool, task_logs("t1"))
    with pytest.raises(PoolError, match="never validated"):
        last_report(pool, DAY)


def test_a_large_day_is_judged_in_parts_by_several_processes(pool: BenchmarkPool) -> None:
    logs = [log for number in range(50) for log in task_logs(f"t{number}", at=NOON + timedelta(minutes=number))]
    whole = validated(pool, [*logs, *task_logs("bad", toolCallCount=5), b"broken", b"broken"])
    together = [row["line"] for row in quarantined(pool)]
    several = pool.settings.model_copy(update={"pool_processes": 2})
    parts = validate_day(BenchmarkPool(pool.engine, pool.lake, several), DAY, now=LATER, tasks_a_part=7)
    assert parts == whole
    assert parts.outcome == {"in points": 150, "quarantined": 4, "duplicates": 1, "waiting": 0}
    assert sorted(row["line"] for row in quarantined(pool)) == sorted(together)


def test_rows_lie_in_slices_of_time_and_by_task_type_within(pool: BenchmarkPool) -> None:
    types = ("tool-calling", "research")
    for number in range(40):
        logs = task_logs(f"t{number:02}", at=NOON + timedelta(minutes=number))
        write_segment(pool.settings, f"s{number:02}", [logs[0] | {"taskType": types[number % 2]}, *logs[1:]])
    index_segments(pool, now=LATER)
    alone = pool.settings.model_copy(update={"pool_processes": 1})
    validate_day(BenchmarkPool(pool.engine, pool.lake, alone), DAY, now=LATER, tasks_a_part=15)
    rows = list(read_rows(pool, VALIDATED, DAY, columns=("task_id", "task_type")))
    first = [(row["task_type"], row["task_id"]) for row in rows[:14]]
    assert {task_id for _, task_id in first} == {f"t{number:02}" for number in range(14)}
    assert first == sorted(first)


def test_a_process_that_dies_stops_the_day_with_a_sentence(pool: BenchmarkPool) -> None:
    with pytest.raises(PoolError, match="a process of the pool died"):
        list(mapped(os._exit, [1, 2, 3], processes=2))
    assert list(mapped(abs, [-1, -2], processes=2)) == [1, 2]


def test_the_history_of_a_point_is_of_earlier_days_only(pool: BenchmarkPool) -> None:
    validated(pool, task_logs("t1"))
    with pool.transaction() as connection:
        for day, tasks in ((DAY - timedelta(days=1), 4), (DAY, 100)):
            connection.execute(
                "INSERT INTO agent_statistics VALUES (%s, 'agent-a', 'tool-calling', %s, %s, 2, 3.0, 1, 1)",
                (NOON, day, tasks),
            )
    validate_day(pool, DAY, now=LATER)
    history = points(pool)[0].routing.historical_performance
    assert (history.agent_task_count, history.agent_success_rate, history.agent_avg_quality) == (4, 0.5, 0.75)


def test_a_missing_segment_is_an_error_not_an_empty_day(pool: BenchmarkPool) -> None:
    validated(pool, task_logs("t1"))
    pool.settings.segments_dir.joinpath("s000.segment").unlink()
    with pytest.raises(PoolError, match=r"s000\.segment is in the ledger but not in"):
        validate_day(pool, DAY, now=LATER)
    assert len(points(pool)) == 1


def test_a_nul_in_an_identifier_is_no_obstacle(pool: BenchmarkPool) -> None:
    report = validated(pool, [*task_logs("t\x001"), routing("t\x002", taskType="odd\x00")])
    assert (report.points, report.waiting) == (1, 1)
    validated(pool, [execution("t\x002"), evaluation("t\x002")])
    assert {row["task_id"] for row in quarantined(pool)} == {"t\ufffd2"}


log_lines = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.builds(
        lambda make, task, second, fields: make(task, at=NOON + timedelta(seconds=second), **fields),
        st.sampled_from([routing, execution, evaluation]),
        st.sampled_from(["t1", "t2", "t3"]),
        st.integers(0, 4),
        st.sampled_from(
            [{}, {}, {}, {"tenantId": "umbrella"}, {"tenantId": "acme"}, {"agentId": "other"}, {"taskId": 3}]
        ),
    ),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(segments=st.lists(st.lists(log_lines, max_size=10), max_size=4))
def test_every_line_is_accounted_for(pool: BenchmarkPool, segments: list[list[dict[str, Any] | bytes]]) -> None:
    for path in pool.settings.segments_dir.glob("*.segment"):
        path.unlink()
    with pool.transaction() as connection:
        connection.execute("TRUNCATE segments, tasks, days, quarantine")
    report = validated(pool, *segments)
    assert report.lines == sum(len(logs) for logs in segments) == sum(report.outcome.values())
    assert len(points(pool)) == report.points
    assert len(quarantined(pool)) == report.quarantined


def test_the_rows_of_a_clean_day_fit_schema_and_expectations(pool: BenchmarkPool) -> None:
    validated(pool, [log for number in range(20) for log in task_logs(f"t{number}", source=None)])
    checked = check_rows(pool, DAY)
    expected = expect_day(pool, DAY)
    assert (checked.passed, checked.rows) == (True, 20)
    assert expected.failed == ()
    assert expected.expectations > 0
    assert Path(expected.data_docs).exists()


def test_a_day_with_much_quarantine_fails_its_expectations_in_words(pool: BenchmarkPool) -> None:
    good = [log for number in range(8) for log in task_logs(f"t{number}")]
    validated(pool, [*good, *[log for number in range(2) for log in task_logs(f"bad{number}", toolCallCount=5)]])
    assert expect_day(pool, DAY).failed == ("expect_column_min_to_be_between of clean: 0.8",)


def test_a_day_without_points_fits_both(pool: BenchmarkPool) -> None:
    validated(pool, [b"broken"])
    assert check_rows(pool, DAY).passed
    assert expect_day(pool, DAY).passed


def test_a_segment_damaged_after_it_was_taken_in_stops_the_day(pool: BenchmarkPool) -> None:
    validated(pool, [*task_logs("t1"), *task_logs("t2")])
    path = pool.settings.segments_dir / "s000.segment"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(PoolError, match="has 1 unreadable places, and had 0 when it was taken in"):
        validate_day(pool, DAY, now=LATER)
    assert len(points(pool)) == 2


def test_a_task_without_a_line_in_its_segments_stops_the_day(pool: BenchmarkPool) -> None:
    validated(pool, [*task_logs("t1"), *task_logs("t2")])
    path = pool.settings.segments_dir / "s000.segment"
    path.unlink()
    write_segment(pool.settings, "s000", task_logs("t1"))
    with pytest.raises(PoolError, match=r"of 2 of 4 tasks no line was found"):
        validate_day(pool, DAY, now=LATER)
    assert len(points(pool)) == 2


def test_a_number_that_no_store_can_hold_is_a_line_in_quarantine(pool: BenchmarkPool) -> None:
    report = validated(pool, task_logs("t1", tokensUsed=2**63))
    assert (report.points, report.quarantined, report.reasons) == (0, 3, {"bounds": 1, "incomplete": 2})


def test_what_was_committed_is_not_deleted_by_an_error_that_follows(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Lake.commit

    def cut_off(*arguments: Any, **options: Any) -> None:
        commit(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Lake, "commit", cut_off)
        with pytest.raises(KeyboardInterrupt):
            validated(pool, task_logs("t1"))
    assert len(points(pool)) == 1
    assert validate_day(pool, DAY, now=LATER).points == 1


def test_files_on_their_way_into_a_table_are_not_vacuumed(pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = Lake.upload
    cleaning: list[threading.Thread] = []

    def slow(*arguments: Any, **options: Any) -> Any:
        uploaded = upload(*arguments, **options)
        cleaning.append(threading.Thread(target=pool.vacuum, args=(VALIDATED,), kwargs={"keep_days": 0}))
        cleaning[0].start()
        cleaning[0].join(0.5)
        return uploaded

    monkeypatch.setattr(Lake, "upload", slow)
    validated(pool, task_logs("t1"))
    cleaning[0].join()
    assert len(points(pool)) == 1
