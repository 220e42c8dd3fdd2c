from pathlib import Path
from typing import Any

import pytest

from flywheel.collection.ingest import Request
from flywheel.collection.mapping import Mapping, RewardMapping
from tests.collection.importers.imports import imported, request

CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}


def line(**fields: Any) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "developer", "content": "You add."},
            {"role": "user", "content": [{"type": "text", "text": "2+2"}, {"type": "image_url", "image_url": {}}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c", "content": "4"},
            {"role": "assistant", "content": "4", "function_call": {"name": "done", "arguments": "{}"}},
        ],
        "tools": [{"type": "function", "function": {"name": "add"}}],
        "meta": {"rating": 4},
        **fields,
    }


def logged(**fields: Any) -> dict[str, Any]:
    return {
        "timestamp": 1767225600,
        "workload_id": "faq",
        "client_id": "web",
        "latency_s": 1.5,
        "request": {"model": "asked", "messages": [{"role": "user", "content": "2+2"}]},
        "response": {
            "model": "served",
            "choices": [{"message": {"role": "assistant", "content": "4"}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}},
        },
        **fields,
    }


def test_a_line_of_messages_has_a_conversation_and_what_a_mapping_points_to(tmp_path: Path) -> None:
    found = imported(tmp_path, [line()], request(score="meta.rating", min=1, max=5, threshold=0.7), name="a.jsonl")
    (execution,), (evaluation,) = found.executions, found.evaluations
    assert evaluation.overall_score == 0.75
    assert execution.success
    assert [message.role for message in execution.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert execution.messages[1].content == "2+2\n[image_url]"
    assert execution.tool_call_count == 2
    assert execution.tool_call_success_rate is None
    assert found.report.rules["parts-other-than-text-as-their-type"] == 1
    assert found.report.rules["tool-definitions-left-out"] == 1
    assert "reasoning-left-out" not in found.report.rules
    assert found.report.agents == ("unnamed-agent",)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("asked", ["2+2", [{"type": "text", "text": "2+2"}]])  # the quick reading and the careful one
def test_reasoning_that_a_message_has_no_place_for_is_named(tmp_path: Path, field: str, asked: Any) -> None:
    said = [{"role": "user", "content": asked}, {"role": "assistant", "content": "4", field: "two and two"}]
    found = imported(tmp_path, [{"messages": said}], request(constant=1), name="a.jsonl")
    assert found.report.rules["reasoning-left-out"] == 1
    assert "tool-definitions-left-out" not in found.report.rules
    assert [message.content for message in found.executions[0].messages] == ["2+2", "4"]


def test_a_logged_request_has_time_agent_and_tokens(tmp_path: Path) -> None:
    found = imported(tmp_path, [logged(), logged(timestamp=1767225600123)], request(constant=0), name="a.jsonl")
    execution, routing = found.executions[0], found.routing[0]
    assert (execution.latency_ms, execution.tokens_used, execution.thinking_tokens) == (1500, 7, 1)
    assert (execution.success, execution.failure_reason) == (False, "length")
    assert (routing.timestamp.isoformat(), routing.selected_agent_id) == ("2026-01-01T00:00:00+00:00", "served")
    assert found.routing[1].timestamp.microsecond == 123_000
    assert execution.messages[-1].content == "4"


@pytest.mark.parametrize(
    ("mapping", "value", "score"),
    [
        ({"min": 0, "max": 10}, 2, 0.2),
        ({"min": 0, "max": 10, "direction": "lower"}, 2, 0.8),
        ({"values": {"good": 0.9}}, "good", 0.9),
        ({}, True, 1.0),
    ],
)
def test_a_mapping_scales_turns_and_names(tmp_path: Path, mapping: dict[str, Any], value: Any, score: float) -> None:
    found = imported(tmp_path, [line(rating=value)], request(score="rating", **mapping), name="a.jsonl")
    assert found.evaluations[0].overall_score == pytest.approx(score)


def test_a_score_that_is_not_there_waits_or_is_rejected(tmp_path: Path) -> None:
    waiting = imported(tmp_path / "1", [line()], request(score="rating"), name="a.jsonl")
    rejected = imported(tmp_path / "2", [line()], request(score="rating", missing="reject"), name="a.jsonl")
    assert (waiting.report.waiting, waiting.report.points, waiting.evaluations) == (1, 0, [])
    assert rejected.report.rejected == {"no reward": 1}


def test_a_label_that_a_mapping_does_not_know_is_rejected(tmp_path: Path) -> None:
    found = imported(tmp_path, [line(rating="fine")], request(score="rating", values={"good": 1}), name="a.jsonl")
    assert "'fine', a label without a reward" in found.report.examples[0].detail


def test_agents_and_task_types_can_be_named(tmp_path: Path) -> None:
    mapping = Mapping(reward=RewardMapping(constant=1), task_types={"faq": "research"}, agents={"served": "ours"})
    found = imported(tmp_path, [logged()], Request(mapping=mapping), name="a.jsonl")
    assert (found.report.task_types, found.report.agents) == (("research",), ("ours",))


def test_a_conversation_without_an_answer_is_none(tmp_path: Path) -> None:
    found = imported(tmp_path, [{"messages": [{"role": "user", "content": "?"}]}], request(constant=1), name="a.jsonl")
    assert found.report.rejected == {"no answer": 1}
