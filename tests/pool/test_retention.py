"""What is too old leaves its tier, what is below it holds it, and nothing else changes."""

import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from itertools import accumulate, count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flywheel.errors import PoolError
from flywheel.pool import retention
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.intake import index_segments
from flywheel.pool.overview import list_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine
from flywheel.pool.readiness import readiness
from flywheel.pool.retention import enforce_retention, find_expired
from flywheel.pool.rows import arrow_schema, read_rows
from flywheel.pool.schemas import AGGREGATE_COLUMNS, ANONYMIZED, COLD, POINT_COLUMNS, VALIDATED, WARM
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.tiers import aggregate_cold, place_hot, place_warm
from flywheel.pool.validation import validate_day
from tests.pool.kills import KilledError, killing
from tests.pool.logs import NOON, task_logs, write_segment

DAY = date(2026, 3, 2)


def run_day(pool: BenchmarkPool, *, now: datetime, day: date = DAY) -> None:
    validate_day(pool, day, now=now)
    anonymize_day(pool, day)
    find_violations(pool, day)
    for place in (place_hot, place_warm, aggregate_cold):
        place(pool, day, now=now)
    refresh_statistics(pool, day)


@pytest.fixture
def filled(pool: BenchmarkPool) -> BenchmarkPool:
    """A day of five tasks in every tier, and a line in quarantine."""
    write_segment(pool.settings, "a", [*(log for n in range(5) for log in task_logs(f"t{n}")), b"broken"])
    index_segments(pool, now=NOON)
    run_day(pool, now=NOON)
    return pool


def after(days: int) -> datetime:
    return NOON + timedelta(days=days)


def held(pool: BenchmarkPool) -> dict[str, int]:
    (day,) = list_days(pool)
    tables = {table: len(list(read_rows(pool, table, DAY))) for table in (VALIDATED, ANONYMIZED, WARM)}
    cold = sum(row["tasks"] for row in read_rows(pool, COLD, DAY, columns=("tasks",)))
    assert (day.warm, day.cold) == (tables[WARM], 1 if cold else 0)
    with pool.transaction() as connection:
        (hot,) = connection.execute("SELECT count(*) FROM hot_points").fetchone() or (None,)
    return {**tables, "hot": hot, "cold": cold, "quarantine": len(list_quarantine(pool))}


WHOLE = {VALIDATED: 5, ANONYMIZED: 5, WARM: 5, "hot": 5, "cold": 5, "quarantine": 1}


@pytest.mark.parametrize(
    ("days", "gone", "lake_url"),
    [
        (7, (), "folder"),
        (8, ("hot",), "folder"),
        (90, ("hot",), "folder"),
        (91, ("hot", WARM, VALIDATED, ANONYMIZED), "folder"),
        (91, ("hot", WARM, VALIDATED, ANONYMIZED), "s3"),
        (730, ("hot", WARM, VALIDATED, ANONYMIZED), "folder"),
        (731, ("hot", WARM, VALIDATED, ANONYMIZED, "cold", "quarantine"), "folder"),
        (731, ("hot", WARM, VALIDATED, ANONYMIZED, "cold", "quarantine"), "s3"),
    ],
    indirect=["lake_url"],
)
def test_each_tier_is_left_at_its_age(filled: BenchmarkPool, days: int, gone: tuple[str, ...]) -> None:
    announced = find_expired(filled, now=after(days))
    assert held(filled) == WHOLE
    assert enforce_retention(filled, now=after(days)).removed == announced
    assert held(filled) == {name: 0 if name in gone else rows for name, rows in WHOLE.items()}
    assert find_expired(filled, now=after(days)) == ()
    known = filled.get_agent_statistics("agent-a").tasks
    assert known == (0 if "cold" in gone else 5)


@pytest.mark.parametrize(
    ("days", "step"),
    [(8, "place_hot"), (91, "place_hot"), (91, "place_warm"), (91, "remove_points"), (731, "aggregate_cold")],
)
def test_a_run_killed_before_or_after_a_step_is_finished_by_the_next(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch, days: int, step: str
) -> None:
    for before in (True, False):
        with monkeypatch.context() as patched:
            patched.setattr(retention, step, killing(getattr(retention, step), before=before))
            with pytest.raises(KilledError):
                enforce_retention(filled, now=after(days))
        assert days > 730 or held(filled)["cold"] == 5
    enforce_retention(filled, now=after(days))
    assert find_expired(filled, now=after(days)) == ()
    assert held(filled)["cold"] == (5 if days < 731 else 0)


@pytest.mark.parametrize("killed_at", [1, 2])
def test_a_run_killed_between_ledger_and_lake_is_finished_by_the_next(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    real, calls = BenchmarkPool.replace, count(1)

    def killed(*arguments: Any, **options: Any) -> None:
        if next(calls) == killed_at:
            raise KilledError
        real(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(BenchmarkPool, "replace", killed)
        with pytest.raises(KilledError):
            retention.remove_points(filled, DAY, after(91))
    enforce_retention(filled, now=after(91))
    assert (held(filled)[ANONYMIZED], held(filled)["cold"]) == (0, 5)


@pytest.mark.parametrize(("days", "table", "columns"), [(8, WARM, POINT_COLUMNS), (91, COLD, AGGREGATE_COLUMNS)])
def test_what_the_tier_below_lacks_is_put_there_first(
    filled: BenchmarkPool, days: int, table: str, columns: dict[str, tuple[str, str]]
) -> None:
    filled.replace(table, DAY, (), schema=arrow_schema(columns))
    enforce_retention(filled, now=after(days))
    assert (held(filled)["hot"], held(filled)[WARM]) == (0, 5 if days == 8 else 0)
    assert held(filled)["cold"] == 5


def test_what_the_tier_below_cannot_hold_is_not_deleted(filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.replace(WARM, DAY, (), schema=arrow_schema(POINT_COLUMNS))
    monkeypatch.setattr(retention, "place_warm", lambda *_arguments, **_options: None)
    with pytest.raises(PoolError, match=f"does not hold {DAY} as it is; nothing of it was deleted"):
        enforce_retention(filled, now=after(8))
    assert filled.get_agent_statistics("agent-a").tasks == 5
    with filled.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM hot_points").fetchone() == (5,)


def test_assets_made_again_alone_do_not_wipe_an_old_days_aggregates(filled: BenchmarkPool) -> None:
    enforce_retention(filled, now=after(91))
    anonymize_day(filled, DAY)
    place_warm(filled, DAY, now=after(91))
    assert aggregate_cold(filled, DAY, now=after(91)).points == 5
    assert refresh_statistics(filled, DAY).tasks == 5
    assert held(filled)["cold"] == 5


def test_a_late_log_of_an_old_day_is_counted_and_its_points_leave_again(filled: BenchmarkPool) -> None:
    enforce_retention(filled, now=after(91))
    write_segment(filled.settings, "b", task_logs("late"))
    index_segments(filled, now=after(92))
    run_day(filled, now=after(92))
    assert (held(filled)["cold"], held(filled)[WARM], held(filled)[ANONYMIZED]) == (6, 0, 6)
    enforce_retention(filled, now=after(92))
    assert (held(filled)["cold"], held(filled)[ANONYMIZED]) == (6, 0)


def break_privacy(pool: BenchmarkPool) -> None:
    with pool.transaction() as connection:
        connection.execute("UPDATE days SET privacy_violations = 3")


def wait_for_a_log(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "b", task_logs("late"))
    index_segments(pool, now=after(91))


def validate_alone(pool: BenchmarkPool) -> None:
    wait_for_a_log(pool)
    validate_day(pool, DAY, now=after(91))


def leave_statistics_out(pool: BenchmarkPool) -> None:
    validate_alone(pool)
    anonymize_day(pool, DAY)
    find_violations(pool, DAY)
    for place in (place_hot, place_warm, aggregate_cold):
        place(pool, DAY, now=NOON)


@pytest.mark.parametrize("unsettle", [break_privacy, wait_for_a_log, validate_alone, leave_statistics_out])
def test_a_day_that_is_not_settled_stays_as_it_is(
    filled: BenchmarkPool, unsettle: Callable[[BenchmarkPool], None]
) -> None:
    unsettle(filled)
    before = held(filled)
    assert find_expired(filled, now=after(91)) == ()
    with pytest.raises(PoolError, match="changed meanwhile"):
        retention.remove_points(filled, DAY, after(91))
    assert held(filled) == before
    enforce_retention(filled, now=after(731))
    assert set(held(filled).values()) == {0}
    assert readiness(filled, now=after(731)).privacy_violations == 0


def test_a_day_emptied_in_the_middle_of_its_run_keeps_its_aggregates(filled: BenchmarkPool) -> None:
    """By hand, and so of the same logs: the day looks settled between two of its assets."""
    validate_day(filled, DAY, now=after(91))
    enforce_retention(filled, now=after(91))
    assert held(filled)[VALIDATED] == 0
    anonymize_day(filled, DAY)
    aggregate_cold(filled, DAY, now=after(91))
    assert refresh_statistics(filled, DAY).tasks == 5
    assert held(filled)["cold"] == 5


def test_a_late_log_that_is_validated_before_its_old_day_is_emptied_again_is_not_lost(filled: BenchmarkPool) -> None:
    enforce_retention(filled, now=after(91))
    validate_alone(filled)
    with pytest.raises(PoolError, match="changed meanwhile"):
        retention.remove_points(filled, DAY, after(91))
    run_day(filled, now=after(91))
    assert held(filled)["cold"] == 6


def test_one_day_that_cannot_leave_does_not_hold_the_others(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.replace(WARM, DAY, (), schema=arrow_schema(POINT_COLUMNS))
    monkeypatch.setattr(retention, "place_warm", lambda *_arguments, **_options: None)
    later = DAY + timedelta(days=1)
    write_segment(filled.settings, "b", task_logs("t9", at=after(1)), written_at=after(1))
    index_segments(filled, now=after(1))
    run_day(filled, now=after(1), day=later)
    with pytest.raises(PoolError, match=f"1 days were not cleared: .*{DAY}"):
        enforce_retention(filled, now=after(9))
    assert [item.day for item in find_expired(filled, now=after(9))] == [DAY]


def test_files_of_replaced_versions_go_after_a_while(filled: BenchmarkPool) -> None:
    folder = filled.settings.home / "lake" / VALIDATED
    run_day(filled, now=NOON)
    before = len(list(folder.glob("day=*/*.parquet")))
    assert enforce_retention(filled, now=NOON).files == 0
    assert filled.vacuum(VALIDATED, keep_days=0) > 0
    assert len(list(folder.glob("day=*/*.parquet"))) < before
    assert held(filled) == WHOLE


def test_an_empty_pool_has_nothing_to_remove(pool: BenchmarkPool) -> None:
    assert enforce_retention(pool, now=NOON).removed == ()
    assert list_days(pool) == ()


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ages=st.sets(st.integers(0, 800), min_size=1, max_size=3),
    waits=st.lists(st.sampled_from([1, 6, 83, 640]), max_size=3),
)
def test_at_any_clock_a_point_is_where_its_age_belongs_and_nowhere_else(
    pool: BenchmarkPool, ages: set[int], waits: list[int]
) -> None:
    empty(pool)
    days = [DAY - timedelta(days=age) for age in ages]
    for day in days:
        at = datetime.combine(day, time(12), tzinfo=UTC)
        write_segment(pool.settings, f"s{day}", [log for n in range(2) for log in task_logs(f"{day}-{n}", at=at)])
    index_segments(pool, now=NOON)
    for day in days:
        run_day(pool, now=NOON, day=day)
    for clock in accumulate(waits, lambda now, wait: now + timedelta(days=wait), initial=NOON):
        enforce_retention(pool, now=clock)
        for found in list_days(pool):
            age = (clock.date() - found.day).days
            expected = (2 * (age <= 7), 2 * (age <= 90), 1 * (age <= 730))
            assert (found.hot, found.warm, found.cold) == expected, f"{found.day} is {age} days old"


def empty(pool: BenchmarkPool) -> None:
    for path in pool.settings.segments_dir.glob("*.segment"):
        path.unlink()
    for table in (VALIDATED, ANONYMIZED, WARM, COLD):
        shutil.rmtree(pool.lake.table_url(table), ignore_errors=True)
    with pool.transaction() as connection:
        connection.execute(
            "TRUNCATE segments, tasks, days, quarantine, tier_days, hot_points, agent_statistics, task_type_profiles"
        )
