"""OTLP: requests of OpenTelemetry exporters, as JSON or protobuf, read into spans and events of one plain form.

The envelope is that of opentelemetry-proto (``ExportTraceServiceRequest``, ``ExportLogsServiceRequest``) and its JSON
mapping (``flywheel.collection.importers.otlp_json``). Of a span the links, flags and trace state are not kept; nothing
here reads them. ``flywheel.collection.importers.otlp_records`` makes the logs of the pool out of what is read here.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from flywheel.collection.importers.otlp_json import LogsRequest, TraceRequest, events_of_json, spans_of_json
from flywheel.collection.importers.otlp_spans import (
    Attributes,
    LooseEvent,
    Refused,
    Span,
    SpanEvent,
    checked_event,
    checked_span,
)

if TYPE_CHECKING:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue as ProtobufKeyValue


def read_traces(request: "Mapping[str, Any] | bytes | ExportTraceServiceRequest") -> list[Span | Refused]:
    """The spans of a request: JSON as bytes or already decoded, or a protobuf message.

    Raises:
        msgspec.MsgspecError: it is no trace request in JSON.
    """
    if isinstance(request, bytes):
        return list(numbered(spans_of_json(msgspec.json.decode(request, type=TraceRequest))))
    if isinstance(request, Mapping):
        return list(numbered(spans_of_json(msgspec.convert(request, TraceRequest))))
    return list(numbered(spans_of_protobuf(request)))


def read_logs(request: "Mapping[str, Any] | bytes | ExportLogsServiceRequest") -> list[LooseEvent | Refused]:
    """The events of a logs request. Records that are no events or belong to no trace are refused.

    Raises:
        msgspec.MsgspecError: it is no logs request in JSON.
    """
    if isinstance(request, bytes):
        return list(numbered(events_of_json(msgspec.json.decode(request, type=LogsRequest))))
    if isinstance(request, Mapping):
        return list(numbered(events_of_json(msgspec.convert(request, LogsRequest))))
    return list(numbered(events_of_protobuf(request)))


def numbered(items: Iterable[Any]) -> Iterator[Any]:
    """The items, with their places given to those that are refused."""
    for index, item in enumerate(items):
        yield msgspec.structs.replace(item, index=index) if isinstance(item, Refused) else item


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
