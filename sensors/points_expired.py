"""What is older than its tier leaves it."""

import dagster as dg

from flywheel.pool.overview import list_days
from flywheel.pool.retention import find_expired
from resources.benchmark_pool import BenchmarkPoolResource


@dg.sensor(
    job_name="pool_retention",
    minimum_interval_seconds=600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Runs retention once a day for the lake's old versions, and within the hour when a tier is too old.",
)
def points_expired(benchmark_pool: BenchmarkPoolResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run: one an hour at most where something is too old, else one a day."""
    with benchmark_pool.open() as pool:
        now = pool.now()
        found = find_expired(pool, now=now)
        known = list_days(pool)
    if not known:
        return dg.SkipReason("the pool is empty")
    return dg.RunRequest(run_key=f"retention {now:%Y-%m-%d %H}" if found else f"retention {now:%Y-%m-%d}")
