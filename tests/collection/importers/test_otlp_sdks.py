"""What real SDKs export comes in by every encoding that files of OTLP have, and damage costs no more than it hits."""

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
from flywheel.collection.importers.otlp_spans import Item, Span
from flywheel.collection.ingest import ingest
from tests.collection.importers.imports import imported, request
from tests.collection.importers.spans import agent, traces

OTHER = "1" * 32


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


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@pytest.mark.parametrize("size", [*b"[{"])
@pytest.mark.parametrize("encoding", ["bodies", "delimited"])
def test_a_length_that_looks_like_the_beginning_of_json_is_a_length(tmp_path: Path, encoding: str, size: int) -> None:
    parts = requests_of(answered())
    first = ExportTraceServiceRequest.FromString(parts[0])
    (element,) = first.resource_spans
    (one,) = element.scope_spans[0].spans
    element.ClearField("resource")
    element.scope_spans[0].ClearField("scope")
    one.CopyFrom(type(one)(trace_id=one.trace_id, span_id=one.span_id))
    measured = element if encoding == "bodies" else first
    one.name = "n" * (size - measured.ByteSize() - 2)
    content = ENCODINGS[encoding]([first.SerializeToString(), *parts])
    assert content[encoding == "bodies"] == size
    found = imported(tmp_path, content, name="traces.data").report
    assert (found.format, found.points, found.rejected) == ("otlp", 1, {})


@given(blank=st.text("\n\r\t ", max_size=9), indent=st.integers(0, 9), key=st.text("ab\n", max_size=40))
def test_no_json_is_taken_for_protobuf(blank: str, indent: int, key: str) -> None:
    assert framing((blank + json.dumps({key: [key]}, indent=indent)).encode()) is None


@pytest.mark.parametrize("content", [b"\n" * 100, b"hello", b"", b"\n", b"PK\x03\x04" + b"0" * 40, b"\n\x02\x0a\x07"])
def test_other_files_are_no_protobuf(content: bytes) -> None:
    assert framing(content) is None
