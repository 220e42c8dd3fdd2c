"""Training starts by itself when the pool holds enough; otherwise the tick says in numbers what is missing."""

from datetime import UTC, datetime

import dagster as dg

from flywheel.pool.halts import halted_because, open_halts
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.readiness import lacking_now
from flywheel.pool.releases import made_among, release_batch, released_among, without_grpo_among
from flywheel.training.trigger import SFT_STAGES, STAGES, OpenBatch, ReleaseBatch, ResumeBatch, Wait, next_training
from pool_assets.partitions import TRAINING_BATCHES, training_batches
from resources.benchmark_pool import BenchmarkPoolResource
from sensors.attempts import first_run_at, run_states, started_at

BATCH_KEY = dg.AssetKey("training_batch")


@dg.sensor(
    job_name="training",
    minimum_interval_seconds=10,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts training when the pool meets the active profile's thresholds; says what is missing if not.",
)
def training_batch_ready(
    context: dg.SensorEvaluationContext, benchmark_pool: BenchmarkPoolResource
) -> dg.SensorResult | dg.SkipReason:
    """Request a run for a new batch, or again for one whose run broke off; release one that is given up.

    Nothing starts while the pool is halted.
    """
    with benchmark_pool.open() as pool:
        now = pool.now()
        halted = halted_because(open_halts(pool))
        if halted:
            return dg.SkipReason(f"no training starts: {halted}")
        decision = next_training(
            missing=lambda: lacking_now(pool, now=now),
            open_batches=open_batches(context.instance, pool),
            batch_id=f"batch-{now:%Y%m%d-%H%M%S}",
        )
        made = made_among(pool, [decision.batch_id]) if isinstance(decision, ResumeBatch) else {}
        sft_only = pool.settings.batch.sft_only
        if made:  # settings may be others by now; what a batch was made for stays
            sft_only = bool(without_grpo_among(pool, made))
        if isinstance(decision, ReleaseBatch):
            batch = release_batch(pool, decision.batch_id, because=decision.because, now=now, force=True)
            return dg.SkipReason(
                f"batch {batch.id} is given up, {decision.because}: its {batch.size:,} points may be chosen again"
            )
    if isinstance(decision, Wait):
        return dg.SkipReason(decision.reason)
    attempt = decision.attempt if isinstance(decision, ResumeBatch) else 1
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(
                run_key=f"{decision.batch_id}#{attempt}@{started_at():.0f}",
                partition_key=decision.batch_id,
                asset_selection=remaining(context.instance, decision.batch_id, sft_only=sft_only),
            )
        ],
        dynamic_partitions_requests=[training_batches.build_add_request([decision.batch_id])],
    )


def remaining(instance: dg.DagsterInstance, batch_id: str, *, sft_only: bool = False) -> list[dg.AssetKey]:
    """What of a batch's training is not there yet: a run that goes on trains nothing twice.

    The batch itself is always part of it: making it again gives the same one, and its blocking check runs with it.
    """
    keys = [dg.AssetKey(name) for name in (SFT_STAGES if sft_only else STAGES)]
    return [key for key in keys if key == BATCH_KEY or batch_id not in instance.get_materialized_partitions(key)]


def open_batches(instance: dg.DagsterInstance, pool: BenchmarkPool) -> list[OpenBatch]:
    """Batches without a verdict, oldest first, with their runs' states."""
    tuned = instance.get_materialized_partitions(dg.AssetKey(SFT_STAGES[-1]))
    judged = instance.get_materialized_partitions(dg.AssetKey(STAGES[-1])) | without_grpo_among(pool, tuned)
    keys = [key for key in instance.get_dynamic_partitions(TRAINING_BATCHES) if key not in judged]
    made, released = made_among(pool, {*keys, *judged}), released_among(pool, keys)
    since = {key: made.get(key) or first_run_at(instance, key) for key in keys}
    last_verdict = max((at for key, at in made.items() if key in judged), default=datetime.min.replace(tzinfo=UTC))
    return [
        OpenBatch(id=key, runs=run_states(instance, key), released=released.get(key), last=since[key] > last_verdict)
        for key in sorted(keys, key=lambda key: (since[key], key))
    ]
