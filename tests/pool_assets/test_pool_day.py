"""One day through the real assets, by real Dagster runs: from segments to tiers."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.overview import pool_counts
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.schemas import WARM
from flywheel.settings import Settings
from resources.benchmark_pool import BenchmarkPoolResource
from tests.pool.logs import task_logs, write_segment

YESTERDAY = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
DAY = str(YESTERDAY.date())
ASSETS = {
    "raw_logs",
    "validated_data_points",
    "anonymized_data_points",
    "hot_tier",
    "warm_tier",
    "cold_tier",
    "agent_statistics",
    "agent_reports",
}


@pytest.fixture
def pool(asset_settings: Settings) -> Iterator[BenchmarkPool]:
    """A pool with a day of three good tasks and a malformed line, and the environment that assets find it by."""
    logs = [log for task in ("t1", "t2", "t3") for log in task_logs(task, at=YESTERDAY)]
    write_segment(asset_settings, "a.segment", [*logs, b'{"log": "routing", "taskId": '], written_at=YESTERDAY)
    with BenchmarkPool.open(asset_settings) as opened:
        index_segments(opened, now=datetime.now(UTC))
        yield opened


def run_day(instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    from definitions import defs

    return defs.resolve_job_def("pool_day").execute_in_process(partition_key=DAY, instance=instance)


def warm_rows(pool: BenchmarkPool) -> list[dict[str, object]]:
    batches = pool.lake.read(WARM, columns=("id", "tenant_id", "payload"), partitions=[DAY])
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: str(row["id"]))


def test_a_day_goes_through_every_asset_and_check(pool: BenchmarkPool, instance: dg.DagsterInstance) -> None:
    result = run_day(instance)
    assert result.success
    made = {event.materialization.asset_key.to_user_string() for event in result.get_asset_materialization_events()}
    assert made == ASSETS
    checks = {check.check_name: check.passed for check in result.get_asset_check_evaluations()}
    assert checks == {
        "nothing_lost": True,
        "rows_match_schema": True,
        "mostly_clean": False,  # 9 of 10 lines
        "day_meets_expectations": False,
        "no_pii_left": True,
        "volume_is_usual": True,
        "quality_did_not_drop": True,
        "tool_adoption_did_not_drop": True,
        "reward_did_not_drift": True,
    }
    assert pool_counts(pool) == {
        "lines": 10,
        "lines_in_points": 9,
        "points": 3,
        "quarantined": 1,
        "duplicates": 0,
        "waiting": 0,
    }
    assert stale_days(pool) == ()


def test_the_privacy_check_says_what_was_found_and_who_else_looked(
    pool: BenchmarkPool, instance: dg.DagsterInstance
) -> None:
    result = run_day(instance)
    (check,) = [one for one in result.get_asset_check_evaluations() if one.check_name == "no_pii_left"]
    assert check.metadata["second_detector"].value == "off: it is to read 0 points"
    assert [check.metadata[name].value for name in ("violations", "points_with_violations")] == [0, 0]


def materialization(instance: dg.DagsterInstance, name: str) -> dg.AssetMaterialization:
    event = instance.get_latest_materialization_event(dg.AssetKey(name))
    assert event is not None
    assert event.asset_materialization is not None
    return event.asset_materialization


PLOTS = {
    "raw_logs": {"volume", "volume_trend"},
    "validated_data_points": {"outcome", "gates_passed", "gates_failed", "clean_trend"},
    "anonymized_data_points": {"replacements"},
    "hot_tier": {"rows_trend", "size_trend"},
    "warm_tier": {"rows_trend", "size_trend", "next_batch"},
    "cold_tier": {"rows_trend", "size_trend"},
    "agent_statistics": {"tasks", "success_trend"},
    "agent_reports": set(),
}


def test_every_materialization_shows_its_numbers_and_plots(pool: BenchmarkPool, instance: dg.DagsterInstance) -> None:
    run_day(instance)
    for name in ASSETS:
        metadata = materialization(instance, name).metadata
        assert "dagster/row_count" in metadata, name
        drawn = {key for key, value in metadata.items() if "data:image/png;base64," in str(value.value)}
        assert drawn == PLOTS[name], name
    assert materialization(instance, "warm_tier").metadata["tier_rows"].value == 3
    lacks = str(materialization(instance, "warm_tier").metadata["next_batch_lacks"].value)
    assert "3 of 300 new points with quality ≥ 0.3 for SFT" in lacks


def test_data_versions_are_of_the_content(pool: BenchmarkPool, instance: dg.DagsterInstance) -> None:
    def versions() -> dict[str, str]:
        return {name: (materialization(instance, name).tags or {})["dagster/data_version"] for name in ASSETS}

    run_day(instance)
    first = versions()
    run_day(instance)
    assert versions() == first
    write_segment(pool.settings, "b", task_logs("t4", at=YESTERDAY), written_at=YESTERDAY)
    index_segments(pool, now=datetime.now(UTC))
    run_day(instance)
    assert {name for name, version in versions().items() if version == first[name]} == set()


def test_the_days_reports_say_how_each_agent_did(pool: BenchmarkPool, instance: dg.DagsterInstance) -> None:
    run_day(instance)
    metadata = materialization(instance, "agent_reports").metadata
    (row,) = [line for line in str(metadata["feedback"].value).splitlines() if line.startswith("| agent-a ")]
    assert row.startswith("| agent-a | 3 | 100.0% | 3 | 100.0% | 0.950 | 400 | too few days (1) |")
    assert f"week {YESTERDAY.date() - timedelta(days=YESTERDAY.weekday())} to " in str(metadata["week"].value)
    assert str(metadata["month"].value).splitlines()[-1].endswith("| new |")


def test_a_backfilled_day_gives_the_same_rows(pool: BenchmarkPool, instance: dg.DagsterInstance) -> None:
    run_day(instance)
    first = warm_rows(pool)
    run_day(instance)
    assert len(first) == 3
    assert warm_rows(pool) == first


def test_one_asset_can_be_materialized_by_itself(pool: BenchmarkPool, instance: dg.DagsterInstance) -> None:
    from definitions import defs

    run_day(instance)
    alone = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        partition_key=DAY, instance=instance, asset_selection=[dg.AssetKey("hot_tier")]
    )
    assert alone.success


def test_a_day_without_logs_is_an_empty_day(pool: BenchmarkPool, instance: dg.DagsterInstance) -> None:
    from definitions import defs

    empty = str((YESTERDAY - timedelta(days=3)).date())
    result = defs.resolve_job_def("pool_day").execute_in_process(partition_key=empty, instance=instance)
    assert result.success


def test_a_day_that_grows_old_leaves_the_hot_tier_by_itself(
    pool: BenchmarkPool, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    from definitions import defs
    from sensors.points_expired import points_expired

    def tick() -> str | None:
        request = points_expired(benchmark_pool=BenchmarkPoolResource())
        assert isinstance(request, dg.RunRequest)
        return request.run_key

    run_day(instance)
    assert tick() == f"retention {datetime.now(UTC):%Y-%m-%d}"  # for the lake's old versions
    in_a_week = datetime.now(UTC) + timedelta(days=7)
    monkeypatch.setenv("FLYWHEEL_SIMULATED_NOW", in_a_week.isoformat())
    assert tick() == f"retention {in_a_week:%Y-%m-%d %H}"
    assert defs.resolve_job_def("pool_retention").execute_in_process(instance=instance).success
    assert tick() == f"retention {in_a_week:%Y-%m-%d}"
    with pool.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM hot_points").fetchone() == (0,)
    assert len(warm_rows(pool)) == 3
