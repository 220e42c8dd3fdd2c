"""Runs that were cut off with the platform are failures: said so, and free to be tried again."""

import dagster as dg

from sensors.attempts import started_at

ALIVE = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dg.sensor(
    target=None,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Marks runs as failed whose process died with the services that started it.",
)
def run_interrupted(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Fail every live-looking run that started before the services did: its process was a child of theirs.

    Only ``flywheel up`` sets the start time. Where Dagster launches runs elsewhere (Kubernetes), its own run
    monitoring does this.
    """
    services_started_at = started_at()
    if not services_started_at:
        return dg.SkipReason("runs are not children of these services")
    records = context.instance.get_run_records(dg.RunsFilter(statuses=ALIVE))
    dead = [
        record for record in records if (record.start_time or record.create_timestamp.timestamp()) < services_started_at
    ]
    for record in dead:
        context.instance.report_run_failed(
            record.dagster_run, "The platform was stopped while this ran. It is tried again by itself."
        )
    return dg.SkipReason(f"{len(dead)} interrupted runs were marked as failed" if dead else "no run was interrupted")
