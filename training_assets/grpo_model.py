"""The fine-tuned model after reinforcement learning."""

import dagster as dg

from flywheel.training.job import GrpoJob
from pool_assets.partitions import training_batches
from resources.benchmark_pool import BenchmarkPoolResource
from resources.experiment_tracker import ExperimentTracker
from resources.model_registry import ModelRegistry
from resources.trainer import Trainer
from training_assets.fitting import OWNERS, TRAINING_POOL, fit
from training_assets.sft_model import sft_model


@dg.asset(
    group_name="training",
    kinds={"pytorch", "huggingface", "mlflow"},
    owners=OWNERS,
    partitions_def=training_batches,
    deps=[sft_model],
    pool=TRAINING_POOL,
)
def grpo_model(
    context: dg.AssetExecutionContext,
    benchmark_pool: BenchmarkPoolResource,
    experiment_tracker: ExperimentTracker,
    model_registry: ModelRegistry,
    trainer: Trainer,
) -> dg.MaterializeResult[None]:
    """The SFT model, rewarded by the rubric on tasks it has not seen (TRL, group relative policy optimization)."""
    start = model_registry.version_of(stage="sft", training_batch=context.partition_key)
    with benchmark_pool.open() as pool:
        return fit(
            context,
            pool,
            experiment_tracker,
            model_registry,
            trainer,
            stage="grpo",
            parent=f"version {start.version}",
            job_for=lambda common: GrpoJob(
                **common,
                model_dir=model_registry.folder_of(start),
                recipe=pool.settings.grpo,
                judges=pool.settings.judges,
            ),
        )
