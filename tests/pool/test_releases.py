"""A batch gives its points back."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from msgspec import structs

from flywheel.errors import PoolError, SpentBatchError
from flywheel.pool.batches import batch_members, check_kept, export_batch, get_batch, list_batches, make_batch
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.releases import release_batch, released_among
from flywheel.settings import BatchSettings, PhaseThreshold, Settings
from tests.pool.filling import LATER, fill, some_tasks

ROW = PhaseThreshold(points=5, quality=0.5, max_age_days=90)


@pytest.fixture
def pool(settings: Settings) -> BenchmarkPool:
    small = BatchSettings(sft=ROW, grpo=ROW.model_copy(update={"points": 4}), max_sft_points=8, max_grpo_points=8)
    opened = BenchmarkPool.open(settings.model_copy(update={"batch": small}))
    fill(opened, "a", some_tasks(16))
    make_batch(opened, "b1", now=LATER)
    return opened


def test_released_points_may_be_chosen_again_and_the_ledger_keeps_whose_they_were(pool: BenchmarkPool) -> None:
    with pytest.raises(PoolError, match="b2 cannot be made yet"):
        make_batch(pool, "b2", now=LATER)
    before = batch_members(pool, "b1")
    release_batch(pool, "b1", because="out of memory", now=LATER, force=True)
    make_batch(pool, "b2", now=LATER)
    assert batch_members(pool, "b1") == before
    assert {m.point_id for m in batch_members(pool, "b2")} == {m.point_id for m in before}


def test_a_second_release_changes_nothing(pool: BenchmarkPool) -> None:
    first = release_batch(pool, "b1", because="out of memory", now=LATER, force=True)
    make_batch(pool, "b2", now=LATER)
    assert release_batch(pool, "b1", because="another reason", now=LATER) == first
    assert released_among(pool, ["b1", "b2", "b3"]) == {"b1": True, "b2": False}
    assert [(batch.id, batch.released_because) for batch in list_batches(pool)] == [
        ("b1", "out of memory"),
        ("b2", None),
    ]


def test_when_it_was_released_is_told_in_utc_wherever_the_database_is(pool: BenchmarkPool) -> None:
    there = datetime(2026, 3, 3, 21, tzinfo=timezone(timedelta(hours=9)))
    batch = structs.replace(get_batch(pool, "b1"), released_at=there, released_because="a test")
    with pytest.raises(SpentBatchError, match="on 2026-03-03 12:00 UTC"):
        check_kept(batch)


def test_a_released_batch_is_not_trained_on_again(pool: BenchmarkPool, tmp_path: Path) -> None:
    release_batch(pool, "b1", because="out of memory", now=LATER, force=True)
    with pytest.raises(PoolError, match=r"batch b1 gave its points back on 2026-03-03 12:00 UTC \(out of memory\)"):
        make_batch(pool, "b1", now=LATER)
    with pytest.raises(PoolError, match="make a new one with another id"):
        export_batch(pool, "b1", tmp_path)


def test_a_training_batch_is_released_only_by_force(pool: BenchmarkPool) -> None:
    with pytest.raises(PoolError, match=r"b1 is a training batch: .* say --force"):
        release_batch(pool, "b1", because="a test", now=LATER)
    assert released_among(pool, ["b1"]) == {"b1": False}


def test_a_release_needs_a_batch_and_a_reason(pool: BenchmarkPool) -> None:
    with pytest.raises(PoolError, match="there is no batch b9"):
        release_batch(pool, "b9", because="a test", now=LATER, force=True)
    with pytest.raises(PoolError, match="say why"):
        release_batch(pool, "b1", because=" ", now=LATER)
    assert released_among(pool, ["b1"]) == {"b1": False}
