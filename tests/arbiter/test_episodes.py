"""Episodes: an agent is asked turn by turn, and what is logged is what happened."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine

from flywheel.arbiter.agents.reference import ReferenceAgent
from flywheel.arbiter.agents.strategy import Agent, Answer, Progress, failed_answer, ignore_progress
from flywheel.arbiter.agents.text_calls import as_asked
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.episodes import Episode, play
from flywheel.arbiter.outcomes import Outcome
from flywheel.arbiter.registry import AgentProfile, AgentRegistry
from flywheel.collection.collector import Collector
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.database import connect
from flywheel.errors import AgentError, HeldOutTaskError, TaskSourceError
from flywheel.records import Complexity, Evaluation, Execution, Message, RoutingDecision, ToolCall, decode_log
from flywheel.settings import TasksSettings
from flywheel.tasks.catalog import environment_of, run_starter
from flywheel.tasks.environment import MadeCall, Observation, Run, Verification, mandatory_check
from flywheel.tasks.source import AgentTask, SourceTask, Split
from tests.arbiter.test_arbiter import check_gates, ticking
from tests.fakes import FixedAgent, benchmark_task

SETTINGS = TasksSettings(sources=("code-repair", "text-transformation"))


class Lift:
    """An environment: a lift that goes up one floor a call and is done at the third, when the agent says so."""

    name = "lift"

    def __init__(self, broken: str = "", *, boastful: bool = False) -> None:
        self.broken = broken
        self.boastful = boastful

    def tasks(self) -> Sequence[SourceTask]:
        return [self.by_id(f"lift:{number}") for number in range(4)]

    def by_id(self, task_id: str) -> SourceTask:
        return SourceTask(
            id=task_id,
            task_type="tool-calling",
            category="lift",
            complexity=Complexity.STANDARD,
            question=(Message(role="user", content="Take me to the third floor."),),
            split=Split.TRAIN,
        )

    def run(self, task: SourceTask) -> Run:
        if task.id == self.broken:
            raise RuntimeError("the rope is torn")
        return LiftRun(task, boastful=self.boastful)


class LiftRun:
    def __init__(self, task: SourceTask, *, boastful: bool) -> None:
        self.task = task
        self.boastful = boastful
        self.floor = 0

    def opening(self) -> tuple[Message, ...]:
        return self.task.question

    def known_answer(self) -> str:
        return "up" if self.floor < 3 else "There you are."

    def step(self, answer: str) -> Observation:
        if answer != "up":
            return Observation(format=1.0, information_gain=0.0, progress=float(self.floor == 3))
        self.floor += 1
        call = ToolCall(name="up", arguments="{}", id=f"call-{self.floor}")
        said = Message(role="tool", name="up", tool_call_id=call.id, content=f"floor {self.floor}")
        made = MadeCall(call=call, right=self.floor <= 3)
        gain = 1 / 3 if made.right else 0.0
        progress = self.floor / 3 if made.right or self.boastful else 0.0
        return Observation(messages=(said,), calls=(made,), format=1.0, information_gain=gain, progress=progress)

    def verify(self) -> Verification:
        there = float(self.floor == 3)
        return Verification(
            checks=(mandatory_check("there", there),),
            tool=1.0,
            task=min(1.0, self.floor / 3),
            minimal=1.0,
            reason="as expected" if there else f"on floor {self.floor}",
        )


class Scripted:
    """Says its lines one after the other, whatever the task, and remembers what it was asked."""

    def __init__(self, *lines: str | None) -> None:
        self.lines = lines
        self.asked: list[list[AgentTask]] = []

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        line = self.lines[min(len(self.asked), len(self.lines) - 1)]
        self.asked.append(list(tasks))
        if line is None:
            return [failed_answer(task.question, "the line is dead", latency_ms=1.0) for task in tasks]
        return [
            Answer(
                text=line,
                messages=task.question,
                prompt_tokens=10 * len(task.question),
                output_tokens=5,
                latency_ms=2.0,
                thinking_tokens=1,
                time_to_first_action_ms=0.5,
            )
            for task in tasks
        ]


@pytest.fixture
def engine(database_url: str) -> Engine:
    return connect(database_url)


Logs = dict[str, tuple[RoutingDecision, Execution, Evaluation]]


def run_all(
    engine: Engine, folder: Path, agent: Agent, tasks: Sequence[SourceTask], start: Callable[[SourceTask], Run]
) -> tuple[list[Outcome], Logs]:
    """Run one round with one agent; its outcomes, and the three logs by the task's id."""
    AgentRegistry(engine).register(AgentProfile(id="one", kind="reference", usd_per_million_input_tokens=10.0))
    outcomes: list[Outcome] = []
    try:
        with Collector(folder, "acme") as collector:
            arbiter = Arbiter(
                engine,
                collector,
                tenant_id="acme",
                label="before",
                make_agent=lambda _: agent,
                clock=ticking(),
                rng=np.random.default_rng(3),
                start_run=start,
            )
            outcomes = arbiter.run(tasks)
    finally:
        logs: dict[str, list[object]] = {}
        for path in closed_segments(folder):
            for item in read_segment(path):
                assert isinstance(item, Frame)
                log = decode_log(item.payload)
                logs.setdefault(log.task_id.removeprefix("before-"), []).append(log)
    return outcomes, {task_id: tuple(found) for task_id, found in logs.items()}  # type: ignore[misc]


def training(name: str, count: int) -> list[SourceTask]:
    return [task for task in environment_of(name, SETTINGS).tasks() if task.split is Split.TRAIN][:count]


def one_episode(agent: Agent) -> Episode:
    (episode,) = play(agent, Lift().tasks()[:1], Lift().run)
    return episode


def test_episodes_go_on_side_by_side_a_call_of_the_agent_for_each_turn() -> None:
    agent = Scripted("up", "up", "up", "Here we are.")
    done: list[tuple[int, int]] = []
    episodes = play(agent, Lift().tasks(), Lift().run, on_progress=lambda a, b: done.append((a, b)))
    assert [len(batch) for batch in agent.asked] == [4, 4, 4, 4]
    assert all(episode.verification and episode.verification.passed for episode in episodes)
    assert done == [(0, 4), (0, 4), (0, 4), (4, 4)]


def test_each_turn_is_asked_with_all_that_was_said_before() -> None:
    agent = Scripted("up", "stop")
    one_episode(agent)
    assert [(m.role, m.content) for m in agent.asked[1][0].question] == [
        ("user", "Take me to the third floor."),
        ("assistant", "up"),
        ("user", "Result of up:\nfloor 1"),
    ]


def test_results_of_several_calls_are_one_message_of_the_user() -> None:
    said = [Message(role="tool", name=name, content=name) for name in ("a", "b")]
    assert [m.content for m in as_asked(said)] == ["Result of a:\na\n\nResult of b:\nb"]


def test_what_is_logged_is_what_was_said_called_and_spent(engine: Engine, tmp_path: Path) -> None:
    agent = Scripted("up", "up", "up", "up", "stop")
    _, logs = run_all(engine, tmp_path, agent, Lift().tasks()[:1], Lift().run)
    decision, executed, evaluation = logs["lift:0"]
    check_gates(decision, executed, evaluation)
    assert [m.role for m in executed.messages] == ["user", *("assistant", "tool") * 4, "assistant"]
    assert executed.messages[1].tool_calls[0].id == executed.messages[2].tool_call_id == "call-1"
    assert (executed.tool_call_count, executed.tool_call_success_rate) == (4, 0.75)
    assert [(tool.tool_name, tool.call_count) for tool in executed.tools_used] == [("up", 4)]
    assert executed.tokens_used == sum(10 * questions for questions in (1, 3, 5, 7, 9)) + 5 * 5
    assert (executed.output_tokens, executed.thinking_tokens, executed.latency_ms) == (25, 5, 10.0)
    assert executed.time_to_first_action == 0.5
    assert (executed.success, executed.partial_success, executed.failure_reason) == (False, True, "on floor 4")
    assert [turn.tool_called for turn in evaluation.turn_data] == ["up"] * 4 + [None]
    assert {gate.name: gate.passed for gate in evaluation.quality_gates} == {
        "answered": True,
        "there": False,
        "safe": True,
    }


def test_an_agent_that_fails_in_the_middle_has_failed_with_its_reason(engine: Engine, tmp_path: Path) -> None:
    _, logs = run_all(engine, tmp_path, Scripted("up", "up", "up", None), Lift().tasks()[:1], Lift().run)
    decision, executed, evaluation = logs["lift:0"]
    check_gates(decision, executed, evaluation)
    assert (executed.failure_reason, executed.partial_success, evaluation.overall_score) == (
        "the line is dead",
        False,
        0,
    )
    assert executed.tool_call_count == 3, "what was done before is not forgotten"


def test_an_agent_that_cannot_answer_at_all_fails_all_of_its_episodes() -> None:
    class Gone:
        def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
            raise AgentError("its model is gone")

    episodes = play(Gone(), Lift().tasks(), Lift().run)
    assert {episode.failure for episode in episodes} == {"its model is gone"}


def test_an_environment_that_breaks_is_named_and_the_others_are_run_and_learned_from(
    engine: Engine, tmp_path: Path
) -> None:
    lift = Lift(broken="lift:2")
    with pytest.raises(TaskSourceError, match=r"1 tasks could not .*lift:2: RuntimeError: the rope is torn"):
        run_all(engine, tmp_path, ReferenceAgent(), lift.tasks(), lift.run)
    assert AgentRegistry(engine).get("one").record.tasks == 3


def test_a_score_that_the_pool_would_not_take_breaks_the_episode_and_not_the_log() -> None:
    (episode,) = play(Scripted("up"), Lift().tasks()[:1], Lift(boastful=True).run)
    assert episode.verification is None
    assert "progress" in (episode.broken or "")
    assert len(episode.turns) == 4


def test_the_arbiter_runs_a_mixed_list_each_task_as_its_type_asks(engine: Engine, tmp_path: Path) -> None:
    tasks: list[SourceTask] = [*training("code-repair", 3), *training("text-transformation", 3)]
    tasks += [benchmark_task(str(number)) for number in range(3)]
    tasks = [tasks[index] for index in (0, 6, 3, 1, 7, 4, 2, 8, 5)]
    start = run_starter(SETTINGS)
    outcomes, logs = run_all(engine, tmp_path, ReferenceAgent(), tasks, start)
    assert {outcome.source_id for outcome in outcomes} == {task.id for task in tasks} == set(logs)
    for task in tasks:
        decision, executed, evaluation = logs[task.id]
        check_gates(decision, executed, evaluation)
        assert (decision.source, decision.task_type, executed.success) == (task.id, task.task_type, True)
        assert evaluation.overall_score > 0.9
    assert {gate.name for gate in logs[tasks[0].id][2].quality_gates} == {"answered", "tests_pass", "safe"}


def test_a_benchmark_s_task_is_asked_in_the_agent_s_own_style() -> None:
    source = environment_of("synthetic", TasksSettings(source="synthetic", categories=("synthetic-add",)))
    task = source.tasks()[0]
    agent = Scripted("nothing")
    (episode,) = play(agent, [task], source.run)
    assert agent.asked == [[task]]
    assert episode.transcript[:-1] == task.question
    assert episode.verification is not None
    assert not episode.verification.passed


def test_turns_with_feedback_are_logged_as_iterations(engine: Engine, tmp_path: Path) -> None:
    (task,) = training("code-repair", 1)
    run = environment_of("code-repair", SETTINGS).run(task)
    agent = Scripted("I am thinking.", run.known_answer())
    _, logs = run_all(engine, tmp_path, agent, [task], run_starter(SETTINGS))
    _, executed, evaluation = logs[task.id]
    assert executed.success
    assert [(one.iteration, one.quality_score) for one in executed.iterations] == [(1, 0.0), (2, 1.0)]
    assert "no program" in (executed.iterations[0].feedback or "")
    assert sum(one.tokens_used for one in executed.iterations) == executed.tokens_used
    assert sum(turn.information_gain for turn in evaluation.turn_data) == pytest.approx(1.0)


def test_what_no_answer_may_contain_fails_an_episode_too(engine: Engine, tmp_path: Path) -> None:
    (task,) = training("text-transformation", 1)
    known = environment_of("text-transformation", SETTINGS).run(task).known_answer()
    start = run_starter(SETTINGS)
    _, logs = run_all(engine, tmp_path, FixedAgent(f"{known} rm -rf everything"), [task], start)
    _, executed, evaluation = logs[task.id]
    assert (executed.success, executed.failure_reason) == (False, "the answer is unsafe")
    assert evaluation.overall_score == 0.0


def test_held_out_tasks_of_environments_are_never_routed(engine: Engine, tmp_path: Path) -> None:
    for name in SETTINGS.sources:
        kept = next(task for task in environment_of(name, SETTINGS).tasks() if task.split is Split.HELDOUT)
        agent = FixedAgent("anything")
        with pytest.raises(HeldOutTaskError, match=kept.id):
            run_all(engine, tmp_path / name, agent, [*training(name, 1), kept], run_starter(TasksSettings()))
        assert agent.answered == []


def test_agentdojo_s_calls_are_in_the_log(engine: Engine, tmp_path: Path) -> None:
    pytest.importorskip("agentdojo.task_suite", reason="the extra [agentdojo] is not installed")
    dojo = environment_of("agentdojo", SETTINGS)
    tasks = [task for task in dojo.tasks() if task.split is Split.TRAIN and task.category == "slack"][:3]
    _, logs = run_all(engine, tmp_path, ReferenceAgent(), tasks, run_starter(TasksSettings(sources=("agentdojo",))))
    for task in tasks:
        decision, executed, evaluation = logs[task.id]
        check_gates(decision, executed, evaluation)
        assert executed.success
        calls = [call for message in executed.messages for call in message.tool_calls]
        assert len(calls) == executed.tool_call_count == len(evaluation.turn_data) - 1
        assert all(isinstance(json.loads(call.arguments), dict) for call in calls)
        assert decision.requirements[0].startswith("tool:")


def test_how_small_a_change_of_code_was_is_logged_and_multiplies_the_turns_reward(
    engine: Engine, tmp_path: Path
) -> None:
    repairs = environment_of("code-repair", SETTINGS)
    clamp = repairs.by_id("code-repair:clamp")
    known = repairs.run(clamp).known_answer()
    logged = {}
    for name, said in (("known", known), ("padded", known.replace("```python\n", "```python\n" + "# remark\n" * 40))):
        _, logs = run_all(engine, tmp_path / name, Scripted(said), [clamp], repairs.run)
        ((_, _, logged[name]),) = logs.values()
    for evaluation in logged.values():
        metrics = evaluation.minimal_diff_metrics
        assert metrics is not None
        (turn,) = evaluation.turn_data
        assert turn.turn_reward == pytest.approx(
            (0.4 * turn.information_gain + 0.3 + 0.2 * turn.task_progress + 0.1) * metrics.reward_multiplier
        )
    assert logged["known"].overall_score > logged["padded"].overall_score


def test_what_changes_no_code_has_no_minimal_diff(engine: Engine, tmp_path: Path) -> None:
    _, logs = run_all(engine, tmp_path, Scripted("up"), Lift().tasks()[:1], Lift().run)
    assert [evaluation.minimal_diff_metrics for _, _, evaluation in logs.values()] == [None]
