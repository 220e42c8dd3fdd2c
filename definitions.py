"""Everything Dagster knows about, as a table of contents."""

import dagster as dg

from flywheel.settings import Settings
from pool_assets.agent_reports import agent_reports
from pool_assets.agent_statistics import agent_statistics
from pool_assets.anonymized_data_points import anonymized_data_points, no_pii_left
from pool_assets.cold_tier import cold_tier
from pool_assets.health_checks import health_checks
from pool_assets.hot_tier import hot_tier
from pool_assets.raw_logs import raw_logs
from pool_assets.retention import pool_retention
from pool_assets.validated_data_points import (
    day_meets_expectations,
    mostly_clean,
    nothing_lost,
    rows_match_schema,
    validated_data_points,
)
from pool_assets.warm_tier import warm_tier
from resources.benchmark_pool import BenchmarkPoolResource
from resources.experiment_tracker import ExperimentTracker
from resources.model_registry import ModelRegistry
from resources.trainer import Trainer
from sensors.candidate_approved import candidate_approved
from sensors.collection_degraded import collection_degraded
from sensors.new_segments import new_segments
from sensors.points_expired import points_expired
from sensors.run_interrupted import run_interrupted
from sensors.training_batch_ready import training_batch_ready
from training_assets.deployment_candidate import better_than_baseline, deployment_candidate
from training_assets.grpo_model import grpo_model
from training_assets.sft_model import sft_model
from training_assets.training_batch import batch_is_disjoint, no_held_out_task, training_batch

pool_day = dg.define_asset_job(
    "pool_day",
    selection=dg.AssetSelection.groups("pool"),
    executor_def=dg.in_process_executor,
    description="One day, from raw logs to tiers and statistics. Running it again replaces the day.",
)
training = dg.define_asset_job(
    "training",
    selection=dg.AssetSelection.groups("training"),
    executor_def=dg.multiprocess_executor.configured({"max_concurrent": 1}),
    description="One batch, from the pool to a candidate or to the reason why there is none.",
)

settings = Settings.load()
tracking_uri = dg.EnvVar("MLFLOW_TRACKING_URI")

defs = dg.Definitions(
    assets=[
        raw_logs,
        validated_data_points,
        anonymized_data_points,
        hot_tier,
        warm_tier,
        cold_tier,
        agent_statistics,
        agent_reports,
        training_batch,
        sft_model,
        grpo_model,
        deployment_candidate,
    ],
    asset_checks=[
        nothing_lost,
        rows_match_schema,
        mostly_clean,
        day_meets_expectations,
        no_pii_left,
        health_checks,
        batch_is_disjoint,
        no_held_out_task,
        better_than_baseline,
    ],
    jobs=[pool_day, training, pool_retention],
    sensors=[
        new_segments,
        points_expired,
        collection_degraded,
        training_batch_ready,
        candidate_approved,
        run_interrupted,
    ],
    resources={
        "benchmark_pool": BenchmarkPoolResource(),
        "experiment_tracker": ExperimentTracker(tracking_uri=tracking_uri),
        "model_registry": ModelRegistry(tracking_uri=tracking_uri, cache_dir=str(settings.models_dir)),
        "trainer": Trainer(work_dir=str(settings.home / "training")),
    },
)
