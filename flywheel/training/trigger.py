"""When training starts: a pure decision over what the pool holds and what runs."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

STAGES = ("training_batch", "sft_model", "grpo_model", "deployment_candidate")
"""The assets that a batch's training makes, in their order."""
SFT_STAGES = STAGES[:2]
"""Those of a batch for SFT alone: nothing is compared, as there is nothing to verify its answers by."""
MAX_ATTEMPTS = 3
MAX_GIVEN_UP = 2
"""After so many batches in a row that failed for good the cause is not in their points."""
RunState = Literal["active", "failed", "canceled", "succeeded"]


class OpenBatch(Struct, frozen=True, kw_only=True):
    """A batch without a verdict, with the states of its training runs, oldest first.

    ``released`` says whether it gave its points back; None where it was never made, so it holds none.
    ``last`` says that no batch that was made after it got a verdict.
    """

    id: str
    runs: tuple[RunState, ...]
    released: bool | None = False
    last: bool = True

    @property
    def failures(self) -> int:
        """How often its training failed."""
        return self.runs.count("failed")

    @property
    def given_up(self) -> bool:
        """Whether it is not tried again, as its runs failed too often. What a person canceled is that person's."""
        return "canceled" not in self.runs and "active" not in self.runs and self.failures >= MAX_ATTEMPTS


class StartBatch(Struct, frozen=True, kw_only=True):
    """Make a new batch and train on it."""

    batch_id: str


class ResumeBatch(Struct, frozen=True, kw_only=True):
    """Run the training of an existing batch again, because its last run ended without a verdict."""

    batch_id: str
    attempt: int


class ReleaseBatch(Struct, frozen=True, kw_only=True):
    """Give the points of a batch back, because its training is given up."""

    batch_id: str
    because: str


class Wait(Struct, frozen=True, kw_only=True):
    """Do nothing, for this reason."""

    reason: str


def next_training(
    *, missing: Callable[[], Sequence[str]], open_batches: Sequence[OpenBatch], batch_id: str
) -> StartBatch | ResumeBatch | ReleaseBatch | Wait:
    """Decide what to do now.

    A run that a person canceled is that person's decision: its batch is not tried again. A batch that failed
    ``MAX_ATTEMPTS`` times is given up: it gives its points back, once, and no longer stands in the way of the next. A
    batch that gave its points back is never tried again. After ``MAX_GIVEN_UP`` given up one after the other, a person
    has to look: the next one would be made of the same points and fail as they did.

    Args:
        missing: says what the pool lacks for a batch, in numbers; empty when it is ready. Asked only where it matters.
        open_batches: batches without a verdict, oldest first.
        batch_id: id of the batch to start, if one is started.
    """
    for batch in open_batches:
        if "active" in batch.runs:
            return Wait(reason=f"batch {batch.id} is being trained")
        if batch.given_up and batch.released is False:
            return ReleaseBatch(batch_id=batch.id, because=f"its training failed {batch.failures} times")
        if not batch.released and "canceled" not in batch.runs and batch.failures < MAX_ATTEMPTS:
            return ResumeBatch(batch_id=batch.id, attempt=batch.failures + 1)
    given_up = [batch.id for batch in open_batches if batch.given_up and batch.last]
    if len(given_up) >= MAX_GIVEN_UP:
        return Wait(
            reason=f"batches {', '.join(given_up)} failed {MAX_ATTEMPTS} times each and none was trained since; "
            f"look at their runs, mend the cause and start the services again"
        )
    lacking = missing()
    if lacking:
        return Wait(reason="; ".join(lacking))
    return StartBatch(batch_id=batch_id)
