from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from flywheel.errors import ServiceAnswerError
from flywheel.services.dagster_api import DagsterApi
from flywheel.services.endpoints import attach
from flywheel.settings import Settings
from tests.services.conftest import wait_until


@pytest.fixture
def dagster(services: Settings) -> Iterator[DagsterApi]:
    with DagsterApi(attach(services).dagster_url) as api:
        yield api


def test_a_launched_run_is_found_by_partition_with_its_steps_and_what_it_made(dagster: DagsterApi) -> None:
    begun = datetime.now(UTC) - timedelta(seconds=1)
    run_id = dagster.launch("pool_day", partition="2026-01-05", tags={"asked_by": "test"})
    wait_until(lambda: not dagster.runs(partition="2026-01-05", tags={"asked_by": "test"})[0].is_active)
    [run] = dagster.runs(job="pool_day", partition="2026-01-05", created_after=begun)
    assert (run.id, run.status, run.partition) == (run_id, "SUCCESS", "2026-01-05")
    [step] = run.steps
    assert (step.key, step.status) == ("raw_logs", "SUCCESS")
    assert step.started_at is not None
    assert step.ended_at is not None
    assert begun < step.started_at <= step.ended_at

    made = dagster.latest_materialization("raw_logs", partition="2026-01-05")
    assert made is not None
    assert made.run_id == run_id
    wanted = {"lines": 12, "share": 0.5, "clean": True, "note": "fine", "numbers": {"waiting": [1, 2]}}
    assert {key: made.metadata[key] for key in wanted} == wanted


def test_what_was_never_made_is_none(dagster: DagsterApi) -> None:
    assert dagster.latest_materialization("raw_logs", partition="2026-02-01") is None
    assert dagster.latest_materialization("unheard_of") is None


def test_a_sensor_is_started_and_says_why_it_skips(dagster: DagsterApi) -> None:
    dagster.start_sensor("new_segments")
    wait_until(lambda: dagster.sensor("new_segments").last_tick is not None)
    sensor = dagster.sensor("new_segments")
    assert sensor.is_running
    assert sensor.last_tick is not None
    assert (sensor.last_tick.status, sensor.last_tick.skip_reason) == ("SKIPPED", "412 of 1,000 lines")


def test_a_run_is_terminated(dagster: DagsterApi) -> None:
    run_id = dagster.launch("endless_job")
    wait_until(lambda: dagster.runs(job="endless_job")[0].status == "STARTED")
    dagster.terminate([run_id])
    wait_until(lambda: dagster.runs(job="endless_job", statuses=["CANCELED"]) != [])
    assert not dagster.runs(job="endless_job")[0].is_active


def test_a_backfill_runs_its_partitions(dagster: DagsterApi) -> None:
    backfill = dagster.backfill(["raw_logs"], ["2026-01-07"])
    wait_until(lambda: dagster.latest_materialization("raw_logs", partition="2026-01-07") is not None)
    assert dagster.backfill_status(backfill) in {"REQUESTED", "COMPLETED", "COMPLETED_SUCCESS"}


def test_what_does_not_exist_is_an_error_that_names_it(dagster: DagsterApi) -> None:
    with pytest.raises(ServiceAnswerError, match="start job unheard_of"):
        dagster.launch("unheard_of")
    with pytest.raises(ServiceAnswerError, match="find sensor unheard_of"):
        dagster.sensor("unheard_of")


def test_a_server_that_is_not_there_is_an_error_that_names_it() -> None:
    with DagsterApi("http://127.0.0.1:9") as nobody, pytest.raises(ServiceAnswerError, match=r"127\.0\.0\.1:9"):
        nobody.runs()
