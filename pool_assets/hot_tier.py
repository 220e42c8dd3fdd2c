"""The week that people and routers ask for most."""

from datetime import date

import dagster as dg

from flywheel.pool.lake_readings import tier_history
from flywheel.pool.schemas import POINT_COLUMNS
from flywheel.pool.tiers import place_hot
from pool_assets.anonymized_data_points import anonymized_data_points
from pool_assets.partitions import days
from pool_assets.presentation import OWNERS, column_schema, figures, history_figures
from resources.benchmark_pool import BenchmarkPoolResource


@dg.asset(
    group_name="pool",
    kinds={"python", "postgres"},
    owners=OWNERS,
    partitions_def=days,
    deps=[anonymized_data_points],
    metadata={"dagster/column_schema": column_schema(POINT_COLUMNS)},
)
def hot_tier(context: dg.AssetExecutionContext, benchmark_pool: BenchmarkPoolResource) -> dg.MaterializeResult[None]:
    """Full points of the last 7 days in PostgreSQL, indexed. An older day holds nothing here."""
    day = date.fromisoformat(context.partition_key)
    with benchmark_pool.open() as pool:
        report = place_hot(pool, day, now=pool.now())
        history = tier_history(pool, "hot", day)
    return dg.MaterializeResult(
        metadata={
            **figures(report),
            **history_figures(history),
            "dagster/row_count": report.rows,
        },
        data_version=dg.DataVersion(report.digest),
    )
