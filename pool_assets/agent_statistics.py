"""How each agent does at each type of task."""

from datetime import date

import dagster as dg

from flywheel.pool.schemas import STATISTICS_COLUMNS
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.trends import success_trend
from pool_assets.anonymized_data_points import anonymized_data_points
from pool_assets.partitions import days
from pool_assets.presentation import OWNERS, bar_chart, column_schema, figures, share_chart
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
    day = date.fromisoformat(context.partition_key)
    with benchmark_pool.open() as pool:
        report = refresh_statistics(pool, day)
        trend = success_trend(pool, day)
    return dg.MaterializeResult(
        metadata={
            **figures(report),
            "dagster/row_count": report.rows,
            "tasks": bar_chart(report.tasks_by_agent, title="tasks by agent"),
            "success_trend": share_chart(trend, title="success rate by agent"),
        },
        data_version=dg.DataVersion(report.digest),
    )
