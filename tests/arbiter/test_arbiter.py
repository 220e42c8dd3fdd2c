"""The arbiter routes, executes, evaluates, logs and learns; what it logs passes the pool's gates."""

import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine

from flywheel.arbiter.agents.strategy import Agent, Answer, Progress, ignore_progress
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.registry import AgentProfile, AgentRegistry
from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.traffic import traffic_report
from flywheel.collection.collector import Collector
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.database import connect
from flywheel.errors import AgentError, HeldOutTaskError
from flywheel.records import Evaluation, Execution, RoutingDecision, decode_log
from flywheel.tasks.source import AgentTask, BenchmarkTask, Split
from tests.fakes import FixedAgent, benchmark_task

RIGHT = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
WRONG = '{"name": "add", "arguments": {"a": 1, "b": 3}}'
TASKS = [benchmark_task(str(number)) for number in range(30)]


class BrokenAgent:
    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        raise AgentError("its model is gone")


@pytest.fixture
def engine(database_url: str) -> Engine:
    return connect(database_url)


def ticking(step: timedelta = timedelta(milliseconds=1)) -> Callable[[], datetime]:
    ticks = itertools.count()
    return lambda: datetime(2025, 3, 1, tzinfo=UTC) + next(ticks) * step


def run(
    engine: Engine,
    folder: Path,
    agents: dict[str, Agent],
    tasks: Sequence[BenchmarkTask],
    *,
    clock: Callable[[], datetime] | None = None,
) -> dict[str, tuple[RoutingDecision, Execution, Evaluation]]:
    """Run one round; the logs by task id, in the order routing, execution, evaluation."""
    for agent_id in agents:
        AgentRegistry(engine).register(AgentProfile(id=agent_id, kind="reference"))
    with Collector(folder, "acme") as collector:
        Arbiter(
            engine,
            collector,
            tenant_id="acme",
            label="before",
            make_agent=lambda profile: agents[profile.id],
            clock=clock or ticking(),
            rng=np.random.default_rng(3),
        ).run(tasks)
    logs: dict[str, list[object]] = {}
    for path in closed_segments(folder):
        for item in read_segment(path):
            assert isinstance(item, Frame)
            log = decode_log(item.payload)
            assert log.tenant_id == "acme"
            logs.setdefault(log.task_id, []).append(log)
    return {task_id: tuple(found) for task_id, found in logs.items()}  # type: ignore[misc]


def check_gates(decision: RoutingDecision, executed: Execution, evaluation: Evaluation) -> None:
    """The gates of SPEC section 3 that compare fields."""
    assert decision.selected_agent_id == executed.agent_id == evaluation.agent_id
    assert decision.timestamp <= executed.timestamp <= evaluation.timestamp
    assert executed.tool_call_count == sum(tool.call_count for tool in executed.tools_used)
    assert executed.latency_ms is not None
    assert executed.latency_ms > 0
    assert executed.time_to_first_action is None or executed.time_to_first_action <= executed.latency_ms
    assert not executed.success or evaluation.overall_score > 0
    assert evaluation.passed_all_mandatory == all(g.passed for g in evaluation.quality_gates if g.mandatory)
    assert executed.success == evaluation.passed_all_mandatory
    assert sum(candidate.propensity for candidate in decision.candidate_agents) == pytest.approx(1)
    assert decision.selected_agent_id in {candidate.agent_id for candidate in decision.candidate_agents}
    assert (executed.failure_reason is None) == executed.success


def test_every_task_has_its_three_logs_and_they_pass_the_gates(engine: Engine, tmp_path: Path) -> None:
    agents: dict[str, Agent] = {
        "right": FixedAgent(RIGHT), "wrong": FixedAgent(WRONG), "prose": FixedAgent("No."), "broken": BrokenAgent()
    }  # fmt: skip
    logs = run(engine, tmp_path, agents, TASKS)
    assert set(logs) == {f"before-{task.id}" for task in TASKS}
    for decision, executed, evaluation in logs.values():
        check_gates(decision, executed, evaluation)
    assert {executed.agent_id for _, executed, _ in logs.values()} == set(agents)


def test_a_clock_that_is_set_back_leaves_the_logs_in_order(engine: Engine, tmp_path: Path) -> None:
    logs = run(engine, tmp_path, {"right": FixedAgent(RIGHT)}, TASKS[:3], clock=ticking(timedelta(milliseconds=-1)))
    for decision, executed, evaluation in logs.values():
        check_gates(decision, executed, evaluation)


def test_an_agent_that_fails_is_logged_with_its_reason_and_learned_from(engine: Engine, tmp_path: Path) -> None:
    logs = run(engine, tmp_path, {"broken": BrokenAgent()}, TASKS[:4])
    assert {executed.failure_reason for _, executed, _ in logs.values()} == {"its model is gone"}
    assert {evaluation.overall_score for _, _, evaluation in logs.values()} == {0.0}
    assert BanditState(engine).evidence()["broken", "synthetic-add"].tasks == 4


def test_the_conversation_ends_with_the_answer_as_written_and_its_calls(engine: Engine, tmp_path: Path) -> None:
    [(decision, executed, _)] = run(engine, tmp_path, {"right": FixedAgent(RIGHT)}, TASKS[:1]).values()
    last = executed.messages[-1]
    assert (last.role, last.content) == ("assistant", RIGHT)
    assert [(call.name, call.arguments) for call in last.tool_calls] == [("add", '{"a": 1, "b": 2}')]
    assert executed.messages[:-1] == TASKS[0].question
    assert (decision.source, decision.description) == ("fake:0", "What is 1 plus 2?")


def test_held_out_and_validation_tasks_are_refused_before_anything_runs(engine: Engine, tmp_path: Path) -> None:
    for split in (Split.HELDOUT, Split.VALIDATION):
        agent = FixedAgent(RIGHT)
        with pytest.raises(HeldOutTaskError, match="never routed"):
            run(engine, tmp_path, {"right": agent}, [TASKS[0], benchmark_task("kept", split=split)])
        assert agent.answered == []
        assert closed_segments(tmp_path) == []


def test_rounds_shift_tasks_to_the_better_agent(engine: Engine, tmp_path: Path) -> None:
    agents: dict[str, Agent] = {"right": FixedAgent(RIGHT), "wrong": FixedAgent(WRONG)}
    for start in range(0, 240, 30):
        tasks = [benchmark_task(f"{start + number}") for number in range(30)]
        run(engine, tmp_path / str(start), agents, tasks)
    report = traffic_report(engine, label="before")
    assert report.tasks == 240
    assert report.agents[0].agent_id == "right"
    assert report.agents[0].share > 0.7
    assert [agent.success_rate for agent in report.agents] == [1.0, 0.0]
    assert report.successes == report.agents[0].tasks
