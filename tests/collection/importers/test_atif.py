"""ATIF, as its own package writes it and as earlier versions were."""

from pathlib import Path
from typing import Any

import pytest

from tests.collection.importers.imports import imported, request


def trajectory(version: str = "ATIF-v1.4", **fields: Any) -> dict[str, Any]:
    return {
        "schema_version": version,
        "session_id": "s-1",
        "agent": {"name": "terminus", "version": "2", "model_name": "m"},
        "steps": [
            {"step_id": 1, "timestamp": "2026-01-01T00:00:00Z", "source": "user", "message": "List files"},
            {
                "step_id": 2,
                "timestamp": "2026-01-01T00:00:01Z",
                "source": "agent",
                "message": "I look",
                "reasoning_content": "hm",
                "tool_calls": [{"tool_call_id": "c", "function_name": "ls", "arguments": {"path": "."}}],
                "observation": {"results": [{"source_call_id": "c", "content": "a.txt"}]},
                "metrics": metrics(10, 3),
            },
            {
                "step_id": 3,
                "timestamp": "2026-01-01T00:00:03Z",
                "source": "agent",
                "message": "a.txt",
                "metrics": metrics(20, 2),
            },
        ],
        "extra": {"reward": 0.5},
        **fields,
    }


def metrics(prompt: int, completion: int) -> dict[str, Any]:
    ids = list(range(completion))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "completion_token_ids": ids,
        "logprobs": [-0.1] * completion,
    }


def test_a_trajectory_becomes_a_point(tmp_path: Path) -> None:
    found = imported(tmp_path, trajectory(), request(score="extra.reward"))
    (execution,), (routing,), (evaluation,) = found.executions, found.routing, found.evaluations
    assert (execution.latency_ms, execution.time_to_first_action) == (3000, 1000)
    assert (execution.tokens_used, execution.output_tokens, execution.tool_call_count) == (35, 5, 1)
    assert [message.role for message in execution.messages] == ["user", "assistant", "tool", "assistant"]
    assert (routing.task_id, routing.selected_agent_id) == ("atif:s-1", "terminus/m")
    assert evaluation.overall_score == 0.5
    assert found.report.fit == {"sft": 1, "onPolicyRl": 1}
    assert found.report.fields["tokenIds"] == 1
    assert found.report.rules["reasoning-left-out"] == 1


def test_token_ids_are_counted_and_left_out(tmp_path: Path) -> None:
    imported(tmp_path, trajectory(), request(constant=1))
    (segment,) = (tmp_path / "segments").glob("*.segment")
    assert b"completion_token_ids" not in segment.read_bytes()


def test_without_log_probabilities_a_trajectory_is_not_fit_for_on_policy_training(tmp_path: Path) -> None:
    bare = trajectory()
    del bare["steps"][2]["metrics"]["logprobs"]
    assert imported(tmp_path, bare, request(constant=1)).report.fit == {"sft": 1, "onPolicyRl": 0}


@pytest.mark.parametrize("version", ["ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7", "ATIF-v1.8"])
def test_all_versions_are_read(tmp_path: Path, version: str) -> None:
    assert imported(tmp_path, trajectory(version), request(constant=1)).report.points == 1


def test_an_unknown_version_is_rejected_by_name(tmp_path: Path) -> None:
    found = imported(tmp_path, trajectory("ATIF-v9.0"), request(constant=1))
    assert found.report.rejected == {"unknown version": 1}


def test_later_versions_have_parts_and_subagents_and_no_session(tmp_path: Path) -> None:
    later = trajectory("ATIF-v1.7", trajectory_id="t-1", subagent_trajectories=[trajectory()])
    del later["session_id"]
    later["steps"][0]["message"] = [{"type": "text", "text": "List files"}]
    later["agent"]["tool_definitions"] = [{"type": "function", "function": {"name": "ls"}}]
    later["steps"][1]["observation"]["results"][0] = {"subagent_trajectory_ref": [{"trajectory_id": "t-2"}]}
    found = imported(tmp_path, later, request(constant=1))
    assert found.routing[0].task_id == "atif:t-1"
    assert found.report.rules["tool-definitions-left-out"] == 1
    assert [message.content for message in found.executions[0].messages][:3] == ["List files", "I look", "[subagent]"]


def test_what_the_real_package_writes_comes_back(tmp_path: Path) -> None:
    atif = pytest.importorskip("atif", reason="the package atif is not installed")
    model = atif.Trajectory.model_validate(trajectory("ATIF-v1.7"))
    found = imported(tmp_path, model.model_dump_json(exclude_none=True), request(constant=1))
    assert found.report.points == 1
    assert found.executions[0].tokens_used == 35
