"""The verdict on a batch's model, and the model as candidate if it is better."""

from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import msgspec

from flywheel.arbiter.evaluation.rubrics.catalog import rubric_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.reports.candidate import CandidateReport, judge_candidate, markdown, plot
from flywheel.reports.rendering import png
from flywheel.training.job import ANSWERS_FILE, EvaluatedModel, EvaluationJob
from flywheel.training.pretrained import ensure_base_model
from pool_assets.partitions import checked_partition, training_batches
from pool_assets.presentation import markdown_image
from resources.benchmark_pool import BenchmarkPoolResource
from resources.experiment_tracker import ExperimentTracker
from resources.model_registry import ModelRegistry
from resources.trainer import Trainer
from training_assets.fitting import OWNERS, TRAINING_POOL, numbers
from training_assets.grpo_model import grpo_model

VERDICT = "verdict"


@dg.asset(
    group_name="training",
    kinds={"pytorch", "huggingface", "mlflow"},
    owners=OWNERS,
    partitions_def=training_batches,
    deps=[grpo_model],
    pool=TRAINING_POOL,
)
def deployment_candidate(
    context: dg.AssetExecutionContext,
    benchmark_pool: BenchmarkPoolResource,
    experiment_tracker: ExperimentTracker,
    model_registry: ModelRegistry,
    trainer: Trainer,
) -> dg.MaterializeResult[None]:
    """Base, champion, SFT and GRPO model answer the held-out tasks; the verdict, and the alias candidate if earned."""
    batch_id = context.partition_key
    version = model_registry.version_of(stage="grpo", training_batch=batch_id)
    with benchmark_pool.open() as pool:
        job = comparison(pool, model_registry, folder=trainer.fresh_folder(batch_id, "evaluation"), batch_id=batch_id)
        lineage = {**version.tags, "flywheel.version": version.version}
        with experiment_tracker.run(
            name=f"evaluation {batch_id}", stage="evaluation", training_batch=batch_id, tags=lineage
        ) as run:
            result = trainer.run(context, job, variables=experiment_tracker.environment(run))
            report = judge_candidate(result, job.output_dir / ANSWERS_FILE, recipe=pool.settings.evaluation)
            page = write_report(report, job.output_dir / "report", batch_id=batch_id, lineage=lineage)
            experiment_tracker.log_metrics(run, flat_figures(report))
            experiment_tracker.log_files(run, job.output_dir / "report", "report")
            experiment_tracker.log_files(run, job.output_dir / ANSWERS_FILE)
    if report.judgement.is_better:
        model_registry.set_candidate(version, verdict={"flywheel.verdict": report.judgement.reason})
    return dg.MaterializeResult(
        metadata={
            **numbers(result),
            VERDICT: dg.MetadataValue.json(
                {
                    "registered": report.judgement.is_better,
                    "reason": report.judgement.reason,
                    "version": int(version.version) if report.judgement.is_better else None,
                }
            ),
            "models": dg.MetadataValue.json(report.models),
            "differences": dg.MetadataValue.json(report.differences),
            "report": dg.MetadataValue.md(page),
            "accuracy": markdown_image(plot(report), alternative="exact answers to held-out tasks"),
            "report_url": dg.MetadataValue.url(f"{experiment_tracker.run_url(run)}/artifacts"),
        }
    )


@dg.asset_check(asset=deployment_candidate)
def better_than_baseline(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
    """The model beats the baseline by SPEC's rule. A warning: not being better is an outcome, not a fault."""
    partition = checked_partition(context)
    records = context.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey("deployment_candidate"), asset_partitions=[partition]), limit=1
    ).records
    materialization = records[0].asset_materialization
    assert materialization is not None
    verdict = materialization.metadata[VERDICT].value
    assert isinstance(verdict, Mapping)
    return dg.AssetCheckResult(
        passed=bool(verdict["registered"]),
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"reason": str(verdict["reason"])},
    )


def comparison(pool: BenchmarkPool, registry: ModelRegistry, *, folder: Path, batch_id: str) -> EvaluationJob:
    """The job in which the models of a batch and the one they started from answer the held-out tasks."""
    base = ensure_base_model(pool.settings)
    champion = registry.champion()
    serving = [EvaluatedModel(label="champion", model_dir=registry.folder_of(champion))] if champion else []
    trained = [
        EvaluatedModel(
            label=stage,
            model_dir=registry.folder_of(registry.version_of(stage=stage, training_batch=batch_id)),
            samples=pool.settings.evaluation.samples,
        )
        for stage in ("sft", "grpo")
    ]
    return EvaluationJob(
        output_dir=folder,
        tasks=pool.settings.tasks,
        model=pool.settings.model,
        trainer=pool.settings.trainer,
        rubric=rubric_of(pool.settings.rubrics),
        models=(
            EvaluatedModel(label="baseZeroShot", model_dir=base, prompt="zero-shot"),
            EvaluatedModel(label="baseFewShot", model_dir=base, prompt="few-shot"),
            *serving,
            *trained,
        ),
        recipe=pool.settings.evaluation,
    )


def write_report(report: CandidateReport, folder: Path, *, batch_id: str, lineage: Mapping[str, str]) -> str:
    """Write ``report.md``, ``accuracy.png`` and ``report.json``; the page's text."""
    folder.mkdir()
    page = markdown(report, batch_id=batch_id, lineage=lineage)
    (folder / "report.md").write_text(page, encoding="utf-8")
    (folder / "accuracy.png").write_bytes(png(plot(report)))
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return page


def flat_figures(report: CandidateReport) -> dict[str, float]:
    """Accuracy and reward of each model under one name each, for MLflow's charts."""
    return {
        f"heldout/{label}/{decoding}/{figure}": figures[decoding][figure]
        for label, figures in report.models.items()
        for decoding in ("greedy", "sampled")
        for figure in ("exact", "reward")
    }
