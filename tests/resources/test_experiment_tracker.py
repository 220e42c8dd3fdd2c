"""What MLflow says of a run whose process is gone."""

from pathlib import Path

import pytest

from resources.experiment_tracker import ExperimentTracker


def statuses(tracker: ExperimentTracker) -> dict[str, str]:
    """Status by name."""
    client = tracker.client()
    experiment = client.get_experiment_by_name("flywheel")
    assert experiment is not None
    return {run.info.run_name: run.info.status for run in client.search_runs([experiment.experiment_id])}


def test_runs_end_and_a_run_that_was_cut_off_does_not_look_alive_for_ever(tmp_path: Path) -> None:
    tracker = ExperimentTracker(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    # What it trains on comes from a version of another stage, whose lineage it carries on.
    cut_off = tracker.run(name="killed", stage="sft", training_batch="b1", tags={"flywheel.stage": "grpo"})
    cut_off.__enter__()  # and its process is gone before it can leave
    other = tracker.run(name="another batch", stage="sft", training_batch="b2", tags={})
    other.__enter__()
    with tracker.run(name="again", stage="sft", training_batch="b1", tags={}):
        assert statuses(tracker) == {"killed": "KILLED", "another batch": "RUNNING", "again": "RUNNING"}
    with pytest.raises(OSError, match="full"), tracker.run(name="broken", stage="grpo", training_batch="b1", tags={}):
        raise OSError("the disk is full")
    assert statuses(tracker) == {
        "killed": "KILLED",
        "another batch": "RUNNING",
        "again": "FINISHED",
        "broken": "FAILED",
    }
