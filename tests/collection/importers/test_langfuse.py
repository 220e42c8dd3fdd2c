from pathlib import Path
from typing import Any

from tests.collection.importers.imports import imported, request


def observation(**fields: Any) -> dict[str, Any]:
    return {
        "id": "o",
        "trace_id": "t1",
        "type": "SPAN",
        "parent_observation_id": "",
        "start_time": "2026-03-01 10:00:00.000000",
        "end_time": "2026-03-01 10:00:02.500000",
        "name": "support",
        "level": "DEFAULT",
        "input": "hello",
        "output": "bye",
        "latency": 2500,
        **fields,
    }


GENERATION = observation(
    id="g",
    type="GENERATION",
    parent_observation_id="o",
    name="llm",
    start_time="2026-03-01 10:00:01.000000",
    provided_model_name="gpt-4o",
    input='[{"role":"system","content":"Help."},{"role":"user","content":"hello"}]',
    output='{"role":"assistant","content":"bye"}',
    usage_details={"input": 10, "output": 2, "total": 12},
    total_cost=0.001,
    tool_definitions='{"search": {}}',
)
TOOLS = [
    observation(
        id=f"x{level}",
        parent_observation_id="o",
        type="TOOL",
        name="search",
        level=level,
        start_time=f"2026-03-01 10:00:00.{start}00000",
        end_time="2026-03-01 10:00:00.900000",
    )
    for level, start in (("DEFAULT", 3), ("ERROR", 6))
]


def score(**fields: Any) -> dict[str, Any]:
    return {
        "id": "s",
        "trace_id": "t1",
        "observation_id": None,
        "timestamp": "2026-03-01 11:00:00.000000",
        "name": "stars",
        "value": 4,
        "source": "ANNOTATION",
        "data_type": "NUMERIC",
        "string_value": None,
        **fields,
    }


def test_rows_of_a_trace_become_a_point_in_whatever_order(tmp_path: Path) -> None:
    rows = [score(), GENERATION, *TOOLS, observation()]
    found = imported(tmp_path, rows, request(score="stars", min=0, max=5), name="export.jsonl")
    (execution,), (routing,), (evaluation,) = found.executions, found.routing, found.evaluations
    assert (routing.task_id, routing.selected_agent_id) == ("langfuse:t1", "support")
    assert routing.timestamp.isoformat() == "2026-03-01T10:00:00+00:00"
    assert (execution.latency_ms, execution.tokens_used, execution.output_tokens) == (2500, 12, 2)
    assert [message.content for message in execution.messages] == ["Help.", "hello", "bye"]
    (use,) = execution.tools_used
    assert (use.tool_name, use.call_count, use.success_rate, use.average_latency) == ("search", 2, 0.5, 450)
    assert execution.time_to_first_action == 300
    assert evaluation.overall_score == 0.8
    assert [(note.name, note.source) for note in found.feedback] == [("stars", "reviewer")]
    assert found.report.read == 1
    assert found.report.rules["tool-definitions-left-out"] == 1


def test_the_unit_of_latency_does_not_matter_where_start_and_end_are_given(tmp_path: Path) -> None:
    for number, latency in enumerate((2500, 2.5)):  # milliseconds before 2026-04-01, seconds since
        rows = [observation(latency=latency), score()]
        found = imported(tmp_path / str(number), rows, request(score="stars", max=5), name="export.jsonl")
        assert found.executions[0].latency_ms == 2500


def test_a_category_is_its_name_and_not_its_index(tmp_path: Path) -> None:
    verdict = score(name="verdict", value=1, data_type="CATEGORICAL", string_value="good")
    found = imported(
        tmp_path, [observation(), verdict], request(score="verdict", values={"good": 0.9}), name="export.jsonl"
    )
    assert found.evaluations[0].overall_score == 0.9


def test_the_older_layout_has_camel_case_and_all_in_the_trace(tmp_path: Path) -> None:
    trace = {
        "id": "t1",
        "timestamp": "2026-03-01T10:00:00Z",
        "name": "support",
        "input": {"question": "hello"},
        "output": "bye",
        "latency": 2.5,
        "observations": [
            {"id": "g", "traceId": "t1", "type": "GENERATION", "startTime": "2026-03-01T10:00:00Z", "name": "llm"}
        ],
        "scores": [{"name": "ok", "value": 1, "dataType": "BOOLEAN", "source": "API", "traceId": "t1"}],
    }
    found = imported(tmp_path, {"trace": trace, "observations": trace["observations"], "scores": trace["scores"]})
    assert found.report.rejected == {"no mapping": 1}
    found = imported(
        tmp_path,
        {"trace": trace, "observations": trace["observations"], "scores": trace["scores"]},
        request(score="ok"),
    )
    assert found.evaluations[0].overall_score == 1.0
    assert [message.content for message in found.executions[0].messages] == ['{"question":"hello"}', "bye"]
    assert found.executions[0].unmeasured == ("latencyMs", "tokensUsed")


def test_scores_without_their_observations_say_what_to_do(tmp_path: Path) -> None:
    found = imported(tmp_path, [score()], request(score="stars", max=5), name="scores.jsonl")
    assert found.report.rejected == {"no observations": 1}
    assert "give observations and scores together" in found.report.examples[0].detail
