"""The model registry: MLflow's, with versions, aliases and tags for the verdict (docs/decisions)."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from flywheel.errors import TrainingError
from flywheel.rollout.promotion import CANDIDATE, CHAMPION, MODEL_NAME
from resources.experiment_tracker import BATCH_TAG, STAGE_TAG

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run
    from mlflow.entities.model_registry import ModelVersion

MODEL_ARTIFACT = "model"


class ModelRegistry(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Versions of the model ``flywheel-agent`` and who serves now."""

    tracking_uri: str
    cache_dir: str

    def client(self) -> "MlflowClient":
        """A client of the registry."""
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self.tracking_uri, registry_uri=self.tracking_uri)

    def register(self, run: "Run", *, stage: str, training_batch: str, tags: Mapping[str, str]) -> "ModelVersion":
        """A new version from the model folder among a run's artifacts, with its lineage as tags."""
        from mlflow.exceptions import MlflowException

        client = self.client()
        try:
            client.create_registered_model(MODEL_NAME, description="Models trained on the benchmark data pool.")
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        lineage = {STAGE_TAG: stage, BATCH_TAG: training_batch, **tags}
        source = f"{run.info.artifact_uri}/{MODEL_ARTIFACT}"
        return client.create_model_version(MODEL_NAME, source=source, run_id=run.info.run_id, tags=lineage)

    def version_of(self, *, stage: str, training_batch: str) -> "ModelVersion":
        """The newest version that a stage made from a batch.

        Raises:
            TrainingError: there is none; materialize the stage's asset for this batch first.
        """
        versions = [
            version
            for version in self.client().search_model_versions(f"name='{MODEL_NAME}'")
            if version.tags.get(STAGE_TAG) == stage and version.tags.get(BATCH_TAG) == training_batch
        ]
        if not versions:
            raise TrainingError(
                f"no {stage} model of batch {training_batch} is registered; materialize {stage}_model for it first"
            )
        return max(versions, key=lambda version: int(version.version))

    def folder_of(self, version: "ModelVersion") -> Path:
        """The version's files on this machine: downloaded once, then taken from the cache."""
        from mlflow.artifacts import download_artifacts

        folder = Path(self.cache_dir) / f"{MODEL_NAME}-v{version.version}"
        if folder.exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            downloaded = download_artifacts(
                run_id=version.run_id, artifact_path=MODEL_ARTIFACT, dst_path=scratch, tracking_uri=self.tracking_uri
            )
            try:
                Path(downloaded).rename(folder)
            except OSError:
                if not folder.exists():  # another process may have been first
                    raise
                shutil.rmtree(downloaded)
        return folder

    def set_candidate(self, version: "ModelVersion", *, verdict: Mapping[str, str]) -> None:
        """Offer a version for review: the alias ``candidate`` and the verdict's numbers as tags."""
        client = self.client()
        for key, value in verdict.items():
            client.set_model_version_tag(MODEL_NAME, version.version, key, value)
        client.set_registered_model_alias(MODEL_NAME, CANDIDATE, version.version)

    def champion(self) -> "ModelVersion | None":
        """The version that the alias ``champion`` names, if any."""
        from mlflow.exceptions import MlflowException

        try:
            return self.client().get_model_version_by_alias(MODEL_NAME, CHAMPION)
        except MlflowException as error:
            if error.error_code in {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}:
                return None
            raise
