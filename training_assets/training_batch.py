"""The immutable set of points that one lineage of models is trained on."""

import dagster as dg

from flywheel.pool.batches import batch_overlap, make_batch
from flywheel.pool.schemas import BATCH_COLUMNS
from flywheel.pool.splits import leaked_tasks
from pool_assets.partitions import checked_partition, training_batches
from pool_assets.presentation import OWNERS, bar_chart, column_schema, figures
from pool_assets.warm_tier import warm_tier
from resources.benchmark_pool import BenchmarkPoolResource


@dg.asset(
    group_name="training",
    kinds={"python", "postgres"},
    owners=OWNERS,
    partitions_def=training_batches,
    deps=[dg.AssetDep(warm_tier, partition_mapping=dg.AllPartitionMapping())],
    metadata={"dagster/column_schema": column_schema(BATCH_COLUMNS)},
)
def training_batch(
    context: dg.AssetExecutionContext, benchmark_pool: BenchmarkPoolResource
) -> dg.MaterializeResult[None]:
    """Points chosen for SFT and for GRPO: by criteria, stratified, recent first, no task in two phases.

    Made once: materializing it again returns the same batch, whatever the pool holds by then.
    """
    with benchmark_pool.open() as pool:
        batch = make_batch(pool, context.partition_key, now=pool.now())
    return dg.MaterializeResult(
        metadata={
            **figures(batch),
            "dagster/row_count": batch.size,
            "task_types": bar_chart(batch.task_types, title="points by task type"),
        },
        data_version=dg.DataVersion(batch.digest),
    )


@dg.asset_check(asset=training_batch, blocking=True)
def batch_is_disjoint(
    context: dg.AssetCheckExecutionContext, benchmark_pool: BenchmarkPoolResource
) -> dg.AssetCheckResult:
    """No task is in two phases of the batch."""
    with benchmark_pool.open() as pool:
        shared = batch_overlap(pool, checked_partition(context))
    return dg.AssetCheckResult(passed=not shared, metadata={"shared_tasks": len(shared)})


@dg.asset_check(asset=training_batch, blocking=True)
def no_held_out_task(
    context: dg.AssetCheckExecutionContext, benchmark_pool: BenchmarkPoolResource
) -> dg.AssetCheckResult:
    """No task of the batch was held out by an earlier export, or is kept from training by its benchmark."""
    with benchmark_pool.open() as pool:
        leaked = leaked_tasks(pool, checked_partition(context))
    return dg.AssetCheckResult(passed=not leaked, metadata={"held_out_tasks": len(leaked)})
