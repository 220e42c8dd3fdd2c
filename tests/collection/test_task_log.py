"""A whole task is three logs, whatever the agent does; nothing of ours is raised into it."""

import asyncio
import contextvars
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flywheel.collection import Collector, current_task
from flywheel.collection.segments import closed_segments
from flywheel.records import Evaluation, Execution, RoutingDecision, RubricScores
from tests.collection.reading import logged

EVALUATION: dict[str, Any] = {
    "quality_gates": (),
    "rubric_scores": RubricScores(format=1, tool=1, task=1, minimal=1, cost=1, safety=1),
    "overall_score": 0.75,
    "caws_compliant": True,
    "budget_compliant": True,
    "passed_all_mandatory": True,
}


def test_a_task_is_routed_executed_and_evaluated_in_this_order(collector: Collector, tmp_path: Path) -> None:
    with collector.task(task_type="research", task_id="t1", description="find it") as task:
        assert current_task() is task
        task.routed("alice", strategy="capability-match", confidence=0.9, candidate_agents=(), primary_reason="best")
        task.executed(tokens_used=12, tool_call_count=1)
        task.evaluated(**EVALUATION)
    assert current_task() is None
    decision, execution, evaluation = logged(collector, tmp_path)
    assert isinstance(decision, RoutingDecision)
    assert isinstance(execution, Execution)
    assert isinstance(evaluation, Evaluation)
    assert {log.task_id for log in (decision, execution, evaluation)} == {"t1"}
    assert {log.tenant_id for log in (decision, execution, evaluation)} == {"acme"}
    assert (decision.selected_agent_id, execution.agent_id, evaluation.agent_id) == ("alice", "alice", "alice")
    assert decision.timestamp <= execution.timestamp <= evaluation.timestamp
    assert (execution.success, execution.tokens_used, evaluation.overall_score) == (True, 12, 0.75)
    assert (execution.latency_ms or 0) > 0
    assert collector.drops == {}


def test_what_the_agent_raises_is_a_failed_execution_and_goes_on(collector: Collector, tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        collector.task(task_type="research", agent_id="alice"),
    ):
        _ = 1 / 0
    decision, execution = logged(collector, tmp_path)
    assert isinstance(decision, RoutingDecision)
    assert isinstance(execution, Execution)
    assert (execution.success, execution.failure_reason) == (False, "ZeroDivisionError: division by zero")


def test_a_task_that_ends_in_another_context_raises_nothing(collector: Collector, tmp_path: Path) -> None:
    task = collector.task(task_type="research", agent_id="alice")
    contextvars.copy_context().run(task.__enter__)
    task.__exit__(None, None, None)
    assert len(logged(collector, tmp_path)) == 2


def test_an_exception_that_cannot_be_printed_costs_its_own_log_alone(collector: Collector, tmp_path: Path) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(MuteError), collector.task(task_type="research", agent_id="alice"):
        raise MuteError
    assert [type(log) for log in logged(collector, tmp_path)] == [RoutingDecision]
    assert collector.drops == {"not encodable: RuntimeError": 1}


def test_every_call_of_a_decorated_function_is_a_task(collector: Collector, tmp_path: Path) -> None:
    @collector.task(
        task_type="research", agent_id="alice", evaluate=lambda result: {**EVALUATION, "overall_score": result}
    )
    def work(score: float) -> float:
        """Works."""
        if score < 0:
            raise ValueError(score)
        return score

    assert (work(0.25), work(0.5), work.__doc__) == (0.25, 0.5, "Works.")
    with pytest.raises(ValueError, match="-1"):
        work(-1)
    logs = logged(collector, tmp_path)
    assert Counter(type(log).__name__ for log in logs) == {"RoutingDecision": 3, "Execution": 3, "Evaluation": 2}
    assert {log.overall_score for log in logs if isinstance(log, Evaluation)} == {0.25, 0.5}
    assert len({log.task_id for log in logs}) == 3


def test_coroutines_that_run_side_by_side_have_tasks_of_their_own(collector: Collector, tmp_path: Path) -> None:
    async def judge(result: str) -> dict[str, Any]:
        return EVALUATION

    @collector.task(task_type="research", agent_id="alice", task_id=lambda number: f"t{number}", evaluate=judge)
    async def work(number: int) -> str:
        await asyncio.sleep(0.01)
        task = current_task()
        assert task is not None
        task.executed(tokens_used=number)
        if number == 3:
            raise RuntimeError
        return task.id

    async def service() -> list[Any]:
        return await asyncio.gather(*(work(number) for number in range(5)), return_exceptions=True)

    answers = asyncio.run(service())
    assert answers[:3] == ["t0", "t1", "t2"]
    assert isinstance(answers[3], RuntimeError)
    logs = logged(collector, tmp_path)
    executions = {log.task_id: log for log in logs if isinstance(log, Execution)}
    assert {task_id: log.tokens_used for task_id, log in executions.items()} == {f"t{n}": n for n in range(5)}
    assert [task_id for task_id, log in executions.items() if not log.success] == ["t3"]
    assert sum(isinstance(log, Evaluation) for log in logs) == 4


def test_the_evaluators_time_is_not_the_agents_and_its_failure_not_either(collector: Collector, tmp_path: Path) -> None:
    def broken(result: str) -> None:
        raise RuntimeError("the judge is out")

    @collector.task(task_type="research", agent_id="alice", evaluate=broken)
    def work() -> str:
        return "done"

    assert work() == "done"
    _, execution = logged(collector, tmp_path)
    assert isinstance(execution, Execution)
    assert execution.success


def test_a_log_that_cannot_be_made_is_counted_and_the_others_are_written(collector: Collector, tmp_path: Path) -> None:
    with collector.task(task_type="research", agent_id="alice") as task:
        task.executed(no_such_field=1)
        task.evaluated(overall_score=0.5)  # most fields are missing
    with collector.task(task_type="research"):
        pass  # nobody said who does it
    assert [type(log) for log in logged(collector, tmp_path)] == [RoutingDecision]
    assert sum(collector.drops.values()) == 4
    assert closed_segments(tmp_path)
