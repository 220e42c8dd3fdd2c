"""OTLP's JSON mapping: ids are hex, enumerations numbers, 64-bit integers may be strings, unknown fields ignored."""

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct, convert, field

from flywheel.collection.importers.otlp_spans import (
    MAX_NANOSECONDS,
    Attributes,
    LooseEvent,
    Refused,
    Span,
    SpanEvent,
    checked_event,
    checked_span,
    refused,
)


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


def integer_of_json(content: Any) -> int:
    """An ``intValue``, which JSON may have as a text.

    Raises:
        ValueError: it is none of 64 bits.
    """
    found = int(convert(content, int | str))
    if not -(2**63) <= found < 2**63:
        raise ValueError(f"an integer of {found.bit_length():,} bits; those of OTLP have 64")
    return found


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
    "intValue": integer_of_json,
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
