"""Alerts as checks of the day that they concern, so that an asset's page shows when collection was not well."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

import dagster as dg

from flywheel.pool.alerts import alerts
from flywheel.pool.health import ALARMS
from pool_assets.agent_statistics import agent_statistics
from pool_assets.hot_tier import hot_tier
from resources.benchmark_pool import BenchmarkPoolResource

CHECKS = {
    "volume_is_usual": "volume",
    "quality_did_not_drop": "quality_drop",
    "tool_adoption_did_not_drop": "tool_adoption_drop",
    "reward_did_not_drift": "reward_drift",
}
SAYS = {alarm.name: alarm.says for alarm in ALARMS}


@dg.multi_asset_check(
    specs=[
        dg.AssetCheckSpec(
            name=name,
            asset=agent_statistics,
            additional_deps=[hot_tier],
            description=f"Warns when {SAYS[alarm]}, as judged at the end of the day, or now.",
        )
        for name, alarm in CHECKS.items()
    ]
)
def health_checks(
    context: dg.AssetCheckExecutionContext, benchmark_pool: BenchmarkPoolResource
) -> Iterator[dg.AssetCheckResult]:
    """The alerts as they were at the end of the run's day, or are now where it has not ended."""
    with benchmark_pool.open() as pool:
        now = pool.now()
        if context.has_partition_key:
            end = datetime.combine(date.fromisoformat(context.partition_key), time(), UTC) + timedelta(days=1)
            now = min(now, end)
        active = alerts(pool, now=now)
    for name, alarm in CHECKS.items():
        found = [alert.message for alert in active if alert.name == alarm]
        yield dg.AssetCheckResult(
            check_name=name,
            asset_key=agent_statistics.key,
            passed=not found,
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"judged_at": now.isoformat(timespec="seconds"), "found": "; ".join(found) or "nothing"},
        )
