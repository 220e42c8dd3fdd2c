"""Joined points that passed the gates, and the checks that nothing was lost on the way."""

from datetime import date

import dagster as dg

from flywheel.pool.expectations import expect_day
from flywheel.pool.overview import day_state
from flywheel.pool.schemas import POINT_COLUMNS, check_rows
from flywheel.pool.trends import gate_trend
from flywheel.pool.validation import last_report, validate_day
from flywheel.pool.waiting import count_waiting
from pool_assets.partitions import checked_partition, days
from pool_assets.presentation import OWNERS, TABULAR, bar_chart, column_schema, figures, share_chart, shown
from pool_assets.raw_logs import raw_logs
from resources.benchmark_pool import BenchmarkPoolResource


@dg.asset(
    group_name="pool",
    kinds=TABULAR | {"pandera"},
    owners=OWNERS,
    partitions_def=days,
    deps=[raw_logs],
    metadata={"dagster/column_schema": column_schema(POINT_COLUMNS)},
)
def validated_data_points(
    context: dg.AssetExecutionContext, benchmark_pool: BenchmarkPoolResource
) -> dg.MaterializeResult[None]:
    """One row per task: the three logs joined, judged by every gate of SPEC section 3.

    What fails a gate is in quarantine with its reasons; what lacks a log waits, until it expires. Still holds personal
    data.
    """
    day = date.fromisoformat(context.partition_key)
    with benchmark_pool.open() as pool:
        now = pool.now()
        report = validate_day(pool, day, now=now)
        waiting = count_waiting(pool, day, now=now)
        state = day_state(pool, day)
        gates = gate_trend(pool, report)
        wanted = pool.settings.batch.clean_fraction
    return dg.MaterializeResult(
        metadata={
            **figures(report),
            "dagster/row_count": report.points,
            "waiting_by_missing_and_age": shown(waiting),
            **figures(state),
            "outcome": bar_chart(report.outcome, title="lines by outcome"),
            "gates_passed": bar_chart(gates.passed, title="tasks that held each gate", share=True),
            "gates_failed": bar_chart(gates.failed_tasks, title="tasks by gate that they failed"),
            "clean_trend": share_chart(
                {"clean": gates.clean}, title="clean fraction of the tasks judged", limit=wanted
            ),
        },
        data_version=dg.DataVersion(report.digest),
    )


@dg.asset_check(asset=validated_data_points, blocking=True)
def nothing_lost(context: dg.AssetCheckExecutionContext, benchmark_pool: BenchmarkPoolResource) -> dg.AssetCheckResult:
    """Lines in = lines in points + quarantined + duplicates + waiting."""
    with benchmark_pool.open() as pool:
        report = last_report(pool, date.fromisoformat(checked_partition(context)))
    accounted = sum(report.outcome.values())
    return dg.AssetCheckResult(
        passed=report.lines == accounted, metadata={"lines": report.lines, "accounted": accounted, **report.outcome}
    )


@dg.asset_check(asset=validated_data_points)
def mostly_clean(context: dg.AssetCheckExecutionContext, benchmark_pool: BenchmarkPoolResource) -> dg.AssetCheckResult:
    """At least 95 % of the tasks that have all their logs passed the gates."""
    with benchmark_pool.open() as pool:
        report = last_report(pool, date.fromisoformat(checked_partition(context)))
        required = pool.settings.batch.clean_fraction
    return dg.AssetCheckResult(
        passed=report.clean_fraction >= required,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"clean_fraction": report.clean_fraction, "required": required},
    )


@dg.asset_check(asset=validated_data_points, blocking=True)
def rows_match_schema(
    context: dg.AssetCheckExecutionContext, benchmark_pool: BenchmarkPoolResource
) -> dg.AssetCheckResult:
    """Every row fits the pandera schema of the table."""
    with benchmark_pool.open() as pool:
        result = check_rows(pool, date.fromisoformat(checked_partition(context)))
    return dg.AssetCheckResult(passed=result.passed, metadata=figures(result))


@dg.asset_check(asset=validated_data_points)
def day_meets_expectations(
    context: dg.AssetCheckExecutionContext, benchmark_pool: BenchmarkPoolResource
) -> dg.AssetCheckResult:
    """The Great Expectations suite of the day holds; its data docs are linked."""
    with benchmark_pool.open() as pool:
        result = expect_day(pool, date.fromisoformat(checked_partition(context)))
    return dg.AssetCheckResult(
        passed=result.passed,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={**figures(result), "data_docs": dg.MetadataValue.path(result.data_docs)},
    )
