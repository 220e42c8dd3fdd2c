from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from mlflow import MlflowClient
from sqlalchemy import Engine

from flywheel.arbiter.registry import AgentRegistry
from flywheel.database import connect
from flywheel.errors import ConfigurationError, ServiceAnswerError
from flywheel.rollout.promotion import CANDIDATE, CHAMPION, MODEL_NAME, current_champion, history
from flywheel.services.approval import approve
from flywheel.services.endpoints import attach
from flywheel.services.mlflow_api import MlflowApi
from flywheel.settings import Settings

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def mlflow(services: Settings) -> Iterator[MlflowApi]:
    """A registry with two versions of our model and no aliases."""
    client = MlflowClient(tracking_uri=attach(services).mlflow_url)
    run = client.create_run("0").info
    client.create_registered_model(MODEL_NAME)
    for _ in range(2):
        client.create_model_version(MODEL_NAME, source=f"{run.artifact_uri}/model", run_id=run.run_id)
    with MlflowApi(attach(services).mlflow_url) as api:
        yield api
    client.delete_registered_model(MODEL_NAME)


def test_the_candidate_becomes_champion_in_the_registry_and_an_agent_at_once(mlflow: MlflowApi, engine: Engine) -> None:
    mlflow.set_alias(MODEL_NAME, CANDIDATE, 2)
    approved = approve(engine, mlflow, version=None, now=NOW, actor="ann", reason="read the report")
    assert approved.version == 2
    assert mlflow.aliases(MODEL_NAME)[CHAMPION] == 2
    assert current_champion(engine) == "2"
    [agent] = AgentRegistry(engine).list(status="active")
    assert agent.model == f"models:/{MODEL_NAME}/2"
    assert [(change.actor, change.reason) for change in history(engine)] == [("ann", "read the report")]


def test_approving_a_version_retires_the_one_before(mlflow: MlflowApi, engine: Engine) -> None:
    for version in (1, 2):
        approve(engine, mlflow, version=version, now=NOW, actor="ann", reason="better")
    assert [agent.version for agent in AgentRegistry(engine).list(status="active")] == ["2"]


def test_without_a_candidate_nothing_is_approved(mlflow: MlflowApi, engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="no version has the alias candidate"):
        approve(engine, mlflow, version=None, now=NOW, actor="ann", reason="")
    assert current_champion(engine) is None


def test_a_version_that_does_not_exist_is_not_approved(mlflow: MlflowApi, engine: Engine) -> None:
    with pytest.raises(ServiceAnswerError, match="version=7"):
        approve(engine, mlflow, version=7, now=NOW, actor="ann", reason="")
    assert mlflow.aliases(MODEL_NAME) == {}
    assert AgentRegistry(engine).list() == ()
