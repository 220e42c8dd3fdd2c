from pathlib import Path
from typing import Any

import pytest

from tests.collection.importers.imports import imported


def run(**fields: Any) -> dict[str, Any]:
    """A run with each quirk of the format: parts, null content, a failed call that the run survives."""
    return {
        "suite_name": "banking",
        "pipeline_name": "gpt-4o-2024-05-13",
        "user_task_id": "user_task_0",
        "injection_task_id": None,
        "attack_type": None,
        "injections": {},
        "messages": [
            {"role": "system", "content": [{"type": "text", "content": "You help."}]},
            {"role": "user", "content": "Pay the bill"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"function": "read_file", "args": {"path": "bill.txt"}, "id": "c1"},
                    {"function": "read_file", "args": {"path": "x"}, "id": ""},
                ],
            },
            {"role": "tool", "content": "1000", "tool_call_id": "c1", "tool_call": {"function": "read_file"}},
            {"role": "tool", "content": "", "tool_call": {"function": "read_file"}, "error": "no such file"},
            {"role": "assistant", "content": [{"type": "text", "text": "Paid."}]},
        ],
        "error": None,
        "utility": True,
        "security": True,
        "duration": 5.5,
        **fields,
    }


def test_a_run_becomes_a_point_with_what_it_says_and_no_more(tmp_path: Path) -> None:
    found = imported(tmp_path, [run()], name="runs.jsonl")
    (execution,), (routing,), (evaluation,) = found.executions, found.routing, found.evaluations
    assert (execution.latency_ms, execution.tokens_used, execution.success) == (5500, None, True)
    assert (execution.tool_call_count, execution.tool_call_success_rate) == (2, 0.5)
    assert [message.content for message in execution.messages][0::4] == ["You help.", "no such file"]
    assert execution.messages[2].tool_calls[0].arguments == '{"path":"bill.txt"}'
    assert (routing.source, routing.description) == ("agentdojo:banking/user_task_0", "Pay the bill")
    assert (evaluation.overall_score, evaluation.rubric_scores.tool) == (1.0, 0.5)
    assert (found.report.format, found.report.tool_calls) == ("agentdojo", 2)
    assert found.report.rules["time-of-file"] == 1


@pytest.mark.parametrize(
    ("utility", "security", "attack", "score", "safety"),
    [
        (True, True, None, 1.0, 1.0),  # without an attack security says nothing
        (True, True, "direct", 0.0, 0.0),  # the attacker reached his goal
        (True, False, "direct", 1.0, 1.0),
        (False, False, "direct", 0.0, 1.0),
    ],
)
def test_an_attack_that_succeeded_is_no_success(
    tmp_path: Path, *, utility: bool, security: bool, attack: str | None, score: float, safety: float
) -> None:
    found = imported(tmp_path, [run(utility=utility, security=security, attack_type=attack)], name="runs.jsonl")
    (evaluation,), (execution,) = found.evaluations, found.executions
    assert (evaluation.overall_score, evaluation.rubric_scores.safety) == (score, safety)
    assert execution.success == bool(score)
    assert (execution.failure_reason is None) == bool(score)


def test_who_calls_himself_local_is_named_by_his_folder(tmp_path: Path) -> None:
    runs = [
        run(pipeline_name="local", _path_agent="llama"),
        run(pipeline_name="local-repeat_user_prompt", _path_agent="llama-repeat_user_prompt"),
        run(pipeline_name="localhost-model", _path_agent="other"),
    ]
    found = imported(tmp_path, runs, name="runs.jsonl")
    assert found.report.agents == ("llama", "llama-repeat_user_prompt", "localhost-model")


def test_later_runs_have_a_time(tmp_path: Path) -> None:
    found = imported(tmp_path, [run(evaluation_timestamp="2025-07-01 10:00:00")], name="runs.jsonl")
    assert found.routing[0].timestamp.isoformat() == "2025-07-01T10:00:00+00:00"
    assert found.report.rules["zoneless-time-as-utc"] == 1


def test_a_run_with_a_field_of_another_type_is_rejected_with_its_line(tmp_path: Path) -> None:
    found = imported(tmp_path, [run(), run(utility="yes"), run(messages=[{"role": "oracle"}])], name="runs.jsonl")
    assert (found.report.points, found.report.rejected) == (1, {"not of the format": 2})
    assert [(example.line, example.detail.split(":")[0]) for example in found.report.examples] == [
        (2, "utility"),
        (3, "messages[0].role"),
    ]
