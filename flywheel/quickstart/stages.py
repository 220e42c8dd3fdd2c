"""What the quick start does next: a pure function of what is already there, so that it can be killed anywhere."""

from enum import StrEnum

from msgspec import Struct


class Stage(StrEnum):
    """The stages that the loop may still need, in order."""

    BASE_MODEL = "base model"
    TASKS_BEFORE = "tasks before"
    POOL_BEFORE = "pool before"
    TRAINING = "training"
    APPROVAL = "approval"
    TASKS_AFTER = "tasks after"
    POOL_AFTER = "pool after"
    DONE = "done"


class Verdict(Struct, frozen=True, kw_only=True):
    """What ``deployment_candidate`` decided. ``version`` is the registry's, where one was registered as candidate."""

    registered: bool
    reason: str
    version: int | None = None


class Observation(Struct, frozen=True, kw_only=True):
    """What is there, asked of the folder of models, the database, Dagster and MLflow.

    ``pool_is_current`` says that every log line that was written is accounted for in the pool, ``was_champion`` that
    the judged version has served before.
    """

    base_model_is_ready: bool
    tasks_before: int
    tasks_before_wanted: int
    tasks_after: int
    tasks_after_wanted: int
    pool_is_current: bool
    verdict: Verdict | None
    champion: int | None
    was_champion: bool = False


def next_stage(seen: Observation) -> Stage:
    """The first stage whose outcome is not there yet.

    A candidate that was not registered ends the loop: there is nothing to approve, and no new agent to give tasks to.
    """
    if not seen.base_model_is_ready:
        return Stage.BASE_MODEL
    if seen.verdict is None:
        return before_training(seen)
    if not seen.verdict.registered:
        return Stage.DONE
    if seen.champion != seen.verdict.version:
        # Somebody put another version in its place: their decision stands.
        return Stage.DONE if seen.was_champion else Stage.APPROVAL
    if seen.tasks_after < seen.tasks_after_wanted:
        return Stage.TASKS_AFTER
    return Stage.DONE if seen.pool_is_current else Stage.POOL_AFTER


def before_training(seen: Observation) -> Stage:
    """The next stage where no model has been judged yet."""
    if seen.tasks_before < seen.tasks_before_wanted:
        return Stage.TASKS_BEFORE
    return Stage.TRAINING if seen.pool_is_current else Stage.POOL_BEFORE
