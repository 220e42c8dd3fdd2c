"""Files of OTLP become runs: by lines and as one document, JSON and protobuf, however a trace is spread over them."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2
import msgspec
import openai
import pytest
import zstandard
from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flywheel.collection.importers.otlp import read_traces
from flywheel.collection.importers.otlp_frames import framing
from flywheel.collection.importers.otlp_records import logs_of_trace
from flywheel.collection.importers.otlp_spans import Item, Span, SpanEvent
from flywheel.collection.ingest import ingest
from tests.collection.importers.imports import imported, request
from tests.collection.importers.test_otlp import START, TRACE, agent, chat, score, span, tool

OTHER = "1" * 32
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "weather?"}]}]
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "It snows."}]}]
SAID = {"gen_ai.input.messages": json.dumps(ASKED), "gen_ai.output.messages": json.dumps(ANSWER)}


def any_value(value: Any) -> dict[str, Any]:
    """A value in OTLP's JSON mapping; integers are texts in it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": any_value(value)} for name, value in attributes.items()]


def event_of(event: SpanEvent) -> dict[str, Any]:
    return {"name": event.name, "timeUnixNano": str(event.time_ns), "attributes": pairs(event.attributes)}


def span_of(item: Span, trace_id: str) -> dict[str, Any]:
    return {
        "traceId": trace_id.upper(),  # ids are hexadecimal in either case
        "spanId": item.span_id,
        "parentSpanId": item.parent_span_id,
        "name": item.name,
        "startTimeUnixNano": str(item.start_ns),
        "endTimeUnixNano": item.end_ns,
        "status": {"code": item.status, "message": item.status_message},
        "attributes": pairs(item.attributes),
        "events": [event_of(event) for event in item.events],
        "kind": 1,
        "droppedAttributesCount": 0,
    }


def traces(*items: Span, trace_id: str = TRACE) -> dict[str, Any]:
    """A request with these spans."""
    spans = [span_of(item, trace_id) for item in items]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "lib"}, "spans": spans}]}]}


def loose(event: SpanEvent, span_id: str, trace_id: str = TRACE) -> dict[str, Any]:
    """A request of the logs signal with this event."""
    record = {"eventName": event.name, "attributes": pairs(event.attributes), "traceId": trace_id, "spanId": span_id}
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [{**record, "observedTimeUnixNano": str(event.time_ns)}]}]}]}


WHOLE = [
    agent(name="support", attributes={"flywheel.execution.success": True}),
    chat(2, at=1, attributes={**SAID, "llm.cost.total": 0.25}),
    tool(3, at=2, took=0.5),
    tool(4, at=3, took=1.5, status=2),
]
SCORES = [score("overall", 0.75), score("task", 0.5), score("safety", 1.0)]


def test_a_trace_is_a_run_wherever_its_spans_and_events_stand(tmp_path: Path) -> None:
    lines = [
        traces(WHOLE[2]),
        loose(SCORES[0], WHOLE[0].span_id),
        traces(agent(8), trace_id=OTHER),
        traces(WHOLE[0], WHOLE[3], WHOLE[3]),
        loose(SCORES[1], WHOLE[0].span_id),
        {},
        loose(SCORES[2], WHOLE[1].span_id),
        traces(WHOLE[1]),
    ]
    found = imported(tmp_path, lines, name="traces.jsonl")
    routing = next(log for log in found.routing if log.task_id == f"otlp:{TRACE}")
    execution = next(log for log in found.executions if log.task_id == routing.task_id)
    (evaluation,) = found.evaluations
    assert (routing.selected_agent_id, routing.description) == ("a", "weather?")
    assert routing.timestamp.isoformat() == "2026-03-02T12:00:00+00:00"
    assert (execution.latency_ms, execution.tokens_used, execution.output_tokens) == (10_000, 15, 5)
    assert (execution.time_to_first_action, execution.success) == (2_000, True)
    assert [message.content for message in execution.messages] == ["weather?", "It snows."]
    assert [(use.tool_name, use.call_count, use.success_rate) for use in execution.tools_used] == [("search", 2, 0.5)]
    assert (evaluation.overall_score, evaluation.rubric_scores.task, evaluation.rubric_scores.format) == (
        0.75,
        0.5,
        0.75,
    )
    report = found.report
    assert (report.format, report.read, report.points, report.waiting, report.rejected) == ("otlp", 2, 1, 1, {})
    assert (report.fields["costUsd"], report.fields["tokensUsed"], report.fields["safety"]) == (0.5, 0.5, 0.5)


def test_one_document_and_lines_say_the_same(tmp_path: Path) -> None:
    by_lines = imported(tmp_path / "1", [traces(one) for one in WHOLE], name="a.jsonl")
    groups = [group for one in WHOLE for group in traces(one)["resourceSpans"]]
    as_one = imported(tmp_path / "2", {"resourceSpans": groups}, name="a.json")
    assert (by_lines.executions, by_lines.routing) == (as_one.executions, as_one.routing)
    assert by_lines.report.fields == as_one.report.fields


def written(folder: Path, **files: Any) -> list[str]:
    """Files of one request each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return [str(folder / f"{name}.json") for name in files]


def test_a_trace_may_be_spread_over_files_which_are_taken_as_one_in_any_order(tmp_path: Path) -> None:
    paths = written(tmp_path / "traces", b=traces(*WHOLE[:2]), a=traces(*WHOLE[2:]))
    folder = tmp_path / "segments"
    first = ingest(paths, folder, request())
    assert (first.read, first.waiting, first.files, first.rules.keys()) == (1, 1, 2, first.rules.keys())
    assert not any("cut-off" in rule for rule in first.rules)
    again = ingest([str(tmp_path / "traces")], folder, request())
    assert (again.files, again.known_files, again.waiting, again.duplicates) == (0, 2, 0, 1)
    alone = ingest(paths[1:], folder, request())
    assert (alone.files, [rule for rule in alone.rules if "cut-off" in rule] != []) == (1, True)
    written(tmp_path / "traces", c=loose(SCORES[0], WHOLE[0].span_id))
    more = ingest([str(tmp_path / "traces")], folder, request())
    assert (more.files, more.points, more.waiting) == (3, 1, 0)


def test_a_file_that_was_taken_alone_is_read_again_with_others(tmp_path: Path) -> None:
    paths = written(tmp_path, a=traces(*WHOLE[:2]), b=traces(*WHOLE[2:]))
    ingest(paths[:1], tmp_path / "segments", request())
    assert ingest(paths, tmp_path / "segments", request()).tool_calls == 2


def test_files_of_other_formats_beside_are_taken_by_themselves(tmp_path: Path) -> None:
    paths = written(tmp_path, a=traces(*WHOLE[:2]), b=traces(*WHOLE[2:]))
    chat_file = tmp_path / "c.jsonl"
    chat_file.write_text('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n')
    found = ingest([*paths, str(chat_file)], tmp_path / "segments", request(score="metadata.x"))
    assert (found.format, found.read, found.files) == ("openai-chat, otlp", 2, 3)


def test_a_trace_that_is_cut_off_says_so(tmp_path: Path) -> None:
    found = imported(tmp_path, traces(*WHOLE[1:]))
    (rule,) = (rule for rule in found.report.rules if rule.startswith("trace-cut-off"))
    assert rule in found.routing[0].imported.rules  # type: ignore[union-attr]
    assert imported(tmp_path / "whole", traces(*WHOLE)).report.rules.keys() & {rule} == set()


def test_a_line_that_is_cut_off_costs_no_other(tmp_path: Path) -> None:
    lines = [json.dumps(traces(WHOLE[0])), json.dumps(traces(agent(9), trace_id=OTHER))]
    found = imported(tmp_path, f"{lines[0]}\n{lines[1][:-40]}", name="a.jsonl")
    assert (found.report.rejected, found.report.waiting) == ({"malformed JSON": 1}, 1)
    assert found.report.examples[0].line == 2


def test_scores_of_another_scale_want_a_mapping_and_get_it(tmp_path: Path) -> None:
    annotated = {"annotations.0.annotation.name": "helpful", "annotations.0.annotation.score": 4.0}
    document = traces(agent(attributes=annotated, events=(score("relevance", 3),)))
    asked = imported(tmp_path / "1", document).report
    assert (asked.rejected, "helpful, relevance" in asked.examples[0].detail) == ({"no mapping": 1}, True)
    found = imported(tmp_path / "2", document, request(score="helpful", min=0, max=5))
    assert found.evaluations[0].overall_score == 0.8
    assert {note.name: note.value for note in found.feedback} == {"helpful": 4, "relevance": 3}
    beyond = traces(agent(events=(score("overall", 7),)))
    assert imported(tmp_path / "3", beyond).report.rejected == {"no mapping": 1}
    assert imported(tmp_path / "4", beyond, request(score="overall", max=10)).evaluations[0].overall_score == 0.7


def test_tools_that_no_span_shows_are_counted_in_the_messages(tmp_path: Path) -> None:
    parts = [{"type": "tool_call", "id": "1", "name": "search", "arguments": {}}]
    wanted = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])}
    found = imported(tmp_path, traces(agent(), chat(2, attributes=wanted)))
    assert [(use.tool_name, use.success_rate) for use in found.executions[0].tools_used] == [("search", None)]
    assert any(rule.startswith("tools-of-messages") for rule in found.report.rules)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (traces(span(1, attributes={"http.method": "GET"})), "no task"),
        (traces(agent(), trace_id="0" * 32), "trace-id"),
        ({"resourceSpans": [{"scopeSpans": 7}]}, "not of the format"),
        ({"resourceSpans": [7]}, "not an object"),
        (traces(agent(attributes={"big": 2**70})), "attributes"),
        (traces(agent(attributes={"flywheel.execution.latencyMs": "-1"})), "not of the format"),
        (traces(agent(attributes={"flywheel.task.id": "t", "flywheel.execution.latencyMs": -1})), "not of the format"),
        (loose(SpanEvent(name="", time_ns=START), "0" * 16), "no-event"),
    ],
)
def test_what_is_no_trace_of_a_task_is_named(tmp_path: Path, content: Any, reason: str) -> None:
    found = imported(tmp_path, content).report
    assert (found.read, found.rejected) == (1, {reason: 1})


def test_a_trace_larger_than_memory_allows_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flywheel.collection.gathering.MAX_RUN_BYTES", 1_000)
    found = imported(tmp_path, [traces(*WHOLE), traces(agent(9), trace_id=OTHER)], name="a.jsonl").report
    assert (found.rejected, found.waiting, found.examples[0].item) == ({"record too large": 1}, 1, TRACE)


# --- the real SDKs -------------------------------------------------------------------------------------------------


class Recorded:
    """A provider of the SDK that keeps what it exports."""

    def __init__(self, **resource: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(resource=Resource.create(resource))
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def request(self) -> ExportTraceServiceRequest:
        """What the SDK's exporter would send."""
        return encode_spans(self._exporter.get_finished_spans())


def requests_of(whole: ExportTraceServiceRequest) -> list[bytes]:
    """Each span in a request of its own, as small batches are."""
    found = []
    for group in whole.resource_spans:
        for scoped in group.scope_spans:
            for one in scoped.spans:
                part = ExportTraceServiceRequest()
                held = part.resource_spans.add(resource=group.resource)
                held.scope_spans.add(scope=scoped.scope, spans=[one])
                found.append(part.SerializeToString())
    return found


def as_json(payload: bytes) -> bytes:
    """A request as the Collector writes it: ids in hexadecimal."""
    message = MessageToDict(ExportTraceServiceRequest.FromString(payload), use_integers_for_enums=True)
    for group in message["resourceSpans"]:
        for scoped in group["scopeSpans"]:
            for one in scoped["spans"]:
                for name in {"traceId", "spanId", "parentSpanId"} & one.keys():
                    one[name] = msgspec.convert(one[name], bytes).hex()
    return json.dumps(message).encode()


def varint(size: int) -> bytes:
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80]) + varint(size >> 7)


def framed_zstd(parts: list[bytes]) -> bytes:
    packed = [zstandard.ZstdCompressor().compress(part) for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in packed)


ENCODINGS: dict[str, Callable[[list[bytes]], bytes]] = {
    "collector json": lambda parts: b"".join(as_json(part) + b"\n" for part in parts),
    "collector proto": lambda parts: b"".join(len(part).to_bytes(4, "big") + part for part in parts),
    "collector proto, zstd": framed_zstd,
    "collector json, zstd": lambda parts: framed_zstd([as_json(part) for part in parts]),
    "delimited": lambda parts: b"".join(varint(len(part)) + part for part in parts),
    "bodies": b"".join,
}


def example_agent() -> ModuleType:
    path = Path(__file__).resolve().parents[3] / "examples" / "opentelemetry" / "agent.py"
    specification = importlib.util.spec_from_file_location("example_agent", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["example_agent"] = module
    specification.loader.exec_module(module)
    return module


EXAMPLE = example_agent()


def answered(**resource: Any) -> ExportTraceServiceRequest:
    """The trace of the example agent."""
    recorded = Recorded(**resource)
    EXAMPLE.answer("How is Lisbon?", recorded.provider.get_tracer("weather-agent"))
    return recorded.request


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_trace_of_the_sdk_comes_in_the_same_by_every_encoding(tmp_path: Path, encoding: str) -> None:
    whole = answered()
    found = imported(tmp_path, ENCODINGS[encoding](requests_of(whole)), name="traces.data")
    assert (found.report.format, found.report.points, found.report.rejected) == ("otlp", 1, {})
    direct = imported(tmp_path / "direct", whole.SerializeToString(), name="traces.data")
    for kind in ("routing", "executions", "evaluations"):
        assert getattr(found, kind) == getattr(direct, kind)
    (execution,), (evaluation,) = found.executions, found.evaluations
    assert [message.role for message in execution.messages] == ["user", "assistant", "tool", "assistant"]
    assert [(use.tool_name, use.call_count) for use in execution.tools_used] == [("weather", 1)]
    assert (execution.success, evaluation.overall_score, evaluation.rubric_scores.minimal) == (True, 1.0, 1.0)
    assert found.report.fields["rubric"] == 1


def test_what_an_arbiter_states_comes_in_as_the_receiver_takes_it(tmp_path: Path) -> None:
    whole = answered(**EXAMPLE.STATED)
    found = imported(tmp_path, whole.SerializeToString(), name="traces.pb")
    items: list[Item] = [item for item in read_traces(whole) if isinstance(item, Span)]
    logs = [*found.routing, *found.executions, *found.evaluations]
    assert found.report.points == 1
    for wire, log in zip(logs_of_trace(items), logs, strict=True):
        assert msgspec.convert({**wire, "tenantId": "acme"}, type(log)) == log


def completion(asked: httpx2.Request) -> httpx2.Response:
    """A service that asks for a tool first and answers when it has its result."""
    messages = json.loads(asked.content)["messages"]
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    answer: dict[str, Any] = {"role": "assistant", "content": "It snows."}
    if messages[-1]["role"] != "tool":
        answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": answer, "finish_reason": "stop" if answer["content"] else "tool_calls"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return httpx2.Response(200, json=body)


def test_a_client_instrumented_by_openinference_comes_in(tmp_path: Path) -> None:
    recorded = Recorded()
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=recorded.provider)
    try:
        client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=httpx2.MockTransport(completion)))
        tracer = recorded.provider.get_tracer("app")
        kind = {"openinference.span.kind": "AGENT", "agent.name": "weather-agent"}
        with tracer.start_as_current_span("support", attributes=kind) as root:
            messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Oslo?"}]
            wanted = client.chat.completions.create(model="m", messages=messages).choices[0].message
            messages += [wanted.model_dump(exclude_none=True)]
            with tracer.start_as_current_span("weather", attributes={"openinference.span.kind": "TOOL"}):
                messages += [{"role": "tool", "tool_call_id": "call_1", "content": "snow"}]
            client.chat.completions.create(model="m", messages=messages)
            root.set_attribute("annotations.0.annotation.name", "helpful")
            root.set_attribute("annotations.0.annotation.score", 0.9)
            root.set_attribute("annotations.0.annotation.annotator_kind", "HUMAN")
    finally:
        instrumentor.uninstrument()
    lines = ENCODINGS["collector json"](requests_of(recorded.request))
    found = imported(tmp_path, lines, request(score="helpful"), name="traces.json")
    (execution,), (evaluation,), (note,) = found.executions, found.evaluations, found.feedback
    assert (execution.agent_id, execution.tokens_used, execution.output_tokens) == ("weather-agent", 30, 10)
    assert [(one.role, one.content, one.tool_call_id) for one in execution.messages] == [
        ("system", "Be brief.", None),
        ("user", "Oslo?", None),
        ("assistant", None, None),
        ("tool", "snow", "call_1"),
        ("assistant", "It snows.", None),
    ]
    (call,) = execution.messages[2].tool_calls
    assert (call.name, json.loads(call.arguments), call.id) == ("weather", {"city": "Oslo"}, "call_1")
    assert [(use.tool_name, use.call_count) for use in execution.tools_used] == [("weather", 1)]
    assert (evaluation.overall_score, note.source) == (0.9, "reviewer")


# --- damage ---------------------------------------------------------------------------------------------------------

FILES = {name: encode(requests_of(answered())) for name, encode in ENCODINGS.items()}


@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if name != "collector json"])
def test_a_file_that_is_cut_off_keeps_what_was_whole(tmp_path: Path, encoding: str) -> None:
    found = imported(tmp_path, FILES[encoding][:-7], name="traces.data").report
    assert (found.format, found.rejected, found.points + found.waiting) == ("otlp", {"cut off": 1}, 1)


def test_a_message_too_large_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = requests_of(answered())
    large = traces(agent(attributes={"text": "x" * 200_000}), trace_id=OTHER)
    content = ENCODINGS["collector proto"]([parts[0], json.dumps(large).encode(), *parts[1:]])
    monkeypatch.setattr("flywheel.collection.importers.otlp_frames.MAX_RECORD_BYTES", 100_000)
    found = imported(tmp_path, content, name="traces.data").report
    assert (found.rejected, found.points, found.examples[0].item) == ({"record too large": 1}, 1, "message 2")


def test_a_message_that_is_a_bomb_is_named(tmp_path: Path) -> None:
    bomb = framed_zstd([b"{" + b" " * 40_000_000])
    found = imported(tmp_path, bomb + FILES["collector proto"], name="traces.data").report
    assert (found.rejected, found.points) == ({"unreadable": 1}, 1)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    encoding=st.sampled_from(sorted(FILES)),
    place=st.integers(0, 3_000),
    noise=st.binary(max_size=40),
    cut=st.integers(0, 200),
)
def test_no_bytes_break_the_reading(
    tmp_path_factory: pytest.TempPathFactory, encoding: str, place: int, noise: bytes, cut: int
) -> None:
    content = FILES[encoding]
    content = content[:place] + noise + content[place + cut :]
    path = tmp_path_factory.mktemp("fuzz") / "traces.data"
    path.write_bytes(content)
    found = ingest([str(path)], path.parent / "segments", request(format="otlp"))
    assert found.read == found.points + found.waiting + found.duplicates + sum(found.rejected.values())


@given(blank=st.text("\n\r\t ", max_size=9), indent=st.integers(0, 9), key=st.text("ab\n", max_size=40))
def test_no_json_is_taken_for_protobuf(blank: str, indent: int, key: str) -> None:
    assert framing((blank + json.dumps({key: [key]}, indent=indent)).encode()) is None


@pytest.mark.parametrize("content", [b"\n" * 100, b"hello", b"", b"\n", b"PK\x03\x04" + b"0" * 40, b"\n\x02\x0a\x07"])
def test_other_files_are_no_protobuf(content: bytes) -> None:
    assert framing(content) is None


def test_a_trace_is_the_same_run_in_whatever_order_its_spans_come(tmp_path: Path) -> None:
    forth = imported(tmp_path / "1", [traces(one) for one in WHOLE], name="a.jsonl")
    back = imported(tmp_path / "2", [traces(one) for one in reversed(WHOLE)], name="a.jsonl")
    assert (forth.routing, forth.executions) == (back.routing, back.executions)
