"""OTLP: requests of OpenTelemetry exporters, as JSON or protobuf, read into spans and events of one plain form.

The envelope is that of opentelemetry-proto (``ExportTraceServiceRequest``, ``ExportLogsServiceRequest``) and its JSON
mapping: ids are hex, enumerations numbers, 64-bit integers may be strings, unknown fields are ignored. Of a span the
links, flags and trace state are not kept; nothing here reads them. ``flywheel.collection.importers.otlp_records`` makes
the logs of the pool out of what is read here.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, convert, field

if TYPE_CHECKING:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue as ProtobufKeyValue

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


# --- the JSON mapping -----------------------------------------------------------------------------------------------


class KeyValue(Struct):
    """An attribute."""

    key: str
    value: dict[str, Any] | None = None


class Values(Struct):
    """A list of values."""

    values: list[dict[str, Any]] = []


class Pairs(Struct):
    """A mapping as a list of attributes."""

    values: list[KeyValue] = []


class Resource(Struct):
    """What emits: a service, a process."""

    attributes: list[KeyValue] = []


class Scope(Struct):
    """The library that instruments."""

    name: str = ""


class JsonEvent(Struct, rename="camel"):
    """A span's event as JSON has it."""

    name: str = ""
    time_unix_nano: int | str = 0
    attributes: list[KeyValue] = []


class Status(Struct):
    """How a span ended: 0 unset, 1 ok, 2 error."""

    code: int = 0
    message: str = ""


class JsonSpan(Struct, rename="camel"):
    """A span as JSON has it."""

    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = None
    name: str = ""
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[KeyValue] = []
    events: list[JsonEvent] = []
    status: Status = field(default_factory=Status)


class ScopeSpans(Struct):
    """The spans of one library."""

    scope: Scope = field(default_factory=Scope)
    spans: list[JsonSpan] = []


class ResourceSpans(Struct, rename="camel"):
    """The spans of one resource."""

    resource: Resource = field(default_factory=Resource)
    scope_spans: list[ScopeSpans] = []


class TraceRequest(Struct, rename="camel"):
    """``ExportTraceServiceRequest``."""

    resource_spans: list[ResourceSpans] = []


class JsonLogRecord(Struct, rename="camel"):
    """A log record as JSON has it."""

    time_unix_nano: int | str = 0
    observed_time_unix_nano: int | str = 0
    event_name: str = ""
    attributes: list[KeyValue] = []
    body: dict[str, Any] | None = None
    trace_id: str = ""
    span_id: str = ""


class ScopeLogs(Struct, rename="camel"):
    """The records of one library."""

    log_records: list[JsonLogRecord] = []


class ResourceLogs(Struct, rename="camel"):
    """The records of one resource."""

    resource: Resource = field(default_factory=Resource)
    scope_logs: list[ScopeLogs] = []


class LogsRequest(Struct, rename="camel"):
    """``ExportLogsServiceRequest``."""

    resource_logs: list[ResourceLogs] = []


def read_traces(request: "Mapping[str, Any] | bytes | ExportTraceServiceRequest") -> list[Span | Refused]:
    """The spans of a request: JSON as bytes or already decoded, or a protobuf message.

    Raises:
        msgspec.MsgspecError: it is no trace request in JSON.
    """
    if isinstance(request, bytes):
        return list(numbered(spans_of_json(msgspec.json.decode(request, type=TraceRequest))))
    if isinstance(request, Mapping):
        return list(numbered(spans_of_json(convert(request, TraceRequest))))
    return list(numbered(spans_of_protobuf(request)))


def read_logs(request: "Mapping[str, Any] | bytes | ExportLogsServiceRequest") -> list[LooseEvent | Refused]:
    """The events of a logs request. Records that are no events or belong to no trace are refused.

    Raises:
        msgspec.MsgspecError: it is no logs request in JSON.
    """
    if isinstance(request, bytes):
        return list(numbered(events_of_json(msgspec.json.decode(request, type=LogsRequest))))
    if isinstance(request, Mapping):
        return list(numbered(events_of_json(convert(request, LogsRequest))))
    return list(numbered(events_of_protobuf(request)))


def numbered(items: Iterable[Any]) -> Iterator[Any]:
    """The items, with their places given to those that are refused."""
    for index, item in enumerate(items):
        yield msgspec.structs.replace(item, index=index) if isinstance(item, Refused) else item


def spans_of_json(request: TraceRequest) -> Iterator[Span | Refused]:
    """Every span of a request in JSON."""
    for group in request.resource_spans:
        try:
            resource = attributes_of_json(group.resource.attributes)
        except (ValueError, RecursionError) as error:
            yield from (
                refused("attributes", f"of the resource: {error}") for some in group.scope_spans for _ in some.spans
            )
            continue
        for scoped in group.scope_spans:
            for span in scoped.spans:
                yield span_of_json(span, resource, scoped.scope.name)


def span_of_json(span: JsonSpan, resource: Attributes, scope: str) -> Span | Refused:
    """One span."""
    try:
        return checked_span(
            Span(
                trace_id=span.trace_id.lower(),
                span_id=span.span_id.lower(),
                parent_span_id=(span.parent_span_id or "").lower(),
                name=span.name,
                start_ns=nanoseconds(span.start_time_unix_nano),
                end_ns=nanoseconds(span.end_time_unix_nano),
                status=span.status.code,
                status_message=span.status.message,
                attributes=attributes_of_json(span.attributes),
                events=tuple(
                    SpanEvent(
                        name=event.name,
                        time_ns=nanoseconds(event.time_unix_nano),
                        attributes=attributes_of_json(event.attributes),
                    )
                    for event in span.events
                ),
                resource=resource,
                scope=scope,
            )
        )
    except (ValueError, RecursionError) as error:
        return refused("attributes", str(error))


def events_of_json(request: LogsRequest) -> Iterator[LooseEvent | Refused]:
    """Every event of a logs request in JSON."""
    for group in request.resource_logs:
        for scoped in group.scope_logs:
            for record in scoped.log_records:
                yield event_of_json(record, group.resource)


def event_of_json(record: JsonLogRecord, resource: Resource) -> LooseEvent | Refused:
    """One event."""
    try:
        event = SpanEvent(
            name=record.event_name,
            time_ns=nanoseconds(record.time_unix_nano) or nanoseconds(record.observed_time_unix_nano),
            attributes=attributes_of_json(record.attributes),
            body=None if record.body is None else value_of_json(record.body),
        )
        return checked_event(event, record.trace_id, record.span_id, attributes_of_json(resource.attributes))
    except (ValueError, RecursionError) as error:
        return refused("attributes", str(error))


def attributes_of_json(pairs: Iterable[KeyValue]) -> Attributes:
    """Attributes by their names; those without a value are left out.

    Raises:
        ValueError: a value is none of OTLP's.
    """
    return {pair.key: value_of_json(pair.value) for pair in pairs if pair.value}


def value_of_json(value: dict[str, Any]) -> Any:
    """An ``AnyValue`` of the JSON mapping.

    Raises:
        ValueError: it is none.
    """
    for kind, content in value.items():
        read = VALUES.get(kind)
        if read is not None and content is not None:
            return read(content)
    if not value:
        return None
    raise ValueError(f"a value with {', '.join(value)} is none that OTLP has")


def text_of_json(content: Any) -> str:
    """A ``stringValue``.

    Raises:
        ValueError: it is none.
    """
    return convert(content, str)


def bytes_of_json(content: Any) -> str:
    """A ``bytesValue``, which stays base64.

    Raises:
        ValueError: it is none.
    """
    return base64.b64encode(base64.b64decode(convert(content, str), validate=True)).decode()


def list_of_json(content: Any) -> list[Any]:
    """An ``arrayValue``.

    Raises:
        ValueError: it is none.
    """
    return [value_of_json(item) for item in convert(content, Values).values]


def mapping_of_json(content: Any) -> Attributes:
    """A ``kvlistValue``.

    Raises:
        ValueError: it is none.
    """
    return attributes_of_json(convert(content, Pairs).values)


VALUES: dict[str, Callable[[Any], Any]] = {
    "stringValue": text_of_json,
    "boolValue": lambda content: convert(content, bool),
    "intValue": lambda content: int(convert(content, int | str)),
    "doubleValue": lambda content: float(convert(content, float | str)),
    "bytesValue": bytes_of_json,
    "arrayValue": list_of_json,
    "kvlistValue": mapping_of_json,
}


def nanoseconds(time: int | str) -> int:
    """A time of the JSON mapping.

    Raises:
        ValueError: it is none.
    """
    found = int(time)
    if not 0 <= found <= MAX_NANOSECONDS:
        raise ValueError(f"{found} is no time in nanoseconds")
    return found


# --- protobuf -------------------------------------------------------------------------------------------------------


def spans_of_protobuf(request: "ExportTraceServiceRequest") -> Iterator[Span | Refused]:
    """Every span of a protobuf request."""
    for group in request.resource_spans:
        resource = attributes_of(group.resource.attributes)
        for scoped in group.scope_spans:
            for span in scoped.spans:
                yield checked_span(
                    Span(
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent_span_id=span.parent_span_id.hex(),
                        name=span.name,
                        start_ns=span.start_time_unix_nano,
                        end_ns=span.end_time_unix_nano,
                        status=int(span.status.code),
                        status_message=span.status.message,
                        attributes=attributes_of(span.attributes),
                        events=tuple(
                            SpanEvent(
                                name=event.name,
                                time_ns=event.time_unix_nano,
                                attributes=attributes_of(event.attributes),
                            )
                            for event in span.events
                        ),
                        resource=resource,
                        scope=scoped.scope.name,
                    )
                )


def events_of_protobuf(request: "ExportLogsServiceRequest") -> Iterator[LooseEvent | Refused]:
    """Every event of a protobuf logs request."""
    for group in request.resource_logs:
        resource = attributes_of(group.resource.attributes)
        for scoped in group.scope_logs:
            for record in scoped.log_records:
                event = SpanEvent(
                    name=record.event_name,
                    time_ns=record.time_unix_nano or record.observed_time_unix_nano,
                    attributes=attributes_of(record.attributes),
                    body=value_of(record.body),
                )
                yield checked_event(event, record.trace_id.hex(), record.span_id.hex(), resource)


def attributes_of(pairs: "Iterable[ProtobufKeyValue]") -> Attributes:
    """Attributes by their names; those without a value are left out."""
    found = {pair.key: value_of(pair.value) for pair in pairs}
    return {name: value for name, value in found.items() if value is not None}


def value_of(value: "AnyValue") -> Any:
    """An ``AnyValue``. Its depth is bounded: protobuf reads no message that is nested deeper than 100."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return attributes_of(value.kvlist_value.values)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return getattr(value, kind) if kind else None


# --- both -----------------------------------------------------------------------------------------------------------


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
