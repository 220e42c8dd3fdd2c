"""A task logged natively, exported by the SDK of the other side and imported, is equal in all that the format carries.

The exporters below say what an agent's instrumentation would say while it does the task of ``native_task``. What a
format has no place for must be absent in what was imported, and not filled in.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import openai
import pytest
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context, use_span

from flywheel.collection import Collector
from flywheel.collection.ingest import Request
from flywheel.records import (
    Evaluation,
    Execution,
    Message,
    RoutingDecision,
    ToolUse,
    decode_log,
)
from tests.collection.importers.imports import Imported, imported, request
from tests.collection.importers.native_task import (
    ANSWERED,
    ASKED,
    AT,
    BEFORE,
    FOUND,
    REFUSED,
    SCHEDULE,
    SYSTEM,
    USAGE,
    USER,
    Native,
    made,
)
from tests.collection.importers.test_otlp_sdks import Recorded
from tests.collection.reading import payloads_in

LOGS = Path(__file__).with_name("inspect_logs")


@pytest.fixture(params=[True, False], ids=["success", "failure"])
def native(request: pytest.FixtureRequest, tmp_path: Path) -> Native:
    """The task as the collector wrote it."""
    task = made(success=request.param)
    with Collector(tmp_path / "native", "acme", remove_identifiers=False) as collector:
        written = (
            collector.log_routing_decision(task.routing),
            collector.log_execution(task.execution),
            collector.log_evaluation(task.evaluation),
        )
    assert all(written)
    routing, execution, evaluation = map(decode_log, payloads_in(tmp_path / "native"))
    assert isinstance(routing, RoutingDecision)
    assert isinstance(execution, Execution)
    assert isinstance(evaluation, Evaluation)
    return Native(routing, execution, evaluation)


def nanoseconds(milliseconds: int) -> int:
    return (int(AT.timestamp()) * 1_000 + milliseconds) * 1_000_000


# --- OpenTelemetry --------------------------------------------------------------------------------------------------


@contextmanager
def spanned(tracer: Tracer, name: str, parent: Span | None, **attributes: Any) -> Iterator[Span]:
    start, end = SCHEDULE[name]
    within = None if parent is None else set_span_in_context(parent)
    span = tracer.start_span(name, context=within, attributes=attributes, start_time=nanoseconds(start))
    yield span
    span.end(nanoseconds(end))


def parts_of(message: Message) -> dict[str, Any]:
    """A message by the GenAI conventions."""
    if message.role == "tool":
        part = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
        return {"role": "tool", "parts": [part]}
    parts: list[dict[str, Any]] = [{"type": "text", "content": message.content}]
    for call in message.tool_calls:
        arguments = json.loads(call.arguments)
        parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
    return {"role": message.role, "parts": parts}


def by_opentelemetry(native: Native, folder: Path) -> Imported:
    recorded = Recorded()
    tracer = recorded.provider.get_tracer("host")
    called = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": native.execution.agent_id}
    with spanned(tracer, "root", None, **called) as root:
        for name, given, said in (("ask", BEFORE[:2], ASKED), ("answer", BEFORE, ANSWERED)):
            read, written, thought = USAGE[name]
            with spanned(tracer, name, root, **{"gen_ai.operation.name": "chat"}) as chat:
                chat.set_attribute("gen_ai.input.messages", json.dumps([parts_of(one) for one in given]))
                chat.set_attribute("gen_ai.output.messages", json.dumps([parts_of(said)]))
                chat.set_attribute("gen_ai.usage.input_tokens", read)
                chat.set_attribute("gen_ai.usage.output_tokens", written)
                chat.set_attribute("gen_ai.usage.reasoning.output_tokens", thought)
        for use in native.execution.tools_used:
            tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": use.tool_name}
            with spanned(tracer, use.tool_name, root, **tool) as span:
                span.set_status(Status(StatusCode.OK if use.success_rate else StatusCode.ERROR))
        scores = {**msgspec.structs.asdict(native.evaluation.rubric_scores), "overall": native.evaluation.overall_score}
        for name, score in scores.items():
            said_of: dict[str, Any] = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": float(score)}
            root.add_event("gen_ai.evaluation.result", said_of, timestamp=nanoseconds(2_000))
        if not native.execution.success:
            root.set_status(Status(StatusCode.ERROR, native.execution.failure_reason))
    return imported(folder, recorded.request.SerializeToString(), name="traces.pb")


# --- OpenInference --------------------------------------------------------------------------------------------------


def openai_message(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_call_id is not None:
        said["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        said["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return said


def completion(asked: httpx2.Request) -> httpx2.Response:
    """The service that the agent's model is: it answers as the task's messages have it."""
    first = len(json.loads(asked.content)["messages"]) == 2
    read, written, thought = USAGE["ask" if first else "answer"]
    usage = {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "completion_tokens_details": {"reasoning_tokens": thought},
    }
    choice = {"index": 0, "finish_reason": "stop", "message": openai_message(ASKED if first else ANSWERED)}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return httpx2.Response(200, json=body)


def by_openinference(native: Native, folder: Path) -> Imported:
    """The client's own spans are as long as the calls really take: they say tokens and messages alone."""
    recorded = Recorded()
    tracer = recorded.provider.get_tracer("host")
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=recorded.provider)
    try:
        client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=httpx2.MockTransport(completion)))
        agent = {"openinference.span.kind": "AGENT", "agent.name": native.execution.agent_id}
        with spanned(tracer, "root", None, **agent) as root:
            with use_span(root):
                for given in (BEFORE[:2], BEFORE):
                    said: Any = [openai_message(one) for one in given]
                    client.chat.completions.create(model="m", messages=said)
            for use in native.execution.tools_used:
                tool = {"openinference.span.kind": "TOOL", "tool.name": use.tool_name}
                with spanned(tracer, use.tool_name, root, **tool) as span:
                    span.set_status(Status(StatusCode.OK if use.success_rate else StatusCode.ERROR))
            root.set_attribute("annotations.0.annotation.name", "worth")
            root.set_attribute("annotations.0.annotation.score", native.evaluation.overall_score)
            if not native.execution.success:
                root.set_status(Status(StatusCode.ERROR, native.execution.failure_reason))
    finally:
        instrumentor.uninstrument()
    return imported(folder, recorded.request.SerializeToString(), asked(native), name="traces.pb")


# --- MLflow ---------------------------------------------------------------------------------------------------------


@contextmanager
def tracked(folder: Path) -> Iterator[None]:
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder.parent}/mlflow.db")
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)


def by_mlflow(native: Native, folder: Path) -> Imported:
    import mlflow
    from mlflow.entities import SpanStatus, SpanStatusCode

    @contextmanager
    def live(name: str, kind: str, parent: Any = None, **inputs: Any) -> Iterator[Any]:
        start, end = map(nanoseconds, SCHEDULE[name])
        named = native.execution.agent_id if name == "root" else name
        span = mlflow.start_span_no_context(
            named, span_type=kind, parent_span=parent, start_time_ns=start, inputs=inputs or None
        )
        yield span
        span.end(end_time_ns=end)

    with tracked(folder):
        with live("root", "AGENT", question=USER.content) as root:
            for name, given, said in (("ask", BEFORE[:2], ASKED), ("answer", BEFORE, ANSWERED)):
                with live(name, "CHAT_MODEL", root, messages=[openai_message(one) for one in given]) as chat:
                    read, written, _ = USAGE[name]
                    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
                    chat.set_attribute("mlflow.chat.tokenUsage", usage)
                    chat.set_outputs({"choices": [{"message": openai_message(said)}]})
            for use in native.execution.tools_used:
                with live(use.tool_name, "TOOL", root) as span:
                    span.set_status("OK" if use.success_rate else "ERROR")
            if not native.execution.success:
                root.set_status(SpanStatus(SpanStatusCode.ERROR, native.execution.failure_reason or ""))
        mlflow.flush_trace_async_logging()
        mlflow.log_feedback(trace_id=root.trace_id, name="worth", value=native.evaluation.overall_score)
        trace = mlflow.get_trace(root.trace_id)
        assert trace is not None
        return imported(folder, trace.to_json() + "\n", asked(native), name="t.jsonl")


# --- inspect-ai -----------------------------------------------------------------------------------------------------


def by_inspect_ai(native: Native, folder: Path) -> Imported:
    """As ``inspect_logs/write.py`` had the package write it, in both of its forms."""
    name = "success" if native.execution.success else "failure"
    whole, zipped = (
        imported(folder / form, (LOGS / f"{name}.{form}").read_bytes(), asked(native), name=f"{name}.{form}")
        for form in ("json", "eval")
    )
    assert (whole.routing, whole.executions, whole.evaluations) == (
        zipped.routing,
        zipped.executions,
        zipped.evaluations,
    )
    return zipped


# --- ATIF -----------------------------------------------------------------------------------------------------------


def by_atif(native: Native, folder: Path) -> Imported:
    atif = pytest.importorskip("atif", reason="the package atif is not installed")
    calls = [
        {"tool_call_id": call.id, "function_name": call.name, "arguments": json.loads(call.arguments)}
        for call in ASKED.tool_calls
    ]
    results = [{"source_call_id": one.tool_call_id, "content": one.content} for one in (FOUND, REFUSED)]
    (asked_read, asked_written, _), (read, written, _) = USAGE["ask"], USAGE["answer"]
    steps: list[dict[str, Any]] = [
        {"source": "system", "message": SYSTEM.content, "timestamp": AT},
        {"source": "user", "message": USER.content, "timestamp": AT},
        {
            "source": "agent",
            "message": ASKED.content,
            "timestamp": AT + timedelta(milliseconds=500),
            "tool_calls": calls,
            "observation": {"results": results},
            "metrics": {"prompt_tokens": asked_read, "completion_tokens": asked_written},
        },
        {
            "source": "agent",
            "message": ANSWERED.content,
            "timestamp": AT + timedelta(seconds=2),
            "metrics": {"prompt_tokens": read, "completion_tokens": written},
        },
    ]
    trajectory = atif.Trajectory.model_validate(
        {
            "schema_version": "ATIF-v1.7",
            "session_id": "t-1",
            "agent": {"name": native.execution.agent_id, "version": "1"},
            "steps": [
                {"step_id": number, **step, "timestamp": step["timestamp"].isoformat()}
                for number, step in enumerate(steps, start=1)
            ],
            "extra": {"worth": native.evaluation.overall_score},
        }
    )
    content = trajectory.model_dump_json(exclude_none=True)
    return imported(folder, content, asked(native, score="extra.worth"))


# --- equal ----------------------------------------------------------------------------------------------------------


def asked(native: Native, score: str = "worth") -> Request:
    """The mapping of formats that do not say which score is the reward."""
    return request(score=score, threshold=0.5)


OF_TOOLS = ("average_latency", "success_rate", "tool_call_success_rate")
LOST: dict[str, tuple[Callable[[Native, Path], Imported], frozenset[str]]] = {
    "otlp": (by_opentelemetry, frozenset()),
    "openinference": (by_openinference, frozenset({"rubric_scores"})),
    "mlflow": (by_mlflow, frozenset({"rubric_scores", "thinking_tokens"})),
    "inspect-ai": (by_inspect_ai, frozenset({"rubric_scores"})),
    "atif": (by_atif, frozenset({"rubric_scores", "failure_reason", "thinking_tokens", *OF_TOOLS})),
}
"""Of each format what it has no place for."""
ABSENT: dict[str, Any] = {"thinking_tokens": 0}
"""What stands in a log where nothing is known; else None does."""


@pytest.mark.parametrize("name", LOST)
def test_a_task_is_equal_after_its_export_and_import_in_all_that_the_format_carries(
    native: Native, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)  # stores keep artifacts below the working directory
    export, lost = LOST[name]
    found = export(native, tmp_path)
    assert (found.report.points, found.report.rejected) == (1, {})
    (routing,), (execution,), (evaluation,) = found.routing, found.executions, found.evaluations
    assert told(execution) == expected(native.execution, lost)
    assert (routing.selected_agent_id, routing.timestamp) == ("host", AT)
    assert routing.description == native.routing.description
    assert evaluation.overall_score == native.evaluation.overall_score
    if "rubric_scores" not in lost:
        assert evaluation.rubric_scores == native.evaluation.rubric_scores


def told(execution: Execution) -> dict[str, Any]:
    """What an execution says of the task; arguments of tools as values, which each format writes in its own way."""
    said: dict[str, Any] = msgspec.to_builtins(execution)
    for message in said["messages"]:
        for call in message["toolCalls"]:
            call["arguments"] = json.loads(call["arguments"])
    return {name: value for name, value in said.items() if name not in {"log", "taskId", "imported"}}


def expected(execution: Execution, lost: frozenset[str]) -> dict[str, Any]:
    """The same of the native execution, without what the format has no place for."""
    uses = tuple(
        msgspec.structs.replace(use, **dict.fromkeys(lost & set(ToolUse.__struct_fields__)))
        for use in execution.tools_used
    )
    gone = {name: ABSENT.get(name) for name in lost & set(Execution.__struct_fields__)}
    return told(msgspec.structs.replace(execution, tools_used=uses, **gone))


if __name__ == "__main__":
    for of in (True, False):
        task = {"name": "success" if of else "failure", **msgspec.to_builtins(made(success=of))}
        sys.stdout.write(json.dumps(task) + "\n")
