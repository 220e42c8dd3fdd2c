"""The experiment tracker: MLflow runs of training jobs, with parameters, metrics, artifacts and lineage tags."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

EXPERIMENT = "flywheel"
BATCH_TAG = "flywheel.training_batch"
STAGE_TAG = "flywheel.stage"


class ExperimentTracker(dg.ConfigurableResource):  # type: ignore[type-arg]
    """MLflow's tracking server, at ``MLFLOW_TRACKING_URI``."""

    tracking_uri: str

    def client(self) -> "MlflowClient":
        """A client of the tracking server."""
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self.tracking_uri)

    @contextmanager
    def run(self, *, name: str, stage: str, training_batch: str, tags: Mapping[str, str]) -> Iterator["Run"]:
        """A run that ends as FINISHED, or as FAILED when the body raises. Training processes log into it by its id.

        A run of the same stage and batch that still looks alive was cut off with its machine: it becomes KILLED.
        """
        client = self.client()
        experiment = client.get_experiment_by_name(EXPERIMENT)
        experiment_id = experiment.experiment_id if experiment else client.create_experiment(EXPERIMENT)
        lineage = {**tags, STAGE_TAG: stage, BATCH_TAG: training_batch}  # a model's lineage names its own stage
        same = f"tags.`{STAGE_TAG}` = '{stage}' and tags.`{BATCH_TAG}` = '{training_batch}'"
        for dead in client.search_runs([experiment_id], filter_string=f"attributes.status = 'RUNNING' and {same}"):
            client.set_terminated(dead.info.run_id, status="KILLED")
        run = client.create_run(experiment_id, run_name=name, tags=lineage)
        try:
            yield run
        except BaseException:
            client.set_terminated(run.info.run_id, status="FAILED")
            raise
        client.set_terminated(run.info.run_id, status="FINISHED")

    def environment(self, run: "Run") -> dict[str, str]:
        """What a training process needs in its environment to log into the run."""
        return {
            "MLFLOW_TRACKING_URI": self.tracking_uri,
            "MLFLOW_RUN_ID": run.info.run_id,
            "MLFLOW_EXPERIMENT_ID": run.info.experiment_id,
        }

    def log_metrics(self, run: "Run", metrics: Mapping[str, float]) -> None:
        """Record final figures beside the metrics per step that training logged itself."""
        client = self.client()
        for key, value in metrics.items():
            client.log_metric(run.info.run_id, key, value)

    def log_files(self, run: "Run", path: Path, folder: str | None = None) -> None:
        """Store a file or the content of a folder among the run's artifacts."""
        client = self.client()
        if path.is_dir():
            client.log_artifacts(run.info.run_id, str(path), folder)
        else:
            client.log_artifact(run.info.run_id, str(path), folder)

    def run_url(self, run: "Run") -> str:
        """The run's page."""
        return f"{self.tracking_uri}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
