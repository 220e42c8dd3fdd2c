"""SFT, GRPO and evaluation end to end, as the platform starts them: processes, job files, result files."""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flywheel.arbiter.agents.reference import ReferenceAgent
from flywheel.errors import TrainingError
from flywheel.records import encode
from flywheel.settings import Settings
from flywheel.tasks.catalog import load_source
from flywheel.tasks.source import BenchmarkTask, Split
from flywheel.training.evaluation import chosen_tasks
from flywheel.training.job import (
    MODEL_FOLDER,
    PROGRESS_FILE,
    EvaluatedModel,
    EvaluationJob,
    GrpoJob,
    Job,
    SftJob,
    read_result,
)
from flywheel.training.launch import environment, launch_command
from flywheel.training.pretrained import ensure_base_model
from tests.training.points import point_of


def run(job: Job) -> dict[str, Any]:
    job_file = job.write(job.output_dir / "job.json")
    log = job.output_dir / "log.txt"
    with log.open("wb") as output:
        status = subprocess.run(
            launch_command(job, job_file),
            env={**os.environ, **environment(job)},
            stdout=output,
            stderr=output,
            check=False,
        ).returncode
    assert status == 0, log.read_text()[-4000:]
    return read_result(job.output_dir)


def write_batch(folder: Path, settings: Settings) -> None:
    """Imperfect demonstrations, as the smoke profile's reference agent gives them, and other tasks for GRPO."""
    tasks = [task for task in load_source(settings).tasks() if task.split is Split.TRAIN]
    tasks.sort(key=lambda task: hashlib.blake2b(task.id.encode()).digest())
    spoiled = next(agent.error_rate for agent in settings.agents if agent.kind == "reference")
    sft, grpo = tasks[: settings.batch.max_sft_points], tasks[settings.batch.max_sft_points :]
    folder.mkdir()
    write_points(folder / "sft.jsonl", sft, error_rate=spoiled)
    write_points(folder / "grpo.jsonl", grpo[: settings.batch.max_grpo_points], error_rate=0.0)


def write_points(path: Path, tasks: list[BenchmarkTask], *, error_rate: float) -> None:
    answers = ReferenceAgent(error_rate=error_rate).answer(tasks)
    points = [point_of(task, answer.text) for task, answer in zip(tasks, answers, strict=True)]
    path.write_bytes(b"".join(encode(point) + b"\n" for point in points))


@pytest.mark.timeout(1500)
def test_grpo_repairs_what_imperfect_demonstrations_taught(tmp_path: Path) -> None:
    settings = Settings.load(profile="smoke", home=tmp_path / "home")
    batch_dir = tmp_path / "batch"
    write_batch(batch_dir, settings)
    base = ensure_base_model(settings)
    common: dict[str, Any] = {"tasks": settings.tasks, "model": settings.model, "trainer": settings.trainer}
    sft = SftJob(output_dir=tmp_path / "sft", model_dir=base, batch_dir=batch_dir, recipe=settings.sft, **common)
    sft_result = run(sft)
    sft_model, grpo_model = tmp_path / "sft" / MODEL_FOLDER, tmp_path / "grpo" / MODEL_FOLDER
    grpo = GrpoJob(
        output_dir=tmp_path / "grpo", model_dir=sft_model, batch_dir=batch_dir, recipe=settings.grpo, **common
    )
    grpo_result = run(grpo)
    models = {"base": base, "sft": sft_model, "grpo": grpo_model}
    evaluation = run(
        EvaluationJob(
            output_dir=tmp_path / "evaluation",
            models=tuple(EvaluatedModel(label=label, model_dir=folder) for label, folder in models.items()),
            recipe=settings.evaluation,
            **common,
        )
    )
    exact = {label: figures["greedy"]["exact"] for label, figures in evaluation["models"].items()}
    assert exact["base"] == 0
    assert exact["grpo"] > exact["sft"]
    assert exact["grpo"] > 0.8
    assert sft_result["tool_format_fraction"] > 0.8
    assert [entry["step"] for entry in grpo_result["history"]] == [*range(1, settings.grpo.max_steps + 1)]
    progress = json.loads((tmp_path / "grpo" / PROGRESS_FILE).read_text())
    assert (progress["stage"], progress["done"]) == ("grpo", progress["total"])
    gained = [row for row in evaluation["differences"] if row["to"] == "grpo" and row["figure"] == "reward"]
    assert all(row["low"] > 0 for row in gained)


def test_the_scratch_model_is_made_once(tmp_path: Path) -> None:
    settings = Settings.load(profile="smoke", home=tmp_path)
    folder = ensure_base_model(settings)
    made = (folder / "config.json").stat().st_mtime_ns
    assert ensure_base_model(settings) == folder
    assert (folder / "config.json").stat().st_mtime_ns == made
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_base_model_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_MODEL__BASE", "no-such-maker/no-such-model")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(TrainingError, match="'no-such-maker/no-such-model'"):
        ensure_base_model(Settings.load(profile="smoke", home=tmp_path))
    assert not any(path.suffix != "" for path in (tmp_path / "models").iterdir())


def test_evaluation_takes_the_splits_tasks_only_and_reports_other_categories_apart(tmp_path: Path) -> None:
    settings = Settings.load(profile="smoke")
    tasks = settings.tasks.model_copy(update={"training_categories": ("synthetic-add", "synthetic-convert")})
    job = EvaluationJob(
        output_dir=tmp_path,
        models=(),
        tasks=tasks,
        model=settings.model,
        trainer=settings.trainer,
        recipe=settings.evaluation,
    )
    trained, reported = chosen_tasks(load_source(settings).tasks(), job)
    assert {task.split for task in (*trained, *reported)} == {Split.HELDOUT}
    assert {task.category for task in trained} == {"synthetic-add", "synthetic-convert"}
    assert [task.category for task in reported] == ["synthetic-lookup"] * settings.evaluation.reported_tasks
