"""What SFT and GRPO have in common as assets: a run, a job, a registered version with its lineage."""

import json
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from subprocess import run as run_command
from typing import Any

import dagster as dg

from flywheel.arbiter.evaluation.rubrics.catalog import rubric_of
from flywheel.pool.batches import export_batch
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from flywheel.training.job import MODEL_FOLDER, Job
from pool_assets.presentation import markdown_image
from resources.experiment_tracker import ExperimentTracker
from resources.model_registry import MODEL_ARTIFACT, ModelRegistry
from resources.trainer import JOB_FILE, Trainer

OWNERS = ["team:ml"]
TRAINING_POOL = "training"
PLOTTED = {"sft": "loss", "grpo": "reward"}


def fit(
    context: dg.AssetExecutionContext,
    pool: BenchmarkPool,
    tracker: ExperimentTracker,
    registry: ModelRegistry,
    trainer: Trainer,
    *,
    stage: str,
    parent: str,
    job_for: Callable[[dict[str, Any]], Job],
) -> dg.MaterializeResult[None]:
    """Train one stage of a batch and register what comes out.

    Args:
        context: the step; its partition is the batch.
        pool: where the batch's points come from.
        tracker: gets parameters, metrics per step, the manifest and the model.
        registry: gets a version with lineage tags.
        trainer: runs the job.
        stage: ``sft`` or ``grpo``.
        parent: what the model starts from, for the lineage.
        job_for: makes the job from the fields that both stages share.
    """
    batch_id = context.partition_key
    folder = trainer.fresh_folder(batch_id, stage)
    batch_dir = export_batch(pool, batch_id, folder / "batch")
    settings = pool.settings
    job = job_for(
        {
            "output_dir": folder,
            "batch_dir": batch_dir,
            "tasks": settings.tasks,
            "model": settings.model,
            "trainer": settings.trainer,
            "rubric": rubric_of(settings.rubrics),
        }
    )
    lineage = lineage_of(settings, batch_dir, parent=parent)
    with tracker.run(name=f"{stage} {batch_id}", stage=stage, training_batch=batch_id, tags=lineage) as run:
        result = trainer.run(context, job, variables=tracker.environment(run))
        tracker.log_metrics(run, {f"final/{name}": value for name, value in numbers(result).items()})
        tracker.log_files(run, batch_dir / "manifest.json")
        tracker.log_files(run, folder / JOB_FILE)
        tracker.log_files(run, folder / MODEL_FOLDER, MODEL_ARTIFACT)
        registered = registry.register(run, stage=stage, training_batch=batch_id, tags=lineage)
    shutil.rmtree(folder / MODEL_FOLDER)  # the registry has it now
    return dg.MaterializeResult(
        metadata={
            **numbers(result),
            "version": int(registered.version),
            "starts_from": parent,
            "batch_digest": lineage["flywheel.batch_digest"],
            "mlflow_run": dg.MetadataValue.url(tracker.run_url(run)),
            PLOTTED[stage]: curve(result["history"], PLOTTED[stage]),
        }
    )


def lineage_of(settings: Settings, batch_dir: Path, *, parent: str) -> dict[str, str]:
    """What a model came from, as tags of its run and its version."""
    return {
        "flywheel.batch_digest": batch_digest(batch_dir),
        "flywheel.parent": parent,
        "flywheel.code_version": code_version(),
        "flywheel.profile": settings.profile,
        "flywheel.base_model": settings.model.base,
        "flywheel.rubric": rubric_of(settings.rubrics).name,
    }


def numbers(result: dict[str, Any]) -> dict[str, float]:
    """The plain figures of a job's result."""
    return {name: float(value) for name, value in result.items() if isinstance(value, int | float)}


def curve(history: Sequence[dict[str, float]], name: str) -> dg.MarkdownMetadataValue:
    """A figure over the training steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.add_subplot()
    steps = [entry for entry in history if name in entry]
    axes.plot([entry["step"] for entry in steps], [entry[name] for entry in steps], color="#4f43dd")
    axes.set(xlabel="step", ylabel=name)
    axes.spines[["top", "right"]].set_visible(False)
    return markdown_image(figure, alternative=f"{name} per step")


def batch_digest(batch_dir: Path) -> str:
    """The digest that the batch's manifest holds."""
    return str(json.loads((batch_dir / "manifest.json").read_text(encoding="utf-8"))["digest"])


@cache
def code_version() -> str:
    """The commit of this checkout, marked when it has changes; the package's version outside a checkout."""
    released = version("arbiter-flywheel")
    if not (Path(__file__).parents[1] / ".git").exists():
        return released
    try:
        described = run_command(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:  # a machine without git
        return released
    return described.stdout.strip() or released
