"""The sensor that starts training, with a real instance and a real pool."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from flywheel.pool.batches import batch_members, list_batches, make_batch
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.releases import release_batch
from flywheel.settings import Settings
from resources.benchmark_pool import BenchmarkPoolResource
from sensors.training_batch_ready import open_batches, remaining, training_batch_ready
from tests.pool.filling import LATER, fill, some_tasks


@dg.job
def idle() -> None:
    """Does nothing."""


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def pool(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BenchmarkPool]:
    """A pool with a batch b1, found by the environment as the sensor finds it."""
    variables = {"PROFILE": "smoke", "HOME": str(tmp_path / "home"), "DATABASE_URL": database_url}
    phases = {"SFT__POINTS": "5", "SFT__TASK_TYPES": "1", "GRPO__POINTS": "5", "GRPO__TASK_TYPES": "1"}
    for name, value in {**variables, **{f"BATCH__{name}": value for name, value in phases.items()}}.items():
        monkeypatch.setenv(f"FLYWHEEL_{name}", value)
    monkeypatch.setenv("FLYWHEEL_BATCH__MAX_SFT_POINTS", "8")
    with BenchmarkPool.open(Settings.load()) as opened:
        fill(opened, "a", some_tasks(16))
        make_batch(opened, "b1", now=LATER)
        yield opened


def give_up(instance: dg.DagsterInstance, batch: str) -> None:
    instance.add_dynamic_partitions("training_batches", [batch])
    for _ in range(3):
        instance.create_run_for_job(idle, status=dg.DagsterRunStatus.FAILURE, tags={"dagster/partition": batch})


def tick(instance: dg.DagsterInstance) -> str:
    """What the sensor says when it starts nothing."""
    context = dg.build_sensor_context(instance=instance)
    result = training_batch_ready(context, benchmark_pool=BenchmarkPoolResource())
    assert isinstance(result, dg.SkipReason)
    return result.skip_message or ""


def test_a_batch_that_is_given_up_is_released_once_and_the_tick_says_so(
    instance: dg.DagsterInstance, pool: BenchmarkPool
) -> None:
    give_up(instance, "b1")
    points = len(batch_members(pool, "b1"))
    assert tick(instance) == (
        f"batch b1 is given up, its training failed 3 times: its {points} points may be chosen again"
    )
    (batch,) = list_batches(pool)
    assert batch.released_because == "its training failed 3 times"
    assert "b1" not in tick(instance)
    assert list_batches(pool) == (batch,)


def test_a_batch_that_failed_twice_keeps_its_points(instance: dg.DagsterInstance, pool: BenchmarkPool) -> None:
    instance.add_dynamic_partitions("training_batches", ["b1"])
    for status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED):
        instance.create_run_for_job(idle, status=status, tags={"dagster/partition": "b1"})
    assert tick(instance) == "batch b1 is being trained"
    (batch,) = list_batches(pool)
    assert batch.released_at is None


def test_a_verdict_of_an_older_batch_with_a_later_name_does_not_lift_the_brake(
    instance: dg.DagsterInstance, pool: BenchmarkPool
) -> None:
    with pool.transaction() as connection:
        for number, batch in enumerate(("my-test", "batch-1", "batch-2")):
            connection.execute(
                "INSERT INTO batches SELECT %s, digest, created_at + %s * interval '1 h', first_at, last_at, criteria,"
                " distribution, quality, now(), 'a test' FROM batches WHERE id = 'b1'",
                (batch, number + 1),
            )
    for batch in ("b1", "batch-1", "batch-2"):
        give_up(instance, batch)
    release_batch(pool, "b1", because="a test", now=LATER, force=True)
    instance.add_dynamic_partitions("training_batches", ["my-test"])
    instance.report_runless_asset_event(dg.AssetMaterialization("deployment_candidate", partition="my-test"))
    assert [(batch.id, batch.last) for batch in open_batches(instance, pool)] == [
        ("b1", False),
        ("batch-1", True),
        ("batch-2", True),
    ]
    assert tick(instance).startswith("batches batch-1, batch-2 failed 3 times each")


def test_the_training_of_a_batch_for_sft_alone_ends_with_its_model(
    instance: dg.DagsterInstance, pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_BATCH__SFT_ONLY", "true")
    with BenchmarkPool.open(Settings.load()) as alone:
        release_batch(alone, "b1", because="made for both", now=LATER, force=True)
        make_batch(alone, "b2", now=LATER)
    monkeypatch.delenv("FLYWHEEL_BATCH__SFT_ONLY")  # what the batch was made for stays
    instance.add_dynamic_partitions("training_batches", ["b2"])
    result = training_batch_ready(dg.build_sensor_context(instance=instance), benchmark_pool=BenchmarkPoolResource())
    assert isinstance(result, dg.SensorResult)
    assert result.run_requests is not None
    assert [key.path[0] for key in result.run_requests[0].asset_selection or ()] == ["training_batch", "sft_model"]
    for name in ("training_batch", "sft_model"):
        instance.report_runless_asset_event(dg.AssetMaterialization(name, partition="b2"))
    assert open_batches(instance, pool) == []
    assert remaining(instance, "b2", sft_only=True) == [dg.AssetKey("training_batch")]
