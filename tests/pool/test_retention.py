"""What is too old leaves its tier, what is below it holds it, and nothing else changes."""

from datetime import date, datetime, timedelta

import pytest

from flywheel.errors import PoolError
from flywheel.pool import retention
from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.batches import readiness
from flywheel.pool.intake import index_segments
from flywheel.pool.overview import list_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine
from flywheel.pool.retention import enforce_retention, find_expired
from flywheel.pool.rows import arrow_schema, read_rows
from flywheel.pool.schemas import AGGREGATE_COLUMNS, ANONYMIZED, COLD, POINT_COLUMNS, VALIDATED, WARM
from flywheel.pool.statistics import agent_statistics, refresh_statistics
from flywheel.pool.tiers import aggregate_cold, place_hot, place_warm
from flywheel.pool.validation import validate_day
from tests.pool.logs import NOON, task_logs, write_segment

DAY = date(2026, 3, 2)


class KilledError(BaseException):
    """The process ends here."""


def run_day(pool: BenchmarkPool, *, now: datetime) -> None:
    validate_day(pool, DAY, now=now)
    anonymize_day(pool, DAY)
    for place in (place_hot, place_warm, aggregate_cold):
        place(pool, DAY, now=now)
    refresh_statistics(pool, DAY)


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
    ("days", "gone"),
    [
        (7, ()),
        (8, ("hot",)),
        (90, ("hot",)),
        (91, ("hot", WARM, VALIDATED, ANONYMIZED)),
        (730, ("hot", WARM, VALIDATED, ANONYMIZED)),
        (731, ("hot", WARM, VALIDATED, ANONYMIZED, "cold", "quarantine")),
    ],
)
def test_each_tier_is_left_at_its_age(filled: BenchmarkPool, days: int, gone: tuple[str, ...]) -> None:
    announced = find_expired(filled, now=after(days))
    assert held(filled) == WHOLE
    assert enforce_retention(filled, now=after(days)).removed == announced
    assert held(filled) == {name: 0 if name in gone else rows for name, rows in WHOLE.items()}
    assert find_expired(filled, now=after(days)) == ()
    known = agent_statistics(filled, "agent-a").tasks
    assert known == (0 if "cold" in gone else 5)


@pytest.mark.parametrize("step", ["place_hot", "place_warm", "aggregate_cold", "remove_points"])
@pytest.mark.parametrize("days", [8, 91, 731])
def test_a_killed_run_is_finished_by_the_next(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch, step: str, days: int
) -> None:
    def killed(*_arguments: object, **_options: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(retention, step, killed)
        try:
            enforce_retention(filled, now=after(days))
        except KilledError:
            assert held(filled)["cold"] == 5  # what is deleted is in the tier below
    enforce_retention(filled, now=after(days))
    assert find_expired(filled, now=after(days)) == ()
    assert held(filled)["cold"] == (5 if days < 731 else 0)


def test_a_run_killed_between_ledger_and_lake_is_finished_by_the_next(
    filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_arguments: object, **_options: object) -> None:
        raise KilledError

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
    assert held(filled)["hot"] == 0
    assert held(filled)["cold"] == 5


def test_what_the_tier_below_cannot_hold_is_not_deleted(filled: BenchmarkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.replace(WARM, DAY, (), schema=arrow_schema(POINT_COLUMNS))
    monkeypatch.setattr(retention, "place_warm", lambda *_arguments, **_options: None)
    with pytest.raises(PoolError, match=f"does not hold {DAY} as it is; nothing of it was deleted"):
        enforce_retention(filled, now=after(8))
    assert agent_statistics(filled, "agent-a").tasks == 5
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


def test_a_violation_in_points_that_are_gone_holds_no_batch_back(filled: BenchmarkPool) -> None:
    with filled.transaction() as connection:
        connection.execute("UPDATE days SET privacy_violations = 3")
    assert readiness(filled, now=after(91)).privacy_violations == 3
    enforce_retention(filled, now=after(91))
    assert readiness(filled, now=after(91)).privacy_violations == 0


def test_files_of_replaced_versions_go_after_a_while(filled: BenchmarkPool) -> None:
    folder = filled.settings.home / "lake" / VALIDATED
    run_day(filled, now=NOON)
    before = len(list(folder.rglob("*.parquet")))
    assert enforce_retention(filled, now=NOON).files == 0
    assert filled.vacuum(VALIDATED, keep_days=0) > 0
    assert len(list(folder.rglob("*.parquet"))) < before
    assert held(filled) == WHOLE


def test_an_empty_pool_has_nothing_to_remove(pool: BenchmarkPool) -> None:
    assert enforce_retention(pool, now=NOON).removed == ()
    assert list_days(pool) == ()
