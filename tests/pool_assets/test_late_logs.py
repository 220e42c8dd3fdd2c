"""Late logs through the real sensor, job and assets: which days run again, and that a killed run changes nothing."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from flywheel.pool.overview import list_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine
from flywheel.pool.schemas import WARM
from flywheel.pool.waiting import list_waiting
from flywheel.settings import Settings
from resources.benchmark_pool import BenchmarkPoolResource
from tests.pool.logs import Log, task_logs, write_segment

ROOT = Path(__file__).parent.parent.parent
NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
DAYS = tuple(NOW.date() - timedelta(days=back) for back in (6, 5, 1))
LATE = DAYS[1]
# A run in a process of its own that dies as by kill -9 when the assets come to the warm tier.
KILLED_RUN = """
import os, sys
import dagster as dg
from definitions import defs
from pool_assets import warm_tier
warm_tier.place_warm = lambda *arguments, **options: os._exit(9)
with dg.DagsterInstance.ephemeral() as instance:
    defs.resolve_job_def("pool_day").execute_in_process(partition_key=sys.argv[1], instance=instance)
"""


def noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("FLYWHEEL_SIMULATED_NOW", NOW.isoformat())
    return monkeypatch


@pytest.fixture
def pool(asset_settings: Settings, clock: pytest.MonkeyPatch) -> Iterator[BenchmarkPool]:
    """Three days of a whole task each; on the second one another task lacks its evaluation. None ran yet."""
    logs: list[Log] = [log for day in DAYS for log in task_logs(f"whole-{day}", at=noon(day))]
    write_segment(asset_settings, "a", [*logs, *late_task()[:2]], written_at=NOW)
    with BenchmarkPool.open(asset_settings) as opened:
        yield opened


def late_task() -> list[Log]:
    return task_logs("late", at=noon(LATE))


def requested(instance: dg.DagsterInstance) -> list[str] | str:
    """The days that the sensor of the definitions asks for, or why it asks for none."""
    from definitions import defs

    context = dg.build_sensor_context(
        instance=instance,
        resources={"benchmark_pool": BenchmarkPoolResource()},
        repository_def=defs.get_repository_def(),
    )
    found = defs.resolve_sensor_def("new_segments").evaluate_tick(context)
    return [str(request.partition_key) for request in found.run_requests or ()] or found.skip_message or ""


def run(instance: dg.DagsterInstance, days: list[str] | str) -> None:
    from definitions import defs

    assert isinstance(days, list), days
    for day in days:
        assert defs.resolve_job_def("pool_day").execute_in_process(partition_key=day, instance=instance).success


def footprint(pool: BenchmarkPool) -> dict[date, tuple[Any, ...]]:
    """What a run of a day would change: its ledger, when its tiers were placed, and its rows in the lake."""
    with pool.transaction() as connection:
        ledger = connection.execute(
            "SELECT day, revision, validated_revision, anonymized_revision, statistics_revision, validated_at,"
            " report->>'digest', (SELECT array_agg((tier, placed_at, digest)::text ORDER BY tier) FROM tier_days"
            " WHERE tier_days.day = days.day) FROM days"
        ).fetchall()
    return {row[0]: (*row[1:], warm_ids(pool, row[0])) for row in ledger}


def warm_ids(pool: BenchmarkPool, day: date) -> list[str]:
    batches = pool.lake.read(WARM, columns=("id",), partitions=[str(day)])
    return sorted(row["id"] for batch in batches for row in batch.to_pylist())


def content(pool: BenchmarkPool) -> str:
    """All that the late day's points and account say, without when they were made."""
    with pool.transaction() as connection:
        report = connection.execute("SELECT report FROM days WHERE day = %s", (LATE,)).fetchone()
        hot = connection.execute("SELECT id, payload FROM hot_points WHERE day = %s ORDER BY id", (LATE,)).fetchall()
        hours = connection.execute("SELECT * FROM agent_statistics WHERE day = %s ORDER BY 1, 2", (LATE,)).fetchall()
    return json.dumps([report, hot, hours, warm_ids(pool, LATE)], default=str)


def test_a_log_of_five_days_ago_runs_its_day_again_and_nothing_else(
    pool: BenchmarkPool, instance: dg.DagsterInstance, clock: pytest.MonkeyPatch
) -> None:
    first = requested(instance)
    assert first == [str(day) for day in DAYS]
    run(instance, first)
    assert str(requested(instance)).endswith("every day is up to date")
    assert [(task.task_id, task.missing) for task in list_waiting(pool)] == [("late", ("evaluation",))]
    assert {day.day: day.completeness for day in list_days(pool)} == {
        **dict.fromkeys(DAYS, "complete"),
        LATE: "waiting",
    }
    before = footprint(pool)

    clock.setenv("FLYWHEEL_SIMULATED_NOW", (NOW + timedelta(hours=1)).isoformat())
    write_segment(pool.settings, "b", late_task()[2:], written_at=NOW)
    again = requested(instance)
    assert again == [str(LATE)]
    run(instance, again)
    after = footprint(pool)
    assert {day for day in DAYS if after[day] != before[day]} == {LATE}
    assert len(warm_ids(pool, LATE)) == 2
    assert (list_waiting(pool), {day.completeness for day in list_days(pool)}) == ((), {"complete"})
    assert str(requested(instance)).endswith("every day is up to date")


def test_a_run_for_a_late_log_that_is_killed_ends_the_same_when_it_runs_again(
    pool: BenchmarkPool, instance: dg.DagsterInstance
) -> None:
    run(instance, requested(instance))
    write_segment(pool.settings, "b", late_task()[2:], written_at=NOW)
    assert requested(instance) == [str(LATE)]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_RUN, str(LATE)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert killed.returncode == 9, killed.stderr
    assert len(warm_ids(pool, LATE)) == 1  # it died in the middle: validated, not placed
    before = footprint(pool)
    assert requested(instance) == [str(LATE)]
    run(instance, [str(LATE)])
    finished = content(pool)
    assert {day for day, found in footprint(pool).items() if found != before[day]} == {LATE}
    run(instance, [str(LATE)])  # as one that nobody killed
    assert content(pool) == finished
    assert len(warm_ids(pool, LATE)) == 2
    assert str(requested(instance)).endswith("every day is up to date")


def test_a_day_whose_task_expires_runs_again_once_and_nothing_else(
    pool: BenchmarkPool, instance: dg.DagsterInstance, clock: pytest.MonkeyPatch
) -> None:
    run(instance, requested(instance))
    before = footprint(pool)
    clock.setenv("FLYWHEEL_SIMULATED_NOW", (NOW + timedelta(days=7) - timedelta(seconds=1)).isoformat())
    assert str(requested(instance)).endswith("every day is up to date")
    clock.setenv("FLYWHEEL_SIMULATED_NOW", (NOW + timedelta(days=7)).isoformat())
    assert requested(instance) == requested(instance) == [str(LATE)]
    run(instance, [str(LATE)])
    assert {day for day, found in footprint(pool).items() if found != before[day]} == {LATE}
    assert {(line.task_id, line.gates) for line in list_quarantine(pool)} == {("late", ("incomplete-expired",))}
    assert str(requested(instance)).endswith("every day is up to date")

    event = instance.get_latest_materialization_event(dg.AssetKey("validated_data_points"))
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    assert (metadata["expired_tasks"].value, metadata["completeness"].value) == (1, "complete")
    assert metadata["waiting_by_missing_and_age"].value == "none"
