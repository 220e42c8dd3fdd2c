"""A candidate becomes champion: in the model registry and, at once, among the arbiter's agents."""

from datetime import datetime

from sqlalchemy import Engine

from flywheel.errors import ConfigurationError
from flywheel.rollout.promotion import CANDIDATE, CHAMPION, MODEL_NAME, promote
from flywheel.services.mlflow_api import MlflowApi, ModelVersion


def approve(
    engine: Engine, mlflow: MlflowApi, *, version: int | None, now: datetime, actor: str, reason: str
) -> ModelVersion:
    """Make a version champion. The registry is told first: from there the sensor ``candidate_approved`` would go on.

    Args:
        engine: of our database.
        mlflow: the model registry.
        version: which; ``None`` for the one with the alias ``candidate``.
        now: when.
        actor: who decides.
        reason: why, for the history of aliases.

    Raises:
        ConfigurationError: there is no candidate.
        ServiceAnswerError: there is no such version.
    """
    chosen = version if version is not None else mlflow.aliases(MODEL_NAME).get(CANDIDATE)
    if chosen is None:
        raise ConfigurationError("no version has the alias candidate; name one: `flywheel models approve VERSION`")
    approved = mlflow.version(MODEL_NAME, chosen)
    mlflow.set_alias(MODEL_NAME, CHAMPION, approved.version)
    promote(engine, version=str(approved.version), tags=approved.tags, now=now, actor=actor, reason=reason)
    return approved
