"""MLflow's traces, as MLflow itself writes them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import AssessmentSource, SpanType, Trace

from tests.collection.importers.imports import imported, request

LONG = "word " * 2000


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trace]:
    """A trace of an agent that calls a chat model and two tools, one of which fails, with what was said of it."""
    monkeypatch.chdir(tmp_path)  # a new store keeps its artifacts below the working directory
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")

    @mlflow.trace(name="look_up", span_type=SpanType.TOOL)
    def look_up(key: str) -> str:
        if key == "missing":
            raise KeyError(key)
        return "found"

    @mlflow.trace(name="chat", span_type=SpanType.CHAT_MODEL)
    def chat(messages: list[dict[str, Any]]) -> dict[str, Any]:
        span = mlflow.get_current_active_span()
        assert span is not None
        usage = {"input_tokens": 11, "output_tokens": 4, "total_tokens": 15}
        span.set_attribute("mlflow.chat.tokenUsage", usage)
        span.set_attribute("mlflow.chat.tools", [{"type": "function", "function": {"name": "look_up"}}])
        return {"choices": [{"message": {"role": "assistant", "content": f"{len(messages)} seen"}}]}

    @mlflow.trace(name="helper", span_type=SpanType.AGENT)
    def helper(question: str) -> str:
        look_up("here")
        with pytest.raises(KeyError):
            look_up("missing")
        chat([{"role": "system", "content": "Help."}, {"role": "user", "content": question}])
        return "done"

    helper(LONG)
    trace_id = mlflow.get_last_active_trace_id(thread_local=True)
    assert trace_id is not None
    mlflow.flush_trace_async_logging()
    person = AssessmentSource(source_type="HUMAN", source_id="ann")
    mlflow.log_feedback(trace_id=trace_id, name="quality", value=4, source=person)
    mlflow.log_expectation(trace_id=trace_id, name="answer", value="done", source=person)
    logged: Trace | None = mlflow.get_trace(trace_id)
    assert logged is not None
    yield logged
    mlflow.set_tracking_uri(before)


def test_a_trace_of_the_real_sdk_becomes_a_point(tmp_path: Path, trace: Trace) -> None:
    found = imported(tmp_path, trace.to_json() + "\n", request(score="quality", min=1, max=5), name="t.jsonl")
    (execution,), (routing,), (evaluation,) = found.executions, found.routing, found.evaluations
    assert (found.report.format, routing.task_id) == ("mlflow", f"mlflow:{trace.info.trace_id}")
    assert (routing.selected_agent_id, execution.latency_ms) == ("helper", trace.info.execution_duration)
    assert routing.timestamp.timestamp() * 1000 == pytest.approx(trace.info.request_time)
    (use,) = execution.tools_used
    assert (use.tool_name, use.call_count, use.success_rate) == ("look_up", 2, 0.5)
    assert use.average_latency is not None
    assert execution.time_to_first_action is not None
    assert execution.latency_ms is not None
    assert 0 < 2 * use.average_latency + execution.time_to_first_action <= execution.latency_ms + 1
    assert (execution.tokens_used, execution.output_tokens) == (15, 4)
    assert [message.content for message in execution.messages] == ["Help.", LONG, "2 seen"]
    assert found.report.rules["tool-definitions-left-out"] == 1
    assert evaluation.overall_score == 0.75
    assert [(note.name, note.value, note.source) for note in found.feedback] == [("quality", 4, "user")]


def test_a_list_of_traces_is_read_one_by_one(tmp_path: Path, trace: Trace) -> None:
    found = imported(tmp_path, {"traces": [json.loads(trace.to_json())], "next_page_token": ""}, request(constant=1))
    assert (found.report.read, found.report.points) == (1, 1)


def test_a_preview_is_never_read(tmp_path: Path) -> None:
    info = {"trace_id": "tr-1", "state": "OK", "request_time": 1767225600000, "request_preview": "cut of"}
    found = imported(tmp_path, [{"info": info, "data": {"spans": []}}], request(constant=1), name="t.jsonl")
    assert found.report.rejected == {"no spans": 1}


@pytest.mark.parametrize(("suffix", "of"), [("_unix_nano", int), ("_unix_nano", str), ("", int)])
def test_times_of_spans_are_read_as_each_version_writes_them(tmp_path: Path, suffix: str, of: type) -> None:
    def span(number: int, kind: str, began_ms: int, ended_ms: int) -> dict[str, Any]:
        moments = {"start_time": began_ms, "end_time": ended_ms}
        times = {f"{name}{suffix}": of((1767225600_000 + at_ms) * 10**6) for name, at_ms in moments.items()}
        kinds = {"mlflow.spanType": json.dumps(kind), "mlflow.spanInputs": '"hi"'}
        return {"name": f"s{number}", "parent_span_id": "1" if number else None, "attributes": kinds, **times}

    info = {"trace_id": "tr-1", "state": "OK", "request_time": 1767225600000, "execution_duration": 90}
    spans = [span(0, "AGENT", 0, 90), span(1, "TOOL", 20, 50)]
    found = imported(tmp_path, [{"info": info, "data": {"spans": spans}}], request(constant=1), name="t.jsonl")
    (execution,) = found.executions
    assert (execution.time_to_first_action, execution.tools_used[0].average_latency) == (20, 30)


def test_a_trace_in_progress_is_none(tmp_path: Path) -> None:
    info = {"trace_id": "tr-1", "state": "IN_PROGRESS"}
    found = imported(tmp_path, [{"info": info, "data": {"spans": []}}], request(constant=1), name="t.jsonl")
    assert found.report.rejected == {"not finished": 1}
