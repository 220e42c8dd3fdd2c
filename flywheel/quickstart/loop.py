"""The loop: observe, decide the next stage, do it, until nothing is left to do."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from flywheel.errors import ServiceError
from flywheel.quickstart.console import Display
from flywheel.quickstart.ledger import Ledger, write_ledger
from flywheel.quickstart.observation import World
from flywheel.quickstart.progress import ProgressLine
from flywheel.quickstart.stages import Stage, next_stage
from flywheel.quickstart.subprocesses import run_command
from flywheel.quickstart.waiting import TrainingWatch, wait_for_pool
from flywheel.services.approval import approve

REVIEWER = "quick start"
WAITING = (Stage.POOL_BEFORE, Stage.POOL_AFTER)
"""Stages that may have to be done again at once: while the last lines were taken in, somebody wrote more."""


class Loop:
    """Brings one home from nothing to a champion, or to the reason why there is none.

    Args:
        world: what is asked and changed.
        display: where the stages are shown.
        ledger: counts their seconds.
        environment: of subprocesses.
        check: called every few seconds while waiting; raises when a service has ended.
    """

    def __init__(
        self,
        world: World,
        *,
        display: Display,
        ledger: Ledger,
        environment: Mapping[str, str],
        check: Callable[[], None],
    ) -> None:
        self._world = world
        self._display = display
        self._ledger = ledger
        self._environment = environment
        self._check = check
        self._actions: dict[Stage, Callable[[], None]] = {
            Stage.BASE_MODEL: self._make_base_model,
            Stage.TASKS_BEFORE: lambda: self._run_tasks("before"),
            Stage.POOL_BEFORE: self._wait_for_pool,
            Stage.TRAINING: self._follow_training,
            Stage.APPROVAL: self._approve,
            Stage.TASKS_AFTER: lambda: self._run_tasks("after"),
            Stage.POOL_AFTER: self._wait_for_pool,
        }

    def run(self) -> None:
        """Do every stage whose outcome is missing.

        Raises:
            ServiceError: a stage fails, or ends without its outcome.
        """
        last: Stage | None = None
        while (stage := next_stage(self._world.observe(self._ledger))) is not Stage.DONE:
            if stage is last and stage not in WAITING:
                raise ServiceError(f"stage {stage.value!r} ended and its outcome is not there; see the logs below home")
            if stage is Stage.TRAINING:
                self._actions[stage]()  # Dagster knows the seconds of its steps
            else:
                with self._timed(stage):
                    self._actions[stage]()
            last = stage

    @contextmanager
    def _timed(self, stage: Stage) -> Iterator[None]:
        """Count the stage's seconds, also when it is interrupted."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._ledger.add_seconds(stage.value, time.monotonic() - started)
            write_ledger(self._world.settings.home, self._ledger)

    def _make_base_model(self) -> None:
        with self._display.stage("base model") as line:

            def show(progress: ProgressLine) -> None:
                self._ledger.base_model = progress.message
                line.update(done=progress.done, total=progress.total)

            self._run_command("models", "prepare", "--progress", log="base-model", on_progress=show)

    def _run_tasks(self, label: str) -> None:
        with self._display.stage(f"tasks {label}") as line:

            def show(progress: ProgressLine) -> None:
                line.update(done=progress.done, total=progress.total, message=progress.message)

            self._run_command("tasks", "run", "--label", label, "--progress", log=f"tasks-{label}", on_progress=show)

    def _run_command(self, *arguments: str, log: str, on_progress: Callable[[ProgressLine], None]) -> None:
        run_command(
            arguments,
            environment=self._environment,
            log=self._world.settings.home / "logs" / f"{log}.log",
            on_progress=on_progress,
            check=self._check,
        )

    def _wait_for_pool(self) -> None:
        with self._display.stage("benchmark data pool") as line:
            wait_for_pool(self._world.dagster, is_current=self._world.pool_is_current, line=line, check=self._check)
            counts = self._world.pool_counts()
            line.update(message=f"{counts['points']:,} points of {counts['lines']:,} lines")

    def _follow_training(self) -> None:
        watch = TrainingWatch(
            self._world.dagster,
            folder=self._world.settings.home / "training",
            display=self._display,
            check=self._check,
        )
        self._ledger.seconds.update(watch.follow().seconds)
        write_ledger(self._world.settings.home, self._ledger)

    def _approve(self) -> None:
        verdict = self._world.observe(self._ledger).verdict
        assert verdict is not None
        with self._display.stage("approval") as line:
            approved = approve(
                self._world.engine,
                self._world.mlflow,
                version=verdict.version,
                now=datetime.now(UTC),
                actor=REVIEWER,
                reason="the quick start stands in for the reviewer",
            )
            line.update(
                message=f"version {approved.version} is champion; here the quick start stands in for the reviewer"
            )
