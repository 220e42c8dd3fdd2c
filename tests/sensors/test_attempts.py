"""What sensors see of earlier runs, in a real instance."""

import time
from collections.abc import Iterator

import dagster as dg
import pytest

from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from sensors.attempts import STARTED_AT, run_states
from sensors.run_interrupted import run_interrupted
from sensors.training_batch_ready import open_batches, remaining


@dg.op
def nothing() -> None:
    """Does nothing."""


@dg.job
def idle() -> None:
    nothing()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def pool(settings: Settings) -> Iterator[BenchmarkPool]:
    with BenchmarkPool.open(settings) as opened:
        yield opened


def make_run(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, *, partition: str = "b1") -> dg.DagsterRun:
    return instance.create_run_for_job(idle, status=status, tags={"dagster/partition": partition})


def test_runs_of_a_partition_count_whoever_started_them(instance: dg.DagsterInstance) -> None:
    make_run(instance, dg.DagsterRunStatus.FAILURE)
    make_run(instance, dg.DagsterRunStatus.STARTED)
    make_run(instance, dg.DagsterRunStatus.STARTED, partition="b2")
    assert run_states(instance, "b1") == ("failed", "active")


def test_failures_before_the_services_started_are_forgiven(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(instance, dg.DagsterRunStatus.FAILURE)
    monkeypatch.setenv(STARTED_AT, str(time.time() + 1))
    assert run_states(instance, "b1") == ()


def test_a_batch_without_a_verdict_is_open(instance: dg.DagsterInstance, pool: BenchmarkPool) -> None:
    instance.add_dynamic_partitions("training_batches", ["b1", "b2"])
    instance.report_runless_asset_event(dg.AssetMaterialization("deployment_candidate", partition="b1"))
    make_run(instance, dg.DagsterRunStatus.FAILURE, partition="b2")
    (batch,) = open_batches(instance, pool)
    assert (batch.id, batch.runs, batch.released, batch.last) == ("b2", ("failed",), None, True)


def test_a_batch_goes_on_where_it_was_cut_off(instance: dg.DagsterInstance) -> None:
    for batch, done in {"b1": ("training_batch", "sft_model"), "b2": ("training_batch",)}.items():
        for name in done:
            instance.report_runless_asset_event(dg.AssetMaterialization(name, partition=batch))
    assert [key.to_user_string() for key in remaining(instance, "b1")] == [
        "training_batch",  # for the sake of its blocking check
        "grpo_model",
        "deployment_candidate",
    ]
    assert len(remaining(instance, "b2")) == 4
    assert len(remaining(instance, "b3")) == 4


def test_a_run_that_died_with_the_services_is_marked_as_failed(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = make_run(instance, dg.DagsterRunStatus.STARTED)
    monkeypatch.setenv(STARTED_AT, str(time.time() + 1))
    run_interrupted(dg.build_sensor_context(instance=instance))
    found = instance.get_run_by_id(dead.run_id)
    assert found is not None
    assert found.status is dg.DagsterRunStatus.FAILURE


def test_a_run_of_these_services_is_left_alone(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STARTED_AT, str(time.time() - 60))
    alive = make_run(instance, dg.DagsterRunStatus.STARTED)
    run_interrupted(dg.build_sensor_context(instance=instance))
    found = instance.get_run_by_id(alive.run_id)
    assert found is not None
    assert found.status is dg.DagsterRunStatus.STARTED
