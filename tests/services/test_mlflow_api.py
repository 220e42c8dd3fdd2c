import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from flywheel.errors import ServiceAnswerError
from flywheel.services.endpoints import attach
from flywheel.services.mlflow_api import MlflowApi, NotFoundError
from flywheel.settings import Settings

WEIGHTS = os.urandom(300_000)


@pytest.fixture(scope="module")
def model(services: Settings, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A registered model with one version, made as training makes it: by MLflow's own client."""
    files = tmp_path_factory.mktemp("model")
    (files / "tokenizer").mkdir()
    (files / "config.json").write_text("{}")
    (files / "tokenizer" / "vocabulary 1.bin").write_bytes(WEIGHTS)
    client = MlflowClient(tracking_uri=attach(services).mlflow_url)
    run = client.create_run(client.create_experiment("training"))
    client.log_artifacts(run.info.run_id, str(files), "model")
    client.log_metric(run.info.run_id, "exact", 0.25)
    client.create_registered_model("agent")
    source = f"{run.info.artifact_uri}/model"
    client.create_model_version("agent", source=source, run_id=run.info.run_id, tags={"stage": "sft"})
    return "agent"


@pytest.fixture
def mlflow(services: Settings) -> Iterator[MlflowApi]:
    with MlflowApi(attach(services).mlflow_url) as api:
        yield api


def test_versions_carry_their_aliases_and_tags(mlflow: MlflowApi, model: str) -> None:
    mlflow.set_alias(model, "champion", 1)
    mlflow.set_tag(model, 1, key="verdict", value="10 % better")
    [version] = mlflow.versions(model)
    assert (version.version, version.aliases) == (1, ("champion",))
    assert version.tags == {"stage": "sft", "verdict": "10 % better"}
    assert mlflow.metrics(version.run_id) == {"exact": 0.25}

    mlflow.delete_alias(model, "champion")
    mlflow.delete_alias(model, "champion")
    assert mlflow.aliases(model) == {}


def test_a_model_that_was_never_registered_has_no_versions(mlflow: MlflowApi) -> None:
    assert mlflow.versions("nobody") == []
    assert mlflow.aliases("nobody") == {}


def test_a_version_is_downloaded_once_with_all_its_files(mlflow: MlflowApi, model: str, tmp_path: Path) -> None:
    folder = mlflow.download(model, 1, cache=tmp_path)
    assert (folder / "config.json").read_text() == "{}"
    assert (folder / "tokenizer" / "vocabulary 1.bin").read_bytes() == WEIGHTS
    (folder / "config.json").write_text("kept")
    assert mlflow.download(model, 1, cache=tmp_path) == folder
    assert (folder / "config.json").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["agent-v1"]


def test_what_does_not_exist_leaves_nothing_behind(mlflow: MlflowApi, model: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="version=7"):
        mlflow.download(model, 7, cache=tmp_path)
    with pytest.raises(NotFoundError):
        mlflow.set_alias(model, "champion", 7)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_an_error_that_names_it() -> None:
    with MlflowApi("http://127.0.0.1:9") as nobody, pytest.raises(ServiceAnswerError, match=r"127\.0\.0\.1:9"):
        nobody.aliases("agent")
