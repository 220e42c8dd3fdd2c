"""Spans and events of OpenTelemetry in one plain form, whatever encoding they came in; what waits on disk is this."""

import re
from typing import Any

import msgspec
from msgspec import Struct

TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
SPAN_ID = re.compile(r"(?!0{16})[0-9a-f]{16}")
MAX_NANOSECONDS = 2**64 - 1
STATUS_OK, STATUS_ERROR = 1, 2

Attributes = dict[str, Any]


class SpanEvent(Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened at a moment of a span. ``body`` is what events of the logs signal carry besides."""

    name: str
    time_ns: int = 0
    attributes: Attributes = {}
    body: Any = None


class Span(Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True, tag_field="otlp", tag="span"):
    """One span, with the attributes of its resource. Times in nanoseconds since 1970; 0 where the span has none."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    status: int = 0
    status_message: str = ""
    attributes: Attributes = {}
    events: tuple[SpanEvent, ...] = ()
    resource: Attributes = {}
    scope: str = ""
    tenant_id: str = ""


class LooseEvent(Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True, tag_field="otlp", tag="event"):
    """An event of the logs signal, which names its span and comes apart from it."""

    trace_id: str
    span_id: str = ""
    event: SpanEvent
    resource: Attributes = {}
    tenant_id: str = ""


class Refused(Struct, frozen=True, kw_only=True):
    """An item of a request that cannot be used, by its place in the request."""

    index: int
    reason: str
    detail: str


Item = Span | LooseEvent
encode_item = msgspec.json.Encoder().encode
decode_item = msgspec.json.Decoder(Item).decode


def checked_span(span: Span) -> Span | Refused:
    """The span, or why it cannot be placed in a trace."""
    if not TRACE_ID.fullmatch(span.trace_id):
        return refused("trace-id", f"{span.trace_id!r} is no trace id: 16 bytes, not all 0")
    if not SPAN_ID.fullmatch(span.span_id):
        return refused("span-id", f"{span.span_id!r} is no span id: 8 bytes, not all 0")
    if span.parent_span_id and not SPAN_ID.fullmatch(span.parent_span_id):
        if set(span.parent_span_id) != {"0"}:
            return refused("span-id", f"{span.parent_span_id!r} is no id of a parent span: 8 bytes, or none")
        return msgspec.structs.replace(span, parent_span_id="")
    return span


def checked_event(event: SpanEvent, trace_id: str, span_id: str, resource: Attributes) -> LooseEvent | Refused:
    """The event, or why nothing can be done with it. Early emitters put its name into an attribute."""
    trace_id, span_id = trace_id.lower(), span_id.lower()
    name = event.name or event.attributes.get("event.name", "")
    if not isinstance(name, str) or not name:
        return refused("no-event", "a log record without an event name says nothing about a task; send it elsewhere")
    if not TRACE_ID.fullmatch(trace_id):
        return refused("trace-id", f"{trace_id!r} is no trace id: the event belongs to no task")
    named = msgspec.structs.replace(event, name=name)
    return LooseEvent(
        trace_id=trace_id, span_id=span_id if SPAN_ID.fullmatch(span_id) else "", event=named, resource=resource
    )


def refused(reason: str, detail: str) -> Refused:
    """A refusal, numbered later."""
    return Refused(index=0, reason=reason, detail=detail)
