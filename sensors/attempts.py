"""How often a partition was tried. What failed before the services last started is forgiven: somebody looked at it."""

import os
from datetime import UTC, datetime

import dagster as dg

from flywheel.training.trigger import RunState

STARTED_AT = "FLYWHEEL_SERVICES_STARTED_AT"
STATES: dict[dg.DagsterRunStatus, RunState] = {
    dg.DagsterRunStatus.SUCCESS: "succeeded",
    dg.DagsterRunStatus.FAILURE: "failed",
    dg.DagsterRunStatus.CANCELED: "canceled",
}


def started_at() -> float:
    """When these services started, in seconds since 1970; 0 where something else than ``flywheel up`` runs them."""
    return float(os.environ.get(STARTED_AT) or 0)


def run_states(instance: dg.DagsterInstance, partition: str) -> tuple[RunState, ...]:
    """States of a partition's runs, oldest first, whoever started them: all that are active, and those that ended
    since the services started.
    """
    tags = {"dagster/partition": partition}
    since = datetime.fromtimestamp(started_at(), UTC)
    records = instance.get_run_records(dg.RunsFilter(tags=tags), ascending=True)
    return tuple(
        STATES.get(record.dagster_run.status, "active")
        for record in records
        if record.dagster_run.status not in STATES or record.create_timestamp >= since
    )


def first_run_at(instance: dg.DagsterInstance, partition: str) -> datetime:
    """When a partition's first run was made; the end of time where it has none yet."""
    tags = {"dagster/partition": partition}
    records = instance.get_run_records(dg.RunsFilter(tags=tags), ascending=True, limit=1)
    return records[0].create_timestamp if records else datetime.max.replace(tzinfo=UTC)
