"""Tasks that environments run, one by one: the same episodes as in rounds, with a task's bounds, logs and once-ness."""

import threading
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine

from flywheel.arbiter.agents.reference import ReferenceAgent
from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.running.calls import CancelToken
from flywheel.arbiter.running.streaming import TextDelta, Watch
from flywheel.arbiter.settings import CacheSettings, ExecutionSettings
from flywheel.arbiter.task import Limits, Task
from flywheel.errors import HeldOutTaskError, TaskSourceError
from flywheel.settings import TasksSettings
from flywheel.tasks.catalog import environment_of, run_starter
from flywheel.tasks.environment import Run
from flywheel.tasks.source import SourceTask, Split
from tests.arbiter.running.service import ScriptedAgent, broken, logs_of, service
from tests.arbiter.test_arbiter import check_gates

SETTINGS = TasksSettings(source="synthetic", sources=("code-repair", "text-transformation"))


@cache
def training(name: str, split: Split = Split.TRAIN) -> Sequence[SourceTask]:
    return [task for task in environment_of(name, SETTINGS).tasks() if task.split is split]


start = run_starter(SETTINGS)


def known_answer(task: SourceTask) -> str:
    return start(task).known_answer()


def running(engine: Engine, folder: Path, agents: dict[str, Any], **options: Any) -> Any:
    return service(engine, folder, agents, start_run=start, **options)


@pytest.mark.parametrize("name", ["code-repair", "text-transformation"])
def test_a_task_is_run_verified_logged_and_learned_from(engine: Engine, tmp_path: Path, name: str) -> None:
    task = Task.of_source(training(name)[0], id="1")
    with running(engine, tmp_path, {"known": ReferenceAgent()}) as arbiter:
        result = arbiter.execute_task(task)
        again = arbiter.execute_task(task)
    assert (result.status, result.failure, again.replayed) == ("succeeded", None, True)
    assert result.text == known_answer(training(name)[0])
    [logs] = logs_of(tmp_path).values()
    check_gates(logs.decisions[0], logs.executions[0], logs.evaluations[0])
    assert (logs.counts, logs.evaluations[0]) == ((1, 1, 1), result.evaluation)
    assert (logs.decisions[0].source, logs.executions[0].task_id) == (training(name)[0].id, "1")
    known = BanditState(engine).evidence()["known", task.type]
    assert (known.tasks, known.quality_sum) == (1, result.evaluation.overall_score)


def test_feedback_of_the_environment_is_the_next_turn_and_each_is_told(engine: Engine, tmp_path: Path) -> None:
    repair, pieces = training("code-repair")[0], list[TextDelta]()
    agent = ScriptedAgent("I am thinking.", known_answer(repair))
    with running(engine, tmp_path, {"a": agent}) as arbiter:
        result = arbiter.execute_task(Task.of_source(repair, id="1"), watch=Watch(on_text=pieces.append))
    assert (result.status, result.text) == ("succeeded", known_answer(repair))
    assert [(piece.iteration, piece.text) for piece in pieces] == [(1, "I am thinking."), (2, known_answer(repair))]
    assert [i.quality_score for i in result.attempts[0].iterations] == [0.0, 1.0]
    assert (result.spent.output_tokens, result.budget.spent) == (200, 200)
    assert arbiter._parts.slots.loads() == {}


def test_what_is_not_done_is_rejected_with_the_environment_s_reason(engine: Engine, tmp_path: Path) -> None:
    with running(engine, tmp_path, {"a": ScriptedAgent("I cannot.")}) as arbiter:
        result = arbiter.execute_task(Task.of_source(training("code-repair")[0], id="1"))
    assert (result.status, result.failure.kind, len(result.attempts)) == ("failed", "rejected", 1)
    assert result.failure.reason == logs_of(tmp_path)["1"].executions[0].failure_reason
    assert result.evaluation.overall_score < 0.5


def test_another_agent_takes_over_from_one_that_cannot_answer(engine: Engine, tmp_path: Path) -> None:
    with running(engine, tmp_path, {"bad": broken(), "good": ReferenceAgent()}, seed=1) as arbiter:
        results = [arbiter.execute_task(Task.of_source(training("code-repair")[0], id=str(n))) for n in range(6)]
    assert {(result.status, result.agent_id) for result in results} == {("succeeded", "good")}
    fallen = [result for result in results if len(result.attempts) == 2]
    assert fallen
    first = logs_of(tmp_path)[f"{fallen[0].task_id}#attempt-1"]
    assert (first.counts, first.evaluations[0].overall_score) == ((1, 1, 1), 0)


@pytest.mark.parametrize(
    ("limits", "kind"), [(Limits(tokens=50), "budget-exhausted"), (Limits(timeout_s=1), "timeout")]
)
def test_a_task_s_limits_end_it_between_turns(engine: Engine, tmp_path: Path, limits: Limits, kind: str) -> None:
    released = threading.Event()
    agent = ScriptedAgent("I am thinking.", released) if kind == "timeout" else ScriptedAgent("I am thinking.")
    task = Task.of_source(training("code-repair")[0], id="1")
    with running(engine, tmp_path, {"a": agent}) as arbiter:
        result = arbiter.execute_task(msgspec.structs.replace(task, limits=limits))
        released.set()
    assert (result.failure.kind, result.evaluation.overall_score) == (kind, 0)
    assert len(agent.asked) == (2 if kind == "timeout" else 1)
    assert logs_of(tmp_path)["1"].counts == (1, 1, 1)


def test_a_cancelled_task_is_accounted_for_and_its_slot_stays_held_until_the_agent_ends(
    engine: Engine, tmp_path: Path
) -> None:
    token, released = CancelToken(), threading.Event()
    with running(engine, tmp_path, {"a": ScriptedAgent("I am thinking.", released)}) as arbiter:
        threading.Timer(0.5, token.cancel).start()
        result = arbiter.execute_task(Task.of_source(training("code-repair")[0], id="1"), token=token)
        assert arbiter._parts.slots.loads()["a"].active == 1
        released.set()
        while arbiter._parts.slots.loads():
            time.sleep(0.02)
    assert (result.status, result.evaluation) == ("cancelled", None)
    assert logs_of(tmp_path)["1"].counts == (1, 1, 0)
    assert BanditState(engine).evidence() == {}


def test_a_broken_environment_blames_nobody_and_gives_the_id_and_the_slot_back(engine: Engine, tmp_path: Path) -> None:
    def torn(task: SourceTask) -> Run:
        raise RuntimeError("the rope is torn")

    task = Task.of_source(training("code-repair")[0], id="1")
    with service(engine, tmp_path, {"known": ReferenceAgent()}, start_run=torn) as arbiter:
        with pytest.raises(TaskSourceError, match="the rope is torn"):
            arbiter.execute_task(task)
        assert arbiter._parts.slots.loads() == {}
    assert logs_of(tmp_path) == {}
    with running(engine, tmp_path / "mended", {"known": ReferenceAgent()}) as arbiter:
        assert arbiter.execute_task(task).status == "succeeded"


def test_an_environment_that_breaks_under_the_second_agent_leaves_the_first_ones_failure(
    engine: Engine, tmp_path: Path
) -> None:
    runs = []

    def torn_at_second(task: SourceTask) -> Run:
        runs.append(task)
        if len(runs) > 1:
            raise RuntimeError("the rope is torn")
        return start(task)

    task = Task.of_source(training("code-repair")[0], id="1")
    agents = {name: broken(f"{name} is gone") for name in "ab"}
    with service(engine, tmp_path, agents, start_run=torn_at_second) as arbiter:
        result = arbiter.execute_task(task)
        assert arbiter._parts.slots.loads() == {}
    assert len(runs) == 2
    assert result.failure is not None
    assert (result.failure.kind, result.failure.reason) == ("agent-error", f"{result.agent_id} is gone")
    assert logs_of(tmp_path)["1"].counts == (1, 1, 1)
    assert BanditState(engine).evidence()[result.agent_id, task.type].tasks == 1


@pytest.mark.parametrize("split", [Split.VALIDATION, Split.HELDOUT])
def test_tasks_that_only_measure_are_refused(engine: Engine, tmp_path: Path, split: Split) -> None:
    kept = next(task for name in SETTINGS.sources for task in training(name, split))
    agent = ScriptedAgent()
    with running(engine, tmp_path, {"a": agent}) as arbiter:
        for refused in (arbiter.execute_task, arbiter.route, arbiter.route_for_caller):
            with pytest.raises(HeldOutTaskError, match=kept.id):
                refused(Task.of_source(kept, id="1"))
    assert agent.asked == []


def test_no_earlier_answer_is_given_to_a_task_that_is_run(engine: Engine, tmp_path: Path) -> None:
    settings = ExecutionSettings(refresh_s=0, cache=CacheSettings(enabled=True))
    with running(engine, tmp_path, {"known": ReferenceAgent()}, settings=settings) as arbiter:
        results = [arbiter.execute_task(Task.of_source(training("code-repair")[0], id=str(n))) for n in range(2)]
    assert [(result.status, result.cached_from) for result in results] == [("succeeded", None)] * 2
