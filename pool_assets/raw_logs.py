"""The day's logs as they arrived."""

from datetime import date

import dagster as dg

from flywheel.pool.raw import collect_day
from flywheel.pool.schemas import LINE_COLUMNS
from flywheel.pool.trends import volume_trend
from pool_assets.partitions import days
from pool_assets.presentation import OWNERS, bar_chart, column_schema, day_chart, figures
from resources.benchmark_pool import BenchmarkPoolResource


@dg.asset(
    group_name="pool",
    kinds={"python", "file"},
    owners=OWNERS,
    partitions_def=days,
    metadata={"dagster/column_schema": column_schema(LINE_COLUMNS)},
)
def raw_logs(context: dg.AssetExecutionContext, benchmark_pool: BenchmarkPoolResource) -> dg.MaterializeResult[None]:
    """The lines that arbiters logged for tasks of this day, in append-only segments.

    Nothing is copied: the asset says which lines of which segments are the day's, with their digest.
    """
    with benchmark_pool.open() as pool:
        raw = collect_day(pool, date.fromisoformat(context.partition_key))
        trend = volume_trend(pool, raw)
    return dg.MaterializeResult(
        metadata={
            **figures(raw),
            "dagster/row_count": raw.lines,
            "volume": bar_chart(raw.by_log, title="lines by log"),
            "volume_trend": day_chart(trend, title="lines by day"),
        },
        data_version=dg.DataVersion(raw.digest),
    )
