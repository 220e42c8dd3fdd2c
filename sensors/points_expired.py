"""What is older than its tier leaves it."""

from datetime import UTC, datetime

import dagster as dg

from flywheel.pool.overview import list_days
from flywheel.pool.retention import enforce_retention, find_expired
from resources.benchmark_pool import BenchmarkPoolResource


@dg.op
def remove_expired(context: dg.OpExecutionContext, benchmark_pool: BenchmarkPoolResource) -> None:
    """Empty tiers of days that are too old for them, once the next tier holds them; vacuum the lake."""
    with benchmark_pool.open() as pool:
        report = enforce_retention(pool, now=datetime.now(UTC))
    for item in report.removed:
        context.log.info(f"{item.day}: {item.rows:,} rows left {item.store}")
    context.log.info(f"{len(report.removed)} removals, {report.files:,} files of replaced versions deleted")


@dg.job(
    executor_def=dg.in_process_executor,
    description="Retention: copy to the next tier, verify, delete. Running it again finishes what was cut off.",
)
def pool_retention() -> None:
    """Retention of the pool."""
    remove_expired()


@dg.sensor(
    job_name="pool_retention",
    minimum_interval_seconds=600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Runs retention once a day for the lake's old versions, and within the hour when a tier is too old.",
)
def points_expired(benchmark_pool: BenchmarkPoolResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run: one an hour at most where something is too old, else one a day."""
    now = datetime.now(UTC)
    with benchmark_pool.open() as pool:
        found = find_expired(pool, now=now)
        known = list_days(pool)
    if not known:
        return dg.SkipReason("the pool is empty")
    return dg.RunRequest(run_key=f"retention {now:%Y-%m-%d %H}" if found else f"retention {now:%Y-%m-%d}")
