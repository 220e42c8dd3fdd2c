from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta

import pytest

from flywheel.errors import PoolError
from flywheel.pool import tiers
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.digests import Digest
from flywheel.pool.files import LakeFile, files_of
from flywheel.pool.intake import index_segments, mark_changed, stale_days
from flywheel.pool.overview import list_days, pool_counts
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.readiness import missing, readiness
from flywheel.pool.rows import Row, arrow_schema, read_rows
from flywheel.pool.schemas import AGGREGATE_COLUMNS, ANONYMIZED, COLD, POINT_COLUMNS, WARM
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.tiers import aggregate_cold, place_hot, place_warm
from flywheel.pool.validation import validate_day
from tests.pool.logs import NOON, Log, task_logs, write_segment

DAY = date(2026, 3, 2)


def through_anonymization(pool: BenchmarkPool, name: str, logs: Sequence[Log | bytes], *, day: date = DAY) -> None:
    write_segment(pool.settings, name, logs)
    index_segments(pool, now=NOON + timedelta(days=2))
    validate_day(pool, day, now=NOON + timedelta(days=2))
    anonymize_day(pool, day)
    find_violations(pool, day)


def hot_rows(pool: BenchmarkPool) -> list[Row]:
    with pool.transaction() as connection:
        cursor = connection.execute(f"SELECT {', '.join(POINT_COLUMNS)} FROM hot_points ORDER BY id")
        return [dict(zip(POINT_COLUMNS, row, strict=True)) for row in cursor]


def by_id(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: str(row["id"]))


@pytest.mark.parametrize(
    ("age_days", "held"),
    [
        (0, {"hot": 5, "warm": 5, "cold": 2}),
        (7, {"hot": 5, "warm": 5, "cold": 2}),
        (8, {"hot": 0, "warm": 5, "cold": 2}),
        (91, {"hot": 0, "warm": 0, "cold": 2}),
        (731, {"hot": 0, "warm": 0, "cold": 0}),
    ],
)
def test_a_day_is_in_the_tiers_of_its_age_and_in_no_other(
    pool: BenchmarkPool, age_days: int, held: dict[str, int]
) -> None:
    logs = [log for number in range(5) for log in task_logs(f"t{number}", agent="agent-b" if number else "agent-a")]
    through_anonymization(pool, "a", logs)
    for place in (place_hot, place_warm, aggregate_cold):
        place(pool, DAY, now=NOON)
        report = place(pool, DAY, now=NOON + timedelta(days=age_days))
        assert report.rows == held[report.tier]
        assert report.in_range == bool(held[report.tier])
    assert len(hot_rows(pool)) == held["hot"]
    assert len(list(read_rows(pool, WARM, DAY))) == held["warm"]
    assert len(list(read_rows(pool, COLD, DAY, columns=AGGREGATE_COLUMNS))) == held["cold"]


def test_hot_and_warm_hold_the_anonymized_points(pool: BenchmarkPool) -> None:
    through_anonymization(pool, "a", [log for number in range(5) for log in task_logs(f"t{number}")])
    hot, warm = place_hot(pool, DAY, now=NOON), place_warm(pool, DAY, now=NOON)
    expected = by_id(list(read_rows(pool, ANONYMIZED, DAY)))
    assert hot.digest == warm.digest
    assert by_id(list(read_rows(pool, WARM, DAY))) == expected
    assert hot_rows(pool) == expected


def test_placing_again_after_a_change_replaces_the_day(pool: BenchmarkPool) -> None:
    through_anonymization(pool, "a", [*task_logs("t1"), *task_logs("t2")])
    place_hot(pool, DAY, now=NOON)
    late_start = [{**task_logs("t2")[0], "timestamp": (NOON - timedelta(days=1)).isoformat()}]
    through_anonymization(pool, "b", late_start)
    assert place_hot(pool, DAY, now=NOON).rows == 1
    assert [row["task_id"] for row in hot_rows(pool)] == ["t1"]


def test_a_point_that_moved_to_another_day_is_in_the_hot_tier_once(pool: BenchmarkPool) -> None:
    through_anonymization(pool, "a", task_logs("t1"))
    place_hot(pool, DAY, now=NOON)
    point = next(read_rows(pool, ANONYMIZED, DAY))
    yesterday = DAY - timedelta(days=1)
    pool.replace(ANONYMIZED, yesterday, [{**point, "day": yesterday}], schema=arrow_schema(POINT_COLUMNS))
    with pool.transaction() as connection:
        mark_changed(connection, [yesterday], now=NOON)
    find_violations(pool, yesterday)
    assert place_hot(pool, yesterday, now=NOON).rows == 1
    assert [row["day"] for row in hot_rows(pool)] == [yesterday]


PERSONAL = "ann.lee@example.org"  # an agent's name is kept as it is, so this one is found by the check
PLACES = (place_hot, place_warm, aggregate_cold)


def rows_in_tiers(pool: BenchmarkPool) -> list[int]:
    tables = [list(read_rows(pool, table, DAY, columns=("tenant_id",))) for table in (WARM, COLD)]
    return [len(hot_rows(pool)), *map(len, tables)]


def test_no_tier_takes_points_that_hold_something_personal(pool: BenchmarkPool) -> None:
    through_anonymization(pool, "a", task_logs("t1", agent=PERSONAL))
    for place in PLACES:
        with pytest.raises(PoolError, match=f"takes nothing of {DAY}: 1 privacy violations were found in its points"):
            place(pool, DAY, now=NOON)
    assert rows_in_tiers(pool) == [0, 0, 0]


def test_no_tier_takes_points_that_were_made_since_the_check(pool: BenchmarkPool) -> None:
    through_anonymization(pool, "a", task_logs("t1"))
    for place in PLACES:
        place(pool, DAY, now=NOON)
    write_segment(pool.settings, "b", task_logs("t2"))
    index_segments(pool, now=NOON)
    validate_day(pool, DAY, now=NOON)
    anonymize_day(pool, DAY)
    for place in PLACES:
        with pytest.raises(PoolError, match=r"did not look at its points\. Run the day 2026-03-02"):
            place(pool, DAY, now=NOON)
    assert rows_in_tiers(pool) == [1, 1, 1]
    find_violations(pool, DAY)
    assert place_warm(pool, DAY, now=NOON).rows == 2


def test_no_tier_takes_points_that_replaced_those_of_the_check(pool: BenchmarkPool) -> None:
    """As after a kill between the lake's commit and the ledger's."""
    through_anonymization(pool, "a", [*task_logs("t1"), *task_logs("t2")])
    rows = list(read_rows(pool, ANONYMIZED, DAY))
    pool.replace(ANONYMIZED, DAY, rows[:1], schema=arrow_schema(POINT_COLUMNS))
    for place in PLACES:
        with pytest.raises(PoolError, match=r"looked at points with digest .*-2, there are now .*-1"):
            place(pool, DAY, now=NOON)
    assert rows_in_tiers(pool) == [0, 0, 0]
    pool.replace(ANONYMIZED, DAY, (), schema=arrow_schema(POINT_COLUMNS))
    assert place_warm(pool, DAY, now=NOON).rows == 0


def test_warm_points_of_before_the_check_keep_a_batch_back(pool: BenchmarkPool) -> None:
    through_anonymization(pool, "a", task_logs("t1"))
    place_warm(pool, DAY, now=NOON)
    assert readiness(pool, now=NOON).unchecked_days == 0
    through_anonymization(pool, "b", task_logs("t2"))
    ready = readiness(pool, now=NOON)
    assert (ready.unverified_days, ready.privacy_violations, ready.unchecked_days) == (0, 0, 1)
    assert "the warm tier has other points of 1 days than the privacy check" in missing(ready, pool.settings.batch)[-1]
    place_warm(pool, DAY, now=NOON)
    assert readiness(pool, now=NOON).unchecked_days == 0


def test_aggregates_are_sums_over_the_points(pool: BenchmarkPool) -> None:
    logs = [*task_logs("t1", latencyMs=100.0), *task_logs("t2", latencyMs=300.0, success=False, overallScore=0.25)]
    through_anonymization(pool, "a", [*logs, *task_logs("t3", tenant="umbrella")])
    report = aggregate_cold(pool, DAY, now=NOON)
    rows = list(read_rows(pool, COLD, DAY, columns=AGGREGATE_COLUMNS))
    (acme,) = (row for row in rows if row["tasks"] == 2)
    assert (report.rows, report.points) == (2, 3)
    assert (acme["successes"], acme["mean_quality"], acme["mean_latency_ms"], acme["tokens"]) == (1, 0.6, 200.0, 180)


def test_a_store_that_does_not_hold_what_was_written_is_an_error_and_undone(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    through_anonymization(pool, "a", task_logs("t1"))
    monkeypatch.setattr(tiers, "replace_day", lambda connection, day, rows: list(rows))
    with pytest.raises(PoolError, match="holds 0 points of 2026-03-02"):
        place_hot(pool, DAY, now=NOON)
    with pool.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM tier_days").fetchone() == (0,)


def test_a_warm_tier_with_other_files_is_judged_by_their_points(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    through_anonymization(pool, "a", [*task_logs("t1"), *task_logs("t2")])
    rows = list(read_rows(pool, ANONYMIZED, DAY))

    def other_files(files: Iterable[tiers.PointFile], copied: Digest) -> Iterator[LakeFile]:
        for file in files:
            copied.add(file.content)
        return files_of(rows, schema=arrow_schema(POINT_COLUMNS), key="day")

    monkeypatch.setattr(tiers, "copies_of", other_files)
    rows.reverse()
    assert place_warm(pool, DAY, now=NOON).rows == 2
    rows.pop()
    with pytest.raises(PoolError, match="holds 1 points of 2026-03-02"):
        place_warm(pool, DAY, now=NOON)


def test_a_day_is_stale_until_it_went_through_everything(pool: BenchmarkPool) -> None:
    through_anonymization(pool, "a", task_logs("t1"))
    for step in (place_hot, place_warm, aggregate_cold):
        step(pool, DAY, now=NOON)
        assert [stale.day for stale in stale_days(pool)] == [DAY]
    refresh_statistics(pool, DAY)
    assert stale_days(pool) == ()
    write_segment(pool.settings, "b", task_logs("t2"))
    index_segments(pool, now=NOON)
    assert [stale.day for stale in stale_days(pool)] == [DAY]


def test_the_overview_counts_lines_and_tiers(pool: BenchmarkPool) -> None:
    assert pool_counts(pool)["lines"] == 0
    logs: list[Log | bytes] = [*task_logs("t1"), *task_logs("t1")[:1], *task_logs("t2")[:2], b"broken"]
    through_anonymization(pool, "a", logs)
    place_hot(pool, DAY, now=NOON)
    counts = pool_counts(pool)
    assert counts == {
        "lines": 7,
        "points": 1,
        "lines_in_points": 3,
        "quarantined": 1,
        "duplicates": 1,
        "waiting": 2,
    }
    (overview,) = list_days(pool)
    assert (overview.day, overview.hot, overview.warm, overview.privacy_violations) == (DAY, 1, None, 0)
