"""How each agent does at each type of task."""

from datetime import date

import dagster as dg

from flywheel.pool.schemas import STATISTICS_COLUMNS
from flywheel.pool.statistics import refresh_statistics
from pool_assets.anonymized_data_points import anonymized_data_points
from pool_assets.partitions import days
from pool_assets.presentation import OWNERS, bar_chart, column_schema, figures
from resources.benchmark_pool import BenchmarkPoolResource


@dg.asset(
    group_name="pool",
    kinds={"python", "postgres"},
    owners=OWNERS,
    partitions_def=days,
    deps=[anonymized_data_points],
    metadata={"dagster/column_schema": column_schema(STATISTICS_COLUMNS)},
)
def agent_statistics(
    context: dg.AssetExecutionContext, benchmark_pool: BenchmarkPoolResource
) -> dg.MaterializeResult[None]:
    """Tasks, successes, quality, latency and tokens per agent, task type and hour, for routing and reports."""
    with benchmark_pool.open() as pool:
        report = refresh_statistics(pool, date.fromisoformat(context.partition_key))
    return dg.MaterializeResult(
        metadata={
            **figures(report),
            "dagster/row_count": report.rows,
            "tasks": bar_chart(report.tasks_by_agent, title="tasks by agent"),
        }
    )
