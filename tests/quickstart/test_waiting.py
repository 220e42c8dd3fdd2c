import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flywheel.errors import ServiceError
from flywheel.quickstart.console import PlainDisplay
from flywheel.quickstart.waiting import TRAINING_STEPS, TrainingWatch, reason_of, seconds_per_step, wait_for_pool
from flywheel.services.dagster_api import DagsterApi, Run, RunStatus, Sensor, Step, Tick
from flywheel.training.trigger import STAGES

START = datetime(2026, 1, 5, 10, tzinfo=UTC)


def step(key: str, status: str, *, seconds: float = 10.0) -> Step:
    ended = START + timedelta(seconds=seconds) if status != "IN_PROGRESS" else None
    return Step(key=key, status=status, started_at=START, ended_at=ended)


def run(status: RunStatus, *steps: Step, partition: str = "batch-1") -> Run:
    return Run(
        id="r",
        job="training",
        status=status,
        created_at=START,
        started_at=START,
        ended_at=None,
        tags={"dagster/partition": partition},
        steps=steps,
    )


def sensor(reason: str) -> Sensor:
    tick = Tick(status="SKIPPED", at=START, skip_reason=reason, error=None, run_ids=())
    return Sensor(name="training_batch_ready", is_running=True, last_tick=tick)


class ScriptedDagster(DagsterApi):
    """Answers one state a question, the last one for ever."""

    def __init__(self, states: Sequence[list[Run]], *, reason: str = "412 of 1,000 points") -> None:
        super().__init__("http://dagster.test")
        self.states = list(states)
        self.reason = reason

    def runs(self, **_criteria: Any) -> list[Run]:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def sensor(self, name: str) -> Sensor:
        return sensor(self.reason)


class Lines:
    """Remembers what a stage's line was told."""

    def __init__(self) -> None:
        self.messages: list[str | None] = []

    def update(self, *, done: int | None = None, total: int | None = None, message: str | None = None) -> None:
        self.messages.append(message)


def nothing() -> None: ...


def no_pause(_seconds: float) -> None: ...


def watch(dagster: DagsterApi, folder: Path, console: Console) -> TrainingWatch:
    display = PlainDisplay(console, clock=lambda: 0.0)
    return TrainingWatch(dagster, folder=folder, display=display, check=nothing, pause=no_pause)


def test_training_is_followed_step_by_step_from_the_sensor_to_its_end(tmp_path: Path) -> None:
    states = [
        [],
        [run("QUEUED")],
        [run("STARTED", step("training_batch", "IN_PROGRESS"))],
        [run("STARTED", step("training_batch", "SUCCESS"), step("sft_model", "IN_PROGRESS"))],
        [run("SUCCESS", *(step(key, "SUCCESS", seconds=7) for key in TRAINING_STEPS))],
    ]
    console = Console(record=True, width=200)
    training = watch(ScriptedDagster(states), tmp_path, console).follow()
    assert training.batch_id == "batch-1"
    assert training.seconds == dict.fromkeys(TRAINING_STEPS, 7.0)
    done = [line.split(":")[0] for line in console.export_text().splitlines() if ": done in" in line]
    assert done == list(TRAINING_STEPS.values())


def test_what_the_training_process_writes_is_shown(tmp_path: Path) -> None:
    (tmp_path / "batch-1" / "sft").mkdir(parents=True)
    report = {"stage": "sft", "done": 9, "total": 75, "message": "loss 0.21"}
    (tmp_path / "batch-1" / "sft" / "progress.json").write_text(json.dumps(report))
    running = run("STARTED", *(step(key, "IN_PROGRESS") for key in TRAINING_STEPS))
    finished = run("SUCCESS", *(step(key, "SUCCESS") for key in TRAINING_STEPS))
    console = Console(record=True, width=200)
    watch(ScriptedDagster([[running], [running], [finished]]), tmp_path, console).follow()
    assert "training batch: done in 0 s (loss 0.21)" in console.export_text()


def test_a_run_that_is_tried_again_by_the_sensor_is_followed_on(tmp_path: Path) -> None:
    failed = run("FAILURE", step("training_batch", "SUCCESS"), step("sft_model", "FAILURE"))
    again = run("STARTED", step("training_batch", "SUCCESS"), step("sft_model", "IN_PROGRESS"))
    finished = run("SUCCESS", *(step(key, "SUCCESS") for key in TRAINING_STEPS))
    training = watch(ScriptedDagster([[failed], [failed], [failed], [again], [finished]]), tmp_path, Console()).follow()
    assert training.batch_id == "batch-1"


def test_what_an_earlier_run_finished_is_not_waited_for_again(tmp_path: Path) -> None:
    done = [step(key, "SUCCESS") for key in ("training_batch", "sft_model")]
    failed = run("FAILURE", *done, step("grpo_model", "FAILURE"))
    rest = [key for key in TRAINING_STEPS if key not in ("training_batch", "sft_model")]
    going = run("STARTED", *(step(key, "IN_PROGRESS") for key in rest))
    finished = run("STARTED", *(step(key, "SUCCESS") for key in rest))
    console = Console(record=True, width=200)
    states = [[going, failed], [going, failed], [going, failed], [going, failed], [finished, failed]]
    watch(ScriptedDagster(states), tmp_path, console).follow()
    lines = [line for line in console.export_text().splitlines() if ": done in" in line]
    assert [line.split(":")[0] for line in lines] == list(TRAINING_STEPS.values())


def test_a_run_that_failed_for_good_is_an_error_that_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flywheel.quickstart.waiting.STALL_S", 0.0)
    failed = run("FAILURE", step("training_batch", "SUCCESS"), step("sft_model", "FAILURE"))
    dagster = ScriptedDagster([[failed]], reason="batch-1 failed 3 times")
    with pytest.raises(ServiceError, match=r"failure in sft_model; batch-1 failed 3 times\. See http://dagster\.test"):
        watch(dagster, tmp_path, Console()).follow()


def test_a_pool_that_never_runs_gives_up_with_the_sensors_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flywheel.quickstart.waiting.STALL_S", 0.0)
    dagster = ScriptedDagster([[]], reason="2026-01-05 failed 3 times")
    with pytest.raises(ServiceError, match="2026-01-05 failed 3 times"):
        wait_for_pool(dagster, is_current=lambda: False, line=Lines(), check=nothing, pause=no_pause)


def test_the_pool_is_waited_for_while_runs_are_on_their_way() -> None:
    line = Lines()
    states = [[], [run("STARTED", step("raw_logs", "SUCCESS"), partition="2026-01-05")], []]
    answers = iter([False, True])
    wait_for_pool(ScriptedDagster(states), is_current=lambda: next(answers), line=line, check=nothing, pause=no_pause)
    assert line.messages == ["412 of 1,000 points", "day 2026-01-05"]


def test_a_service_that_ends_while_waiting_is_not_waited_for() -> None:
    def check() -> None:
        raise ServiceError("dagster-daemon was killed by signal 9")

    with pytest.raises(ServiceError, match="killed by signal 9"):
        wait_for_pool(ScriptedDagster([[]]), is_current=lambda: False, line=Lines(), check=check, pause=no_pause)


def test_a_sensor_that_is_off_says_how_to_turn_it_on() -> None:
    off = Sensor(name="new_segments", is_running=False, last_tick=None)
    assert reason_of(off) == "sensor new_segments is turned off; turn it on in Dagster under Automation"


def test_seconds_of_a_step_are_summed_over_the_runs_of_its_batch() -> None:
    runs = [
        run("SUCCESS", step("sft_model", "SUCCESS", seconds=30)),
        run("FAILURE", step("sft_model", "FAILURE", seconds=5)),
    ]
    assert seconds_per_step(runs) == {"sft_model": 35.0}


def test_every_stage_of_training_has_a_title() -> None:
    assert tuple(TRAINING_STEPS) == STAGES
