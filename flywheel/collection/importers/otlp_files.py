"""Files of OTLP: what OpenTelemetry's Collector writes with its file exporter, what SDKs write, a request or several.

Spans of a trace, and events of the logs signal that name it, may stand anywhere in the files of an import: they are
gathered by trace, and each trace becomes a run (``otlp_runs``). JSON comes a request a line or as one document,
protobuf as ``otlp_frames`` says.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from flywheel.collection.importers.interface import Group, Json, Logs, Opening, Rejected, Row, Run
from flywheel.collection.importers.otlp import read_logs, read_traces
from flywheel.collection.importers.otlp_frames import Frame, frames, framing
from flywheel.collection.importers.otlp_runs import outcome_of_trace
from flywheel.collection.importers.otlp_spans import Item, Refused, decode_item, encode_item
from flywheel.collection.importers.per_record import NOT_OF_FORMAT
from flywheel.collection.json_records import decoded, is_lines, records

if TYPE_CHECKING:
    from flywheel.collection.documents import Document

READERS: dict[str, Callable[[Json], Sequence[Item | Refused]]] = {
    "resourceSpans": read_traces,
    "resourceLogs": read_logs,
}
UNUSABLE = (msgspec.MsgspecError, RecursionError, OverflowError)


class OtlpFiles:
    """Spans, and events of the logs signal; those of one trace make a run."""

    name = "otlp"
    rewarded = True
    lists = tuple(READERS)

    def recognizes(self, opening: Opening) -> bool:
        """By the one key that a request in JSON has, or by the fields of one in protobuf."""
        if not opening.keys.isdisjoint(READERS):
            return not opening.listed
        return not opening.members and framing(opening.head) is not None

    def rows(self, document: "Document") -> Iterator[Row | Rejected]:
        """The document's spans and events."""
        if (header := framing(document.opening.head)) is not None:
            for frame in frames(document.stream, header):
                yield from (frame,) if isinstance(frame, Rejected) else of_frame(frame)
            return
        lists = () if is_lines(document.opening.head, document.name) else self.lists
        for record in records(document, *lists):
            if isinstance(record, Rejected):
                yield record
            else:
                request = {record.key: [record.value]} if record.key else record.value
                yield from of_json(request, line=record.line, item=record.item)

    def outcome(self, group: Group) -> Run | Logs | Rejected:
        """What becomes of a trace."""
        outcome = outcome_of_trace([decode_item(raw) for _, raw in group.rows])
        return msgspec.structs.replace(outcome, line=group.line) if isinstance(outcome, Rejected) else outcome


def of_frame(frame: Frame) -> Iterator[Row | Rejected]:
    """The spans or events of a message."""
    item = f"message {frame.number}"
    if frame.is_json:
        record = decoded(frame.payload, 1, item)
        yield from (record,) if isinstance(record, Rejected) else of_json(record.value, line=1, item=item)
        return
    from google.protobuf.message import DecodeError

    try:
        found = of_protobuf(frame.payload)
    except DecodeError as error:
        yield Rejected(reason=NOT_OF_FORMAT, detail=f"it is no request in protobuf: {error}", item=item)
        return
    yield from placed(found, line=1, item=item)


def of_protobuf(payload: bytes) -> Sequence[Item | Refused]:
    """The spans or events of a request. Which of both it has, only what is in it tells: a span has ids, a record times.

    Raises:
        DecodeError: it is neither.
    """
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    traces = ExportTraceServiceRequest.FromString(payload)
    spans = [span for group in traces.resource_spans for scoped in group.scope_spans for span in scoped.spans]
    if any(span.trace_id for span in spans):
        return read_traces(traces)
    return read_logs(ExportLogsServiceRequest.FromString(payload))


def of_json(request: Json, *, line: int, item: str) -> Iterator[Row | Rejected]:
    """The spans and events of a request, or of an element of its list. An exporter writes empty requests too."""
    known = [(name, read) for name, read in READERS.items() if name in request]
    if not known and request:
        detail = f"expected {' or '.join(READERS)}, found {', '.join(sorted(request)[:10]):.200}"
        yield Rejected(reason=NOT_OF_FORMAT, detail=detail, line=line, item=item)
    for name, read in known:
        try:
            found: Sequence[Item | Refused] = read({name: request[name]})
        except UNUSABLE as error:
            yield Rejected(reason=NOT_OF_FORMAT, detail=f"{name}: {error}", line=line, item=item)
        else:
            yield from placed(found, line=line, item=item)


def placed(found: Sequence[Item | Refused], *, line: int, item: str) -> Iterator[Row | Rejected]:
    """Spans and events as rows of their traces; those that belong to none with their places."""
    for one in found:
        if isinstance(one, Refused):
            yield Rejected(reason=one.reason, detail=one.detail, line=line, item=f"{item}#{one.index}".lstrip())
        else:
            yield Row(key=one.trace_id, line=line, raw=encode_item(one))
