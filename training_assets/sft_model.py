"""The pretrained model after supervised fine-tuning."""

import dagster as dg

from flywheel.training.job import SftJob
from flywheel.training.pretrained import ensure_base_model
from pool_assets.partitions import training_batches
from resources.benchmark_pool import BenchmarkPoolResource
from resources.experiment_tracker import ExperimentTracker
from resources.model_registry import ModelRegistry
from resources.trainer import Trainer
from training_assets.fitting import OWNERS, TRAINING_POOL, fit
from training_assets.training_batch import training_batch


@dg.asset(
    group_name="training",
    kinds={"pytorch", "huggingface", "mlflow"},
    owners=OWNERS,
    partitions_def=training_batches,
    deps=[training_batch],
    pool=TRAINING_POOL,
)
def sft_model(
    context: dg.AssetExecutionContext,
    benchmark_pool: BenchmarkPoolResource,
    experiment_tracker: ExperimentTracker,
    model_registry: ModelRegistry,
    trainer: Trainer,
) -> dg.MaterializeResult[None]:
    """The pretrained model, taught the form of good answers by the batch's successful tasks (TRL, completion only)."""
    with benchmark_pool.open() as pool:
        return fit(
            context,
            pool,
            experiment_tracker,
            model_registry,
            trainer,
            stage="sft",
            parent="pretrained",
            job_for=lambda common: SftJob(
                **common, model_dir=ensure_base_model(pool.settings), recipe=pool.settings.sft
            ),
        )
