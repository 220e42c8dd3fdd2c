"""Routers, agents and evaluators are logged without a change to their code."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flywheel.arbiter.agents.reference import ReferenceAgent
from flywheel.arbiter.registry import AgentProfile
from flywheel.arbiter.routing.router import Router
from flywheel.arbiter.routing.task import RoutedTask
from flywheel.collection import Collector
from flywheel.records import Evaluation, Execution, RoutingDecision
from tests.arbiter.routing.pools import beliefs
from tests.collection.reading import logged
from tests.collection.test_task_log import EVALUATION
from tests.fakes import benchmark_task


def test_functions_become_the_three_logs_of_a_task(collector: Collector, tmp_path: Path) -> None:
    def choose(question: str) -> str:
        return "alice"

    def know(question: str) -> str:
        return f"about {question}: 42"

    def judge_it(text: str) -> dict[str, Any]:
        return EVALUATION

    route = collector.wrap_router(choose)
    answer = collector.wrap_agent(know, agent_id="alice")
    judge = collector.wrap_evaluator(judge_it)
    with collector.task(task_type="research", task_id="t1"):
        assert route("life") == "alice"
        text = answer("life")
        judge(text)
    decision, execution, evaluation = logged(collector, tmp_path)
    assert isinstance(decision, RoutingDecision)
    assert isinstance(execution, Execution)
    assert isinstance(evaluation, Evaluation)
    assert decision.selected_agent_id == "alice"
    assert [message.content for message in execution.messages] == ["life", "about life: 42"]
    assert evaluation.overall_score == 0.75
    assert collector.drops == {}


def test_an_agent_outside_of_a_task_is_a_task_of_its_own(collector: Collector, tmp_path: Path) -> None:
    async def slow(question: str) -> str:
        await asyncio.sleep(0.02)
        if question == "hard":
            raise ValueError(question)
        return "done"

    answer = collector.wrap_agent(slow, agent_id="alice", task_type="research")
    assert asyncio.run(answer("easy")) == "done"
    with pytest.raises(ValueError, match="hard"):
        asyncio.run(answer("hard"))
    logs = logged(collector, tmp_path)
    executions = [log for log in logs if isinstance(log, Execution)]
    assert [log.success for log in executions] == [True, False]
    assert all((log.latency_ms or 0) >= 20 for log in executions)
    assert len(logs) == 4


def test_the_arbiters_own_router_and_agent_are_logged(collector: Collector, tmp_path: Path) -> None:
    tasks = [benchmark_task(str(number)) for number in range(3)]
    profile = AgentProfile(id="alice", kind="reference")
    router = collector.wrap_router(Router([profile], beliefs({})))
    with collector.task(task_type="research", task_id="t1"):
        choice = router.decide(RoutedTask(task_type="research"), np.random.default_rng(1))
    agent = collector.wrap_agent(ReferenceAgent(), agent_id="alice")
    answers = agent.answer(tasks)
    logs = logged(collector, tmp_path)
    [decision] = [log for log in logs if isinstance(log, RoutingDecision)]
    assert decision.selected_agent_id == choice.selected == "alice"
    assert decision.candidate_agents[0].propensity == 1.0
    executions = {log.task_id: log for log in logs if isinstance(log, Execution) and log.task_id != "t1"}
    assert list(executions) == [task.id for task in tasks]
    assert [log.messages[-1].content for log in executions.values()] == [answer.text for answer in answers]


def test_what_is_wrapped_stays_itself(collector: Collector) -> None:
    class Service:
        model = "small"

        def answer(self, tasks: Sequence[Any]) -> str:
            """Answers."""
            return self.model

    service = collector.wrap_agent(Service(), agent_id="alice")
    assert (service.model, service.answer([1]), service.answer.__doc__) == ("small", "small", "Answers.")
    with pytest.raises(TypeError, match="neither a function nor has it a method decide"):
        collector.wrap_router(3)
