"""When training starts: a pure decision over what the pool holds and what runs."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

STAGES = ("training_batch", "sft_model", "grpo_model", "deployment_candidate")
"""The assets that a batch's training makes, in their order."""
MAX_ATTEMPTS = 3
RunState = Literal["active", "failed", "canceled", "succeeded"]


class OpenBatch(Struct, frozen=True, kw_only=True):
    """A batch without a verdict, with the states of its training runs, oldest first."""

    id: str
    runs: tuple[RunState, ...]


class StartBatch(Struct, frozen=True, kw_only=True):
    """Make a new batch and train on it."""

    batch_id: str


class ResumeBatch(Struct, frozen=True, kw_only=True):
    """Run the training of an existing batch again, because its last run ended without a verdict."""

    batch_id: str
    attempt: int


class Wait(Struct, frozen=True, kw_only=True):
    """Do nothing, for this reason."""

    reason: str


def next_training(
    *, missing: Callable[[], Sequence[str]], open_batches: Sequence[OpenBatch], batch_id: str
) -> StartBatch | ResumeBatch | Wait:
    """Decide what to do now.

    A run that a person canceled is that person's decision: its batch is not tried again. A batch that failed
    ``MAX_ATTEMPTS`` times is given up and no longer stands in the way of the next.

    Args:
        missing: says what the pool lacks for a batch, in numbers; empty when it is ready. Asked only where it matters.
        open_batches: batches without a verdict, oldest first.
        batch_id: id of the batch to start, if one is started.
    """
    for batch in open_batches:
        if "active" in batch.runs:
            return Wait(reason=f"batch {batch.id} is being trained")
        failures = batch.runs.count("failed")
        if "canceled" not in batch.runs and failures < MAX_ATTEMPTS:
            return ResumeBatch(batch_id=batch.id, attempt=failures + 1)
    lacking = missing()
    if lacking:
        return Wait(reason="; ".join(lacking))
    return StartBatch(batch_id=batch_id)
