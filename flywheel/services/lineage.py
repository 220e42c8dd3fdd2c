"""Which models were trained on which batches, as the model registry knows it, and which of them serve."""

from collections.abc import Callable

from sqlalchemy import Engine

from flywheel.arbiter.registry import AgentRegistry
from flywheel.errors import ServiceAnswerError, ServiceError
from flywheel.pool.erasure import ModelsOf, TouchedModel
from flywheel.rollout.promotion import MODEL_NAME
from flywheel.services.mlflow_api import MlflowApi

BATCH_TAG = "flywheel.training_batch"
STAGE_TAG = "flywheel.stage"


def models_by_batch(registry: Callable[[], MlflowApi], engine: Engine) -> ModelsOf:
    """Asks the model registry for versions by the batch that they name, and the arbiter which of them serve.

    Args:
        registry: opens a client of it.
        engine: of our database, where the arbiter's agents are.
    """

    def models_of(batches: tuple[str, ...]) -> tuple[TouchedModel, ...]:
        serving = {agent.model: agent.name for agent in AgentRegistry(engine).list(status="active")}
        try:
            with registry() as mlflow:
                versions = mlflow.versions(MODEL_NAME)
        except ServiceError as error:
            trained = [f"{model} ({name})" for model, name in serving.items() if model.startswith("models:/")]
            raise ServiceAnswerError(
                f"{error}. Look there for versions of {MODEL_NAME} whose tag {BATCH_TAG} is one of: "
                f"{', '.join(batches)}. The arbiter routes to these trained models now: {', '.join(trained) or 'none'}"
            ) from error
        return tuple(
            TouchedModel(
                name=version.name,
                version=str(version.version),
                stage=version.tags.get(STAGE_TAG, ""),
                batch=version.tags[BATCH_TAG],
                aliases=version.aliases,
                serves=f"models:/{version.name}/{version.version}" in serving,
            )
            for version in versions
            if version.tags.get(BATCH_TAG) in batches
        )

    return models_of
