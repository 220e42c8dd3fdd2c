"""Imported runs, whose answers no benchmark verifies, come through the pool into a batch for SFT alone and train it."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flywheel.collection.ingest import Request, ingest
from flywheel.collection.mapping import Mapping, RewardMapping
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.batches import Batch, export_batch, make_batch
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.readiness import lacking_now
from flywheel.pool.releases import without_grpo_among
from flywheel.pool.tiers import place_warm
from flywheel.pool.validation import validate_day
from flywheel.settings import PhaseThreshold, Settings
from flywheel.training.job import MODEL_FOLDER, SftJob
from flywheel.training.pretrained import ensure_base_model
from tests.pool.filling import DAY
from tests.pool.logs import NOON
from tests.training.test_smoke_training import run

LATER = NOON + timedelta(days=1)
WHOLE = PhaseThreshold(points=30, quality=0.8, max_age_days=90)
CALL = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"fare": 7}'}}


def conversation(number: int) -> dict[str, Any]:
    """A run with a tool; every third one is longer than the recipe allows, and the last one ends without an answer."""
    said: list[dict[str, Any]] = [{"role": "system", "content": "Help."}, {"role": "user", "content": f"May {number}?"}]
    said += [{"role": "assistant", "content": None, "tool_calls": [CALL]}]
    said += [{"role": "tool", "tool_call_id": "1", "content": "the fare allows it " * (200 if number % 3 == 0 else 1)}]
    said += [{"role": "assistant", "content": "One moment."}, {"role": "user", "content": "And?"}]
    answer = [{"role": "assistant", "content": f"Yes, {number} may."}] if number else []
    return {"messages": said + answer, "timestamp": NOON.isoformat(), "model": "m"}


@pytest.fixture
def pool(settings: Settings, tmp_path: Path) -> BenchmarkPool:
    """A pool that holds a day of imported runs."""
    batch = settings.batch.model_copy(update={"sft_only": True, "sft": WHOLE})
    opened = BenchmarkPool.open(settings.model_copy(update={"batch": batch}))
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(conversation(number)) + "\n" for number in range(31)))
    curated = Request(tenant_id="acme", mapping=Mapping(reward=RewardMapping(constant=1.0)))
    assert ingest([str(file)], opened.settings.segments_dir, curated).points == 31
    index_segments(opened, now=LATER)
    validate_day(opened, DAY, now=LATER)
    anonymize_day(opened, DAY)
    find_violations(opened, DAY)
    place_warm(opened, DAY, now=LATER)
    return opened


def trained(pool: BenchmarkPool, batch: Batch, folder: Path) -> tuple[SftJob, dict[str, Any]]:
    """The job that the asset would start for a batch, cut short, and its result."""
    settings = pool.settings
    job = SftJob(
        output_dir=folder,
        batch_dir=export_batch(pool, batch.id, folder / "batch"),
        tasks=settings.tasks,
        model=settings.model,
        trainer=settings.trainer,
        model_dir=ensure_base_model(settings),
        recipe=settings.sft.model_copy(update={"max_steps": 2, "max_length": 200}),
    )
    return job, run(job)


@pytest.mark.timeout(600)
def test_imported_runs_train_a_model_by_sft_alone(pool: BenchmarkPool, tmp_path: Path) -> None:
    assert lacking_now(pool, now=LATER) == ()
    batch = make_batch(pool, "b1", now=LATER)
    assert (batch.points, batch.quality["grpo"]) == ({"sft": 30, "grpo": 0}, {})
    assert without_grpo_among(pool, ["b1", "b2"]) == {"b1"}
    job, result = trained(pool, batch, tmp_path / "sft")
    assert (result["points"], result["too_long"], result["steps"]) == (30, 0, 2)
    assert all(0 < entry["loss"] < 100 for entry in result["history"])
    assert (job.output_dir / MODEL_FOLDER / "config.json").exists()


def test_without_the_setting_such_points_take_part_in_no_batch(pool: BenchmarkPool) -> None:
    usual = pool.settings.model_copy(update={"batch": pool.settings.batch.model_copy(update={"sft_only": False})})
    lacking = lacking_now(BenchmarkPool.open(usual), now=LATER)
    assert lacking[0] == "0 of 30 new points with quality ≥ 0.8 for SFT"
