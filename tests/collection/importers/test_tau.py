"""tau2 and the tau-bench before it."""

import json
from pathlib import Path
from typing import Any

import pytest

from flywheel.collection import json_records
from tests.collection.importers.imports import imported

INFO = {
    "agent_info": {"implementation": "llm_agent", "llm": "gpt-4.1"},
    "environment_info": {"domain_name": "telecom", "policy": "Be kind."},
}


def simulation(number: int = 0, **fields: Any) -> dict[str, Any]:
    """A simulation in which the user calls a tool too, one call fails, and one message has no usage."""
    return {
        "id": f"sim-{number}",
        "task_id": "7",
        "trial": 0,
        "start_time": "2025-08-01T16:20:44.000000",
        "end_time": "2025-08-01T16:20:54.000000",
        "duration": 10.0,
        "termination_reason": "user_stop",
        "agent_cost": 0.02,
        "reward_info": {"reward": 1.0},
        "messages": [
            {"role": "assistant", "content": "Hi!", "tool_calls": None, "usage": None, "cost": 0.0},
            {"role": "user", "content": None, "tool_calls": [call("reboot", "user")]},
            {"role": "tool", "id": "reboot", "content": "done", "requestor": "user", "error": False},
            {
                "role": "assistant",
                "content": "I look.",
                "timestamp": "2025-08-01T16:20:46",
                "tool_calls": [call("look_up"), call("pay")],
                "usage": {"prompt_tokens": 100, "completion_tokens": 20},
            },
            {
                "role": "tool",
                "tool_messages": [
                    {"id": "look_up", "role": "tool", "content": "found", "requestor": "assistant", "error": False},
                    {"id": "pay", "role": "tool", "content": "no money", "requestor": "assistant", "error": True},
                ],
            },
            {"role": "user", "content": "###STOP###", "usage": {"prompt_tokens": 900, "completion_tokens": 900}},
        ],
        **fields,
    }


def call(name: str, requestor: str = "assistant") -> dict[str, Any]:
    return {"id": name, "name": name, "arguments": {"a": 1}, "requestor": requestor}


def results(*simulations: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"timestamp": "2025-08-01", "info": INFO, "tasks": [{"id": "7"}], "simulations": list(simulations), **fields}


def test_a_simulation_becomes_a_point(tmp_path: Path) -> None:
    found = imported(tmp_path, results(simulation()))
    (execution,), (routing,), (evaluation,) = found.executions, found.routing, found.evaluations
    assert (execution.latency_ms, execution.time_to_first_action) == (10_000, 2000)
    assert (execution.tokens_used, execution.output_tokens) == (120, 20)
    assert {use.tool_name: use.success_rate for use in execution.tools_used} == {"look_up": 1.0, "pay": 0.0}
    assert execution.tool_call_count == 2
    assert execution.messages[1].tool_calls[0].name == "reboot"
    assert (routing.task_id, routing.source, routing.selected_agent_id) == (
        "tau2:sim-0",
        "tau2:telecom/7",
        "llm_agent/gpt-4.1",
    )
    assert evaluation.overall_score == 1.0
    assert found.report.fields["costUsd"] == 1


def test_what_a_submitter_left_out_stays_absent(tmp_path: Path) -> None:
    bare = simulation(
        agent_cost=0, messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    )
    del bare["duration"]
    found = imported(tmp_path, results(bare))
    assert found.executions[0].unmeasured == ("latencyMs", "tokensUsed")
    assert found.executions[0].lacking == ()
    assert (found.report.fields["costUsd"], found.report.fields["timeToFirstAction"]) == (0, 0)


def test_part_of_the_reward_is_a_partial_success_and_none_waits(tmp_path: Path) -> None:
    runs = [simulation(1, reward_info={"reward": 0.4}), simulation(2, reward_info=None, termination_reason="timeout")]
    found = imported(tmp_path, results(*runs))
    assert (found.report.points, found.report.waiting) == (1, 1)
    assert [(execution.success, execution.partial_success) for execution in found.executions] == [
        (False, True),
        (False, False),
    ]
    assert found.executions[1].failure_reason == "timeout"


def test_an_agent_without_a_user_is_another_agent_of_another_kind_of_task(tmp_path: Path) -> None:
    info = {**INFO, "agent_info": {"implementation": "llm_agent_solo", "llm": "gpt-4.1"}}
    found = imported(tmp_path, results(simulation(), info=info))
    assert (found.routing[0].source, found.report.agents) == ("tau2:telecom-solo/7", ("llm_agent_solo/gpt-4.1",))


@pytest.mark.parametrize("indent", [None, 1])
def test_a_document_too_large_to_be_held_gives_the_same_simulations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int | None
) -> None:
    content = json.dumps(results(*map(simulation, range(50)), last={"a": [1, {}]}), indent=indent)
    whole = imported(tmp_path / "whole", content)
    monkeypatch.setattr(json_records, "DOCUMENT_BYTES", 1000)
    monkeypatch.setattr("flywheel.collection.json_split.BLOCK_BYTES", 777)
    split = imported(tmp_path / "split", content)
    assert split.executions == whole.executions
    assert len(split.executions) == 50


def test_a_simulation_that_is_none_is_rejected_by_its_place(tmp_path: Path) -> None:
    found = imported(tmp_path, results(simulation(1), simulation(2, reward_info={"reward": 7})))
    (example,) = found.report.examples
    assert (found.report.points, example.item) == (1, "simulations[1]")
    assert "expected 0 to 1, found 7" in example.detail
    assert example.line is not None
    assert example.line > 50


def test_tau_bench_names_agent_and_domain_in_the_file_alone(tmp_path: Path) -> None:
    function = {"name": "get_user", "arguments": '{"id": "a"}'}
    tries = [
        {
            "task_id": 2,
            "reward": reward,
            "info": {"task": {"instruction": "You want a flight."}},
            "traj": [
                {"role": "system", "content": "Policy"},
                {"role": "user", "content": "A flight"},
                {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]},
                {"role": "tool", "tool_call_id": "c", "name": "get_user", "content": "{}"},
            ],
            "trial": trial,
        }
        for trial, reward in enumerate((1.0, 0.0))
    ]
    found = imported(tmp_path, tries, name="gpt-4o-airline.json")
    assert (found.report.format, found.report.agents, found.report.points) == ("tau-bench", ("gpt-4o-airline",), 2)
    assert found.routing[0].source == "tau-bench:airline/2"
    assert found.routing[0].description == "You want a flight."
    assert [execution.success for execution in found.executions] == [True, False]
    assert found.executions[0].tool_call_success_rate is None
    assert found.executions[0].tools_used[0].success_rate is None
