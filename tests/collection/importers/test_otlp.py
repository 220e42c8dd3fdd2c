"""OTLP read, and made into logs: exactly by the conventions' names, and nothing that no span says."""

import base64
import json
from typing import Any

import hypothesis
import msgspec
import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from flywheel.collection.importers.otlp import read_logs, read_traces
from flywheel.collection.importers.otlp_messages import conversation_of
from flywheel.collection.importers.otlp_records import logs_of_late_items, logs_of_trace
from flywheel.collection.importers.otlp_spans import LooseEvent, Refused, Span, SpanEvent
from tests.collection.importers.spans import SECOND, START, TRACE, agent, chat, score, span, tool


def execution_of(*spans: Span) -> dict[str, Any]:
    (found,) = [log for log in logs_of_trace(spans) if log["log"] == "execution"]
    return found


REQUEST: dict[str, Any] = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]},
            "scopeSpans": [
                {
                    "scope": {"name": "lib"},
                    "spans": [
                        {
                            "traceId": TRACE,
                            "spanId": "00f067aa0ba902b7",
                            "parentSpanId": "00f067aa0ba902b8",
                            "name": "chat m",
                            "startTimeUnixNano": str(START),
                            "endTimeUnixNano": START + SECOND,
                            "status": {"code": 2, "message": "no"},
                            "attributes": [
                                {"key": "t", "value": {"stringValue": "x"}},
                                {"key": "b", "value": {"boolValue": True}},
                                {"key": "i", "value": {"intValue": "-7"}},
                                {"key": "d", "value": {"doubleValue": 0.5}},
                                {"key": "y", "value": {"bytesValue": "AQI="}},
                                {
                                    "key": "l",
                                    "value": {"arrayValue": {"values": [{"intValue": 1}, {"stringValue": "z"}]}},
                                },
                                {
                                    "key": "m",
                                    "value": {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": 1}}]}},
                                },
                                {"key": "none", "value": {}},
                            ],
                            "events": [{"name": "e", "timeUnixNano": "5", "attributes": []}],
                        }
                    ],
                }
            ],
        }
    ]
}


def as_protobuf(request: dict[str, Any]) -> ExportTraceServiceRequest:
    """The same as protobuf; its own JSON has ids in base64."""
    changed = json.loads(json.dumps(request))
    for held in changed["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            held[name] = base64.b64encode(bytes.fromhex(held[name])).decode()
    message = ExportTraceServiceRequest()
    ParseDict(changed, message)
    return message


def test_json_and_protobuf_say_the_same() -> None:
    (found,) = read_traces(REQUEST)
    assert isinstance(found, Span)
    assert read_traces(json.dumps(REQUEST).encode()) == read_traces(as_protobuf(REQUEST)) == [found]
    assert (found.trace_id, found.span_id, found.parent_span_id) == (TRACE, "00f067aa0ba902b7", "00f067aa0ba902b8")
    assert found.attributes == {
        "t": "x",
        "b": True,
        "i": -7,
        "d": 0.5,
        "y": "AQI=",
        "l": [1, "z"],
        "m": {"k": 1},
    }
    assert (found.start_ns, found.end_ns, found.status, found.status_message) == (START, START + SECOND, 2, "no")
    assert (found.resource, found.scope, found.events) == (
        {"service.name": "s"},
        "lib",
        (SpanEvent(name="e", time_ns=5),),
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"traceId": "0" * 32}, "trace-id"),
        ({"traceId": "xyz"}, "trace-id"),
        ({"spanId": ""}, "span-id"),
        ({"parentSpanId": "12"}, "span-id"),
        ({"startTimeUnixNano": "noon"}, "attributes"),
        ({"attributes": [{"key": "k", "value": {"intValue": "many"}}]}, "attributes"),
        ({"attributes": [{"key": "k", "value": {"colour": "red"}}]}, "attributes"),
        ({"attributes": [{"key": "k", "value": {"bytesValue": "?"}}]}, "attributes"),
        ({"attributes": [{"key": "k", "value": {"arrayValue": []}}]}, "attributes"),
    ],
)
def test_a_span_that_cannot_be_used_is_named_and_costs_no_other(change: dict[str, Any], reason: str) -> None:
    request = json.loads(json.dumps(REQUEST))
    spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans.insert(0, spans[0] | change)
    refused, good = read_traces(request)
    assert isinstance(refused, Refused)
    assert (refused.index, refused.reason) == (0, reason)
    assert isinstance(good, Span)


def test_what_is_no_trace_request_is_an_error() -> None:
    for body in (b"", b"[]", b'{"resourceSpans": 7}', b'{"resourceSpans": [{"scopeSpans": [{"spans": [1]}]}]}'):
        with pytest.raises(msgspec.MsgspecError):
            read_traces(body)


def test_events_of_the_logs_signal_find_their_spans() -> None:
    record = {
        "timeUnixNano": "5",
        "eventName": "gen_ai.evaluation.result",
        "traceId": TRACE,
        "spanId": "00f067aa0ba902b7",
        "body": {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": 1}}]}},
    }
    plain = {"body": {"stringValue": "hello"}, "traceId": TRACE}
    early = record | {"eventName": "", "attributes": [{"key": "event.name", "value": {"stringValue": "gen_ai.choice"}}]}
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record, plain, early, record | {"traceId": ""}]}]}]}
    first, second, third, fourth = read_logs(request)
    assert isinstance(first, LooseEvent)
    assert (first.span_id, first.event.body) == ("00f067aa0ba902b7", {"k": 1})
    assert isinstance(second, Refused)
    assert isinstance(third, LooseEvent)
    assert third.event.name == "gen_ai.choice"
    assert isinstance(fourth, Refused)
    message = ExportLogsServiceRequest()
    held = message.resource_logs.add().scope_logs.add().log_records.add()
    held.trace_id, held.span_id = bytes.fromhex(TRACE), bytes.fromhex(first.span_id)
    held.time_unix_nano, held.event_name = 5, "gen_ai.evaluation.result"
    held.body.kvlist_value.values.add(key="k").value.int_value = 1
    assert read_logs(message) == [first]


def test_an_agent_s_trace_is_an_execution() -> None:
    messages = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    found = execution_of(
        agent(),
        chat(2, at=1, attributes={"gen_ai.usage.reasoning.output_tokens": 3}),
        tool(3, at=2, took=0.5),
        tool(4, at=3, took=1.5, status=2),
        chat(5, at=5, attributes={"gen_ai.input.messages": json.dumps(messages)}),
    )
    assert found == {
        "log": "execution",
        "taskId": TRACE,
        "agentId": "a",
        "timestamp": "2026-03-02T12:00:10+00:00",
        "success": True,
        "latencyMs": 10_000.0,
        "tokensUsed": 30,
        "outputTokens": 10,
        "thinkingTokens": 3,
        "toolCallCount": 2,
        "toolCallSuccessRate": 0.5,
        "toolsUsed": [{"toolName": "search", "callCount": 2, "successRate": 0.5, "averageLatency": 1_000.0}],
        "timeToFirstAction": 2_000.0,
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_what_no_span_says_is_absent() -> None:
    bare = execution_of(span(1, attributes={"gen_ai.operation.name": "chat"}))
    assert set(bare) == {"log", "taskId", "timestamp", "success", "latencyMs", "toolCallCount", "toolsUsed"}
    no_usage = {"gen_ai.usage.input_tokens": None, "gen_ai.usage.output_tokens": None}
    assert "tokensUsed" not in execution_of(agent(), chat(2), chat(3, attributes=no_usage))
    assert execution_of(agent(), chat(2), chat(3, attributes=no_usage, status=2))["tokensUsed"] == 15  # it failed
    asked = execution_of(agent(), chat(2, attributes={"gen_ai.response.finish_reasons": ["tool_call"]}))
    assert "toolCallCount" not in asked
    assert logs_of_trace([span(1, attributes={"http.method": "GET"})]) == []


def test_what_is_instrumented_twice_counts_once() -> None:
    twice = chat(3, parent=2, attributes={"openinference.span.kind": "LLM"})
    assert execution_of(agent(), chat(2), twice)["tokensUsed"] == 15
    assert execution_of(agent(), tool(2), tool(3, parent=2))["toolCallCount"] == 1
    assert execution_of(agent(), chat(2), chat(2))["tokensUsed"] == 15  # and what was sent twice


@pytest.mark.parametrize(
    ("fields", "success", "reason"),
    [
        ({}, True, None),
        ({"status": 1}, True, None),
        ({"status": 2, "status_message": "it broke"}, False, "it broke"),
        ({"attributes": {"error.type": "timeout"}}, False, "timeout"),
        ({"attributes": {"flywheel.execution.success": "false"}}, False, None),
    ],
)
def test_success_is_what_the_entry_span_says(fields: dict[str, Any], success: bool, reason: str | None) -> None:
    found = execution_of(agent(**fields))
    assert (found["success"], found.get("failureReason")) == (success, reason)


def test_an_arbiter_states_the_rest_by_attributes_of_span_or_resource() -> None:
    resource = {
        "flywheel.routing.taskType": "research",
        "flywheel.routing.confidence": "0.5",
        "flywheel.routing.candidateAgents": "[]",
        "flywheel.task.id": "from the resource",
    }
    stated = {"flywheel.task.id": "t-1", "flywheel.routing.taskType": "planning"}
    routing, execution = logs_of_trace([agent(resource=resource, attributes=stated)])
    assert (routing["taskId"], routing["taskType"], routing["confidence"]) == ("t-1", "planning", 0.5)
    assert (routing["candidateAgents"], routing["selectedAgentId"]) == ([], "a")
    assert routing["timestamp"] == "2026-03-02T12:00:00+00:00"
    assert execution["taskId"] == "t-1"


def test_evaluation_events_are_the_evaluation_and_other_scores_feedback() -> None:
    events = (
        score("task", 0.5),
        score("overall", 0.6),
        score("relevance", 4, **{"gen_ai.evaluation.score.label": "good"}),
    )
    logs = logs_of_trace([agent(events=events)])
    evaluation, feedback = logs[1:]
    assert evaluation == {
        "log": "evaluation",
        "taskId": TRACE,
        "agentId": "a",
        "timestamp": "2026-03-02T12:00:20+00:00",
        "rubricScores": {"task": 0.5},
        "overallScore": 0.6,
    }
    assert (feedback["name"], feedback["value"], feedback["label"], feedback["source"]) == (
        "relevance",
        4,
        "good",
        "system",
    )
    late = logs_of_late_items([span(9, 1, events=events[:1])], task_id="t-1", agent_id="a")
    assert [(log["log"], log["taskId"], log["agentId"]) for log in late] == [("evaluation", "t-1", "a")]
    loose = LooseEvent(trace_id=TRACE, span_id=f"{1:016x}", event=events[0])
    assert [log["log"] for log in logs_of_trace([agent(), loose, loose])] == ["execution", "evaluation"]


def test_open_inference_annotations_are_feedback() -> None:
    attributes = {
        "openinference.span.kind": "LLM",
        "annotations.0.annotation.name": "helpful",
        "annotations.0.annotation.score": 0.9,
        "annotations.0.annotation.annotator_kind": "HUMAN",
        "trace.annotations.0.annotation.name": "tone",
        "trace.annotations.0.annotation.label": "kind",
    }
    found = logs_of_trace([span(1, attributes=attributes)])[1:]
    assert [(log["name"], log["value"], log["source"]) for log in found] == [
        ("helpful", 0.9, "reviewer"),
        ("tone", "kind", "system"),
    ]


CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "weather?"},
    {"role": "assistant", "toolCalls": [{"name": "w", "arguments": '{"c":"Oslo"}', "id": "1"}]},
    {"role": "tool", "content": "snow", "toolCallId": "1"},
    {"role": "assistant", "content": "It snows."},
]


def test_a_conversation_is_the_same_by_all_three_conventions() -> None:
    call = {"type": "tool_call", "id": "1", "name": "w", "arguments": {"c": "Oslo"}}
    current = {
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "be brief"}]),
        "gen_ai.input.messages": json.dumps(
            [
                {"role": "user", "parts": [{"type": "text", "content": "weather?"}]},
                {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, call]},
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "snow"}]},
            ]
        ),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "It snows."}]}]
        ),
    }
    details = SpanEvent(name="gen_ai.client.inference.operation.details", attributes=current)
    old_call = {"id": "1", "type": "function", "function": {"name": "w", "arguments": '{"c":"Oslo"}'}}
    old = (
        SpanEvent(name="gen_ai.choice", time_ns=5, body={"index": 0, "message": {"content": "It snows."}}),
        SpanEvent(name="gen_ai.system.message", time_ns=1, body={"content": "be brief"}),
        SpanEvent(name="gen_ai.user.message", time_ns=2, attributes={"content": "weather?"}),
        SpanEvent(name="gen_ai.assistant.message", time_ns=3, attributes={"tool_calls": json.dumps([old_call])}),
        SpanEvent(name="gen_ai.tool.message", time_ns=4, body={"id": "1", "content": "snow"}),
    )
    flat: dict[str, Any] = {"llm.output_messages.0.message.role": "assistant"}
    flat["llm.output_messages.0.message.contents.0.message_content.text"] = "It snows."
    for index, message in enumerate(CONVERSATION[:-1]):
        prefix = f"llm.input_messages.{index}.message"
        flat[f"{prefix}.role"] = message["role"]
        if "content" in message:
            flat[f"{prefix}.content"] = message["content"]
    flat["llm.input_messages.2.message.tool_calls.0.tool_call.id"] = "1"
    flat["llm.input_messages.2.message.tool_calls.0.tool_call.function.name"] = "w"
    flat["llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments"] = '{"c":"Oslo"}'
    flat["llm.input_messages.3.message.tool_call_id"] = "1"
    for held, lost in (
        (span(1, attributes=current), {"reasoning-left-out"}),
        (span(1, events=(details,)), {"reasoning-left-out"}),
        (span(1, events=old), set()),
        (span(1, attributes=flat), set()),
    ):
        left_out: set[str] = set()
        assert conversation_of(held, left_out) == CONVERSATION
        assert left_out == lost


TEXT = st.text(alphabet='ab1[{"\\é', max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    "gen_ai.operation.name",
    "gen_ai.agent.name",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.response.finish_reasons",
    "openinference.span.kind",
    "error.type",
    "llm.input_messages.0.message.content",
    "llm.input_messages.0.message",
    "llm.input_messages.0",
    "llm.token_count.total",
    "annotations.0.annotation.name",
    "annotations.0.annotation.score",
    "flywheel.routing.confidence",
    "flywheel.task.id",
]
ANYTHING = values | st.sampled_from(["chat", "LLM", "[1]", "{}", "[[]]", '[{"parts": [7], "role": []}]'])
attributes_of_anything = st.dictionaries(st.sampled_from(NAMES), ANYTHING)


@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.too_slow])
@given(st.lists(attributes_of_anything, min_size=1, max_size=4), st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_no_trace_breaks_the_mapping(held: list[dict[str, Any]], parents: list[int]) -> None:
    """Whatever the attributes hold and however spans hang together, loops included."""
    spans = [span(index + 1, parents[index], attributes=attributes) for index, attributes in enumerate(held)]
    for log in logs_of_trace(spans):
        assert msgspec.json.decode(msgspec.json.encode(log))["taskId"]
