"""Waiting for what the daemon does by itself: the pool's runs, and the training run of a batch."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from flywheel.errors import ServiceError
from flywheel.quickstart.console import Display, StageLine
from flywheel.quickstart.progress import newest_progress
from flywheel.services.dagster_api import DagsterApi, Run, Sensor

POLL_S = 2.0
STALL_S = 180.0
POOL_SENSOR = "new_segments"
POOL_JOB = "pool_day"
TRAINING_SENSOR = "training_batch_ready"
TRAINING_JOB = "training"
TRAINING_STEPS = {
    "training_batch": "training batch",
    "sft_model": "supervised fine-tuning",
    "grpo_model": "reinforcement learning",
    "deployment_candidate": "held-out comparison",
}


class Patience:
    """Gives up when nothing has happened for too long, with the reason that was last known."""

    def __init__(self, what: str, *, limit_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._limit_s = STALL_S if limit_s is None else limit_s
        self._clock = clock
        self._since = clock()

    def renew(self) -> None:
        """Something happens."""
        self._since = self._clock()

    def spend(self, reason: str) -> None:
        """Nothing happens, for this reason.

        Raises:
            ServiceError: for too long.
        """
        if self._clock() - self._since > self._limit_s:
            raise ServiceError(f"{self._what} did not start within {self._limit_s:.0f} s: {reason}")


def reason_of(sensor: Sensor) -> str:
    """Why a sensor did nothing, in its own words."""
    if not sensor.is_running:
        return f"sensor {sensor.name} is turned off; turn it on in Dagster under Automation"
    if sensor.last_tick is None:
        return f"sensor {sensor.name} has not been evaluated yet"
    return sensor.last_tick.error or sensor.last_tick.skip_reason or f"sensor {sensor.name} has requested its runs"


def wait_for_pool(
    dagster: DagsterApi,
    *,
    is_current: Callable[[], bool],
    line: StageLine,
    check: Callable[[], None],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the daemon has brought every line of the logs into the pool.

    Raises:
        ServiceError: it does not begin; the message says what the sensor says.
    """
    patience = Patience("the pool's run")
    while True:
        check()
        active = [run for run in dagster.runs(job=POOL_JOB, limit=20) if run.is_active]
        if active:
            patience.renew()
            steps = active[0].steps
            line.update(done=sum(step.status == "SUCCESS" for step in steps), message=f"day {active[0].partition}")
        elif is_current():
            return
        else:
            reason = reason_of(dagster.sensor(POOL_SENSOR))
            line.update(message=reason)
            patience.spend(reason)
        pause(POLL_S)


class Training(Struct, frozen=True, kw_only=True):
    """A batch that was trained, with the seconds that each step took over all its runs."""

    batch_id: str
    seconds: dict[str, float]


class TrainingWatch:
    """Follows the training of one batch step by step, over as many runs as it takes.

    Args:
        dagster: the web server.
        folder: where training jobs write their progress, one folder a batch.
        display: where the steps are shown.
        check: called every few seconds; may raise to give up.
        pause: sleeps.
    """

    def __init__(
        self,
        dagster: DagsterApi,
        *,
        folder: Path,
        display: Display,
        check: Callable[[], None],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._dagster = dagster
        self._folder = folder
        self._display = display
        self._check = check
        self._pause = pause

    def follow(self) -> Training:
        """Wait for the sensor to start a batch and for the last step of its training.

        Raises:
            ServiceError: the sensor does not start it, or it failed for good.
        """
        batch_id = ""
        for key, title in TRAINING_STEPS.items():
            with self._display.stage(title) as line:
                batch_id = batch_id or self._wait_for_batch(line)
                self._wait_for_step(batch_id, key, line)
        return Training(batch_id=batch_id, seconds=seconds_per_step(self._dagster.runs(partition=batch_id)))

    def _wait_for_batch(self, line: StageLine) -> str:
        """The batch of the newest training run that has not ended well, as soon as there is one."""
        patience = Patience("training")
        while True:
            self._check()
            run = newest(self._dagster.runs(job=TRAINING_JOB, limit=1))
            if run is not None and run.partition is not None:
                return run.partition
            reason = reason_of(self._dagster.sensor(TRAINING_SENSOR))
            line.update(message=reason)
            patience.spend(reason)
            self._pause(POLL_S)

    def _wait_for_step(self, batch_id: str, key: str, line: StageLine) -> None:
        """Wait until a step has ended well in any run of the batch: a run that goes on leaves out what is done."""
        patience = Patience(f"another training run of {batch_id}")
        while True:
            self._check()
            runs = self._dagster.runs(job=TRAINING_JOB, partition=batch_id)
            run = newest(runs)
            if any(step_status(run, key) == "SUCCESS" for run in runs) or (run and run.status == "SUCCESS"):
                return
            if run is not None and run.is_active:
                patience.renew()
                self._show(batch_id, run, key, line)
            else:
                reason = f"its last run {failure_of(run)}; {reason_of(self._dagster.sensor(TRAINING_SENSOR))}"
                line.update(message=reason)
                patience.spend(f"{reason}. See {self._dagster.url}/runs")
            self._pause(POLL_S)

    def _show(self, batch_id: str, run: Run, key: str, line: StageLine) -> None:
        """How far a running step is, by what its training process wrote last."""
        if step_status(run, key) != "IN_PROGRESS":
            line.update(message=f"{batch_id}, {run.status.lower()}")
            return
        progress = newest_progress(self._folder / batch_id, since=step_start(run, key))
        if progress is not None:
            line.update(done=progress.done, total=progress.total, message=progress.message)


def newest(runs: Sequence[Run]) -> Run | None:
    """The first of runs listed newest first."""
    return runs[0] if runs else None


def step_status(run: Run, key: str) -> str:
    """The status of a step; empty where it is not part of the run yet."""
    return next((step.status for step in run.steps if step.key == key), "")


def step_start(run: Run, key: str) -> float:
    """When a step began, in seconds since 1970; 0 where it has not."""
    started = next((step.started_at for step in run.steps if step.key == key), None)
    return started.timestamp() if started else 0.0


def failure_of(run: Run | None) -> str:
    """How a run ended, in words."""
    if run is None:
        return "is gone"
    failed = [step.key for step in run.steps if step.status == "FAILURE"]
    return f"{run.status.lower()} in {', '.join(failed)}" if failed else run.status.lower()


def seconds_per_step(runs: Sequence[Run]) -> dict[str, float]:
    """Time spent in each step of training over these runs, in seconds; the steps of asset checks are left out."""
    seconds: dict[str, float] = {}
    for step in (step for run in runs for step in run.steps):
        if step.key in TRAINING_STEPS and step.started_at and step.ended_at:
            seconds[step.key] = seconds.get(step.key, 0.0) + (step.ended_at - step.started_at).total_seconds()
    return seconds
