"""Points without persons and secrets, and the check that holds the day back if any is left."""

from datetime import date

import dagster as dg

from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.halts import halt_on_violations
from flywheel.pool.schemas import POINT_COLUMNS
from pool_assets.partitions import checked_partition, days
from pool_assets.presentation import OWNERS, TABULAR, bar_chart, column_schema, figures
from pool_assets.validated_data_points import validated_data_points
from resources.benchmark_pool import BenchmarkPoolResource


@dg.asset(
    group_name="pool",
    kinds=TABULAR,
    owners=OWNERS,
    partitions_def=days,
    deps=[validated_data_points],
    metadata={"dagster/column_schema": column_schema(POINT_COLUMNS)},
)
def anonymized_data_points(
    context: dg.AssetExecutionContext, benchmark_pool: BenchmarkPoolResource
) -> dg.MaterializeResult[None]:
    """The day's points with tenants hashed, user ids removed, and personal data and secrets replaced."""
    with benchmark_pool.open() as pool:
        report = anonymize_day(pool, date.fromisoformat(context.partition_key))
    return dg.MaterializeResult(
        metadata={
            **figures(report),
            "dagster/row_count": report.points,
            "replacements": bar_chart(report.replaced, title="replaced by type"),
        },
        data_version=dg.DataVersion(report.version),
    )


@dg.asset_check(asset=anonymized_data_points, blocking=True)
def no_pii_left(context: dg.AssetCheckExecutionContext, benchmark_pool: BenchmarkPoolResource) -> dg.AssetCheckResult:
    """No personal data and no secret in any string, every tenant 64 hex digits.

    If not, the day's tiers are held back and the whole pool is halted until a person lifts it.
    """
    with benchmark_pool.open() as pool:
        violations = halt_on_violations(pool, date.fromisoformat(checked_partition(context)), now=pool.now())
    shown = figures(violations)
    found = {"violations": shown.pop("count"), "points_with_violations": shown.pop("points")}
    return dg.AssetCheckResult(passed=not violations.count, metadata=found | shown)
