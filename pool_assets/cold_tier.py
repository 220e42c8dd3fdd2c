"""What remains of old days."""

from datetime import date

import dagster as dg

from flywheel.pool.lake_readings import tier_history
from flywheel.pool.schemas import AGGREGATE_COLUMNS
from flywheel.pool.tiers import aggregate_cold
from pool_assets.anonymized_data_points import anonymized_data_points
from pool_assets.partitions import days
from pool_assets.presentation import OWNERS, TABULAR, column_schema, figures, history_figures
from resources.benchmark_pool import BenchmarkPoolResource


@dg.asset(
    group_name="pool",
    kinds=TABULAR,
    owners=OWNERS,
    partitions_def=days,
    deps=[anonymized_data_points],
    metadata={"dagster/column_schema": column_schema(AGGREGATE_COLUMNS)},
)
def cold_tier(context: dg.AssetExecutionContext, benchmark_pool: BenchmarkPoolResource) -> dg.MaterializeResult[None]:
    """Aggregates per day, agent, task type and tenant, kept for two years; no single task can be read back."""
    day = date.fromisoformat(context.partition_key)
    with benchmark_pool.open() as pool:
        report = aggregate_cold(pool, day, now=pool.now())
        history = tier_history(pool, "cold", day)
    return dg.MaterializeResult(
        metadata={
            **figures(report),
            **history_figures(history),
            "dagster/row_count": report.rows,
        },
        data_version=dg.DataVersion(report.digest),
    )
