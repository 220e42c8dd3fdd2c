"""Closed segments are indexed, and the days they touch are run through the pool."""

import dagster as dg

from flywheel.pool.halts import halted_because, open_halts
from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.waiting import expire_waiting
from flywheel.training.trigger import MAX_ATTEMPTS
from pool_assets.partitions import days
from resources.benchmark_pool import BenchmarkPoolResource
from sensors.attempts import run_states, started_at


@dg.sensor(
    job_name="pool_day",
    minimum_interval_seconds=5,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Runs the pool's assets for every day whose logs changed since it was last validated, or in which a "
    "task has waited too long for a log.",
)
def new_segments(
    context: dg.SensorEvaluationContext, benchmark_pool: BenchmarkPoolResource
) -> list[dg.RunRequest] | dg.SkipReason:
    """Index what arrived and request a run for each day that is out of date; nothing while the pool is halted."""
    with benchmark_pool.open() as pool:
        halted = halted_because(open_halts(pool))
        if halted:
            return dg.SkipReason(f"nothing is indexed and no day runs by itself: {halted}")
        now = pool.now()
        report = index_segments(pool, now=now)
        expire_waiting(pool, now=now)
        stale = stale_days(pool)
    requests = []
    reasons = []
    for day in stale:
        runs = run_states(context.instance, str(day.day))
        failures = runs.count("failed") + runs.count("canceled")
        if not days.has_partition_key(str(day.day)):
            reasons.append(f"{day.day} lies outside the partitions")
        elif "active" in runs:
            reasons.append(f"{day.day} is running")
        elif failures >= MAX_ATTEMPTS:
            reasons.append(f"{day.day} failed {failures} times; look at its runs, then run it by hand")
        else:
            requests.append(
                dg.RunRequest(
                    run_key=f"{day.day}:{day.version}#{failures + 1}@{started_at():.0f}", partition_key=str(day.day)
                )
            )
    if requests:
        return requests
    return dg.SkipReason("; ".join(reasons) or f"{report.new_segments} new segments, every day is up to date")
