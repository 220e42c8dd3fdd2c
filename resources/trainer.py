"""The trainer: starts a training process outside Dagster's, through Pipes, and brings its result back."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from flywheel.training.job import Job, read_result
from flywheel.training.launch import environment, launch_command

JOB_FILE = "job.json"


class Trainer(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Runs jobs of ``flywheel.training`` with ``accelerate launch``; logs stream into the step's page."""

    work_dir: str

    def folder(self, training_batch: str, stage: str) -> Path:
        """Where a stage of a batch works; ``progress.json`` in it says how far it is."""
        return Path(self.work_dir) / training_batch / stage

    def fresh_folder(self, training_batch: str, stage: str) -> Path:
        """The stage's folder, emptied: what a killed attempt left is not taken for a result."""
        folder = self.folder(training_batch, stage)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def run(self, context: dg.AssetExecutionContext, job: Job, *, variables: Mapping[str, str]) -> dict[str, Any]:
        """Run a job to its end and return its result.

        Args:
            context: the step that waits for it.
            job: what to do; its file stays in the job's folder, to run it again by hand.
            variables: more environment, such as the experiment tracker's run.

        Raises:
            TrainingError: the job ended without a result.
        """
        job_file = job.write(job.output_dir / JOB_FILE)
        command = launch_command(job, job_file)
        context.log.info(f"to run this by hand: {' '.join(command)}")
        dg.PipesSubprocessClient().run(
            context=context, command=command, env={**environment(job), **variables}, cwd=str(job.output_dir)
        )
        return read_result(job.output_dir)
