"""Tasks for an agent that their caller names, and answers that cannot be taken back."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from flywheel.arbiter.agents.reference import ReferenceAgent
from flywheel.arbiter.agents.strategy import Agent, Answer, Pieces
from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.running.streaming import TextDelta, Watch
from flywheel.arbiter.task import Task
from flywheel.errors import AgentError, UnsupportedOptionError
from flywheel.records import RoutingDecision
from flywheel.tasks.options import GenerationOptions
from flywheel.tasks.source import AgentTask
from tests.arbiter.running.service import ScriptedAgent, broken, logs_of, replaced, service, task
from tests.fakes import benchmark_task


class Breaking(ScriptedAgent):
    """Breaks in the midst of its answer."""

    def stream(self, asked: AgentTask, *, to: Pieces) -> Answer:
        to.send("0.9 and ")
        raise AgentError("its model is gone")


def test_the_named_agent_does_it_and_nothing_is_learned(engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path, {"a": ScriptedAgent("0.9"), "b": ScriptedAgent("0.8")}) as arbiter:
        results = [arbiter.execute_task(replaced(number, agent_id="b")) for number in range(6)]
        assert arbiter.route(replaced(9, agent_id="b")).selected_agent_id == "b"
    assert {result.agent_id for result in results} == {"b"}
    assert {result.status for result in results} == {"succeeded"}
    assert results[0].decision.candidate_agents == ()
    assert BanditState(engine).evidence() == {}
    assert logs_of(tmp_path)["t1"].counts == (1, 1, 1)


def test_a_named_agent_that_fails_is_not_replaced(engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path, {"a": ScriptedAgent("0.9"), "b": broken()}) as arbiter:
        result = arbiter.execute_task(replaced(1, agent_id="b"))
    assert result.failure is not None
    assert (result.failure.kind, result.agent_id, len(result.attempts)) == ("agent-error", "b", 1)


def test_an_agent_that_is_not_there_is_no_agent(engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path, {"a": ScriptedAgent("0.9")}) as arbiter:
        result = arbiter.execute_task(replaced(1, agent_id="nobody"))
    assert result.failure is not None
    assert (result.failure.kind, result.failure.reason) == ("no-agent", "no agent 'nobody' is active")


def test_agents_that_cannot_honour_an_option_do_not_get_the_task(engine: Engine, tmp_path: Path) -> None:
    wanted = replaced(1, options=GenerationOptions(response_format={"type": "json_object"}))
    unable = {"unable": ScriptedAgent("0.9")}
    with service(engine, tmp_path, unable, profiles=lambda _: {"kind": "local"}) as arbiter:
        with pytest.raises(UnsupportedOptionError, match="unable, of kind local, cannot honour response_format"):
            arbiter.route(wanted)
        result = arbiter.execute_task(wanted)
        assert result.failure is not None
        assert (result.failure.kind, result.failure.refused) == ("no-agent", True)
    able = {"able": ScriptedAgent("0.9")}
    with service(engine, tmp_path, able, profiles=lambda _: {"kind": "openai"}) as arbiter:
        assert [one.agent_id for one in arbiter.route(wanted).candidate_agents] == ["able"]


def test_who_looks_answers_up_is_not_asked_what_nobody_published(engine: Engine, tmp_path: Path) -> None:
    agents: dict[str, Agent] = {"finds": ScriptedAgent("0.9"), "looks-up": ReferenceAgent()}
    kinds = {"looks-up": {"kind": "reference"}}
    published = Task.of_source(benchmark_task(), id="t2")
    with service(engine, tmp_path, agents, profiles=lambda name: kinds.get(name, {})) as arbiter:
        assert [one.agent_id for one in arbiter.route(task(1)).candidate_agents] == ["finds"]
        assert {one.agent_id for one in arbiter.route(published).candidate_agents} == {"finds", "looks-up"}


def test_what_cannot_be_taken_back_is_not_begun_anew(engine: Engine, tmp_path: Path) -> None:
    pieces: list[TextDelta] = []
    decisions: list[RoutingDecision] = []
    with service(engine, tmp_path, {"a": Breaking()}) as arbiter:
        arbiter.execute_task(
            task(0), watch=Watch(on_text=pieces.append, on_decision=decisions.append, irrevocable=True)
        )
    assert [piece.text for piece in pieces] == ["0.9 and "]
    pieces.clear()
    with service(engine, tmp_path / "more", {"a": ScriptedAgent("0.3 poor", "0.9 better")}) as arbiter:
        bound = arbiter.execute_task(task(1), watch=Watch(on_text=pieces.append, irrevocable=True))
        free = arbiter.execute_task(task(2))
    assert (bound.text, [piece.text for piece in pieces]) == ("0.3 poor", ["0.3 poor"])
    assert free.text == "0.9 better"
    assert [one.selected_agent_id for one in decisions] == ["a"]
