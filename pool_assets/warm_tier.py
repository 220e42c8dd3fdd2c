"""The table that training reads."""

from datetime import date

import dagster as dg

from flywheel.pool.lake_readings import read_lake, tier_history
from flywheel.pool.schemas import POINT_COLUMNS
from flywheel.pool.tiers import place_warm
from pool_assets.anonymized_data_points import anonymized_data_points
from pool_assets.partitions import days
from pool_assets.presentation import OWNERS, TABULAR, column_schema, figures, history_figures, outlook_figures
from resources.benchmark_pool import BenchmarkPoolResource


@dg.asset(
    group_name="pool",
    kinds=TABULAR,
    owners=OWNERS,
    partitions_def=days,
    deps=[anonymized_data_points],
    metadata={"dagster/column_schema": column_schema(POINT_COLUMNS)},
)
def warm_tier(context: dg.AssetExecutionContext, benchmark_pool: BenchmarkPoolResource) -> dg.MaterializeResult[None]:
    """Full points of the last 90 days in the lake, the main source of training batches."""
    day = date.fromisoformat(context.partition_key)
    with benchmark_pool.open() as pool:
        report = place_warm(pool, day, now=pool.now())
        outlook = read_lake(pool, now=pool.now()).outlook
        history = tier_history(pool, "warm", day)
    return dg.MaterializeResult(
        metadata={
            **figures(report),
            **history_figures(history),
            **outlook_figures(outlook),
            "dagster/row_count": report.rows,
        },
        data_version=dg.DataVersion(report.digest),
    )
