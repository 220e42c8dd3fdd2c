"""The job that lets what is older than its tier leave it."""

import dagster as dg

from flywheel.pool.retention import enforce_retention
from resources.benchmark_pool import BenchmarkPoolResource


@dg.op
def remove_expired(context: dg.OpExecutionContext, benchmark_pool: BenchmarkPoolResource) -> None:
    """Empty tiers of days that are too old for them, once the next tier holds them; compact and vacuum the lake."""
    with benchmark_pool.open() as pool:
        report = enforce_retention(pool, now=pool.now())
    for item in report.removed:
        context.log.info(f"{item.day}: {item.rows:,} rows left {item.store}")
    for table in report.compacted:
        context.log.info(f"{table.table}: {table.files_before:,} files before compaction, {table.files_after:,} after")
    context.log.info(f"{len(report.removed)} removals, {report.files:,} files of replaced versions deleted")


@dg.job(
    executor_def=dg.in_process_executor,
    description="Retention: copy to the next tier, verify, delete. Running it again finishes what was cut off.",
)
def pool_retention() -> None:
    """Retention of the pool."""
    remove_expired()
