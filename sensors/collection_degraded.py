"""Collection is not what it should be: the alerts of SPEC section 11, announced when they begin and when they end."""

import json

import dagster as dg

from flywheel.pool.alerts import alerts
from flywheel.pool.health import begun, ended
from resources.benchmark_pool import BenchmarkPoolResource


@dg.sensor(
    target=None,
    minimum_interval_seconds=120,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Watches volume, failures, privacy, quality, tool adoption and rewards; its ticks say what is wrong.",
)
def collection_degraded(context: dg.SensorEvaluationContext, benchmark_pool: BenchmarkPoolResource) -> dg.SensorResult:
    """Say in numbers what is wrong. The cursor holds when each active alert was announced."""
    with benchmark_pool.open() as pool:
        now = pool.now()
        active = alerts(pool, now=now)
    announced: dict[str, str] = json.loads(context.cursor or "{}")
    for alert in begun(announced, active):
        log = context.log.error if alert.severity == "critical" else context.log.warning
        log(f"alert {alert.key} began: {alert.message}")
    for key in ended(announced, active):
        context.log.info(f"alert {key} ended; it was announced at {announced[key]}")
    cursor = {alert.key: announced.get(alert.key, now.isoformat(timespec="seconds")) for alert in active}
    reason = "; ".join(f"{alert.key} ({alert.severity}): {alert.message}" for alert in active)
    return dg.SensorResult(skip_reason=reason or "collection is well: no alert is active", cursor=json.dumps(cursor))
