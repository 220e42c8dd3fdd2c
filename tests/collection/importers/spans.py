"""Helpers: spans as the importer reads them, and as requests of OTLP's JSON."""

from typing import Any

from flywheel.collection.importers.otlp_spans import Span, SpanEvent

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND = 1_000_000_000
START = 1_772_452_800 * SECOND  # 2026-03-02T12:00:00Z


def span(number: int, parent: int = 0, *, at: float = 0, took: float = 1, **fields: Any) -> Span:
    """A span that began ``at`` seconds after noon."""
    attributes = fields.pop("attributes", {})
    return Span(
        trace_id=TRACE,
        span_id=f"{number:016x}",
        parent_span_id=f"{parent:016x}" if parent else "",
        start_ns=START + int(at * SECOND),
        end_ns=START + int((at + took) * SECOND),
        attributes=attributes,
        **fields,
    )


def agent(number: int = 1, **fields: Any) -> Span:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"} | fields.pop("attributes", {})
    return span(number, took=10, attributes=attributes, **fields)


def chat(number: int, parent: int = 1, **fields: Any) -> Span:
    usage = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}
    attributes = {"gen_ai.operation.name": "chat"} | usage | fields.pop("attributes", {})
    return span(number, parent, attributes=attributes, **fields)


def tool(number: int, parent: int = 1, **fields: Any) -> Span:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"} | fields.pop("attributes", {})
    return span(number, parent, attributes=attributes, **fields)


def score(name: str, value: float | None, **attributes: Any) -> SpanEvent:
    found = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": value} | attributes
    held = {name: value for name, value in found.items() if value is not None}
    return SpanEvent(name="gen_ai.evaluation.result", time_ns=START + 20 * SECOND, attributes=held)


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
