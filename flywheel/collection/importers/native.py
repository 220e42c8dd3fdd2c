"""The project's own formats: the four logs, and whole data points; one a line, a list of them, or one that is indented.

A line of a log is taken as it is: the pool judges it, and quarantines it with its reason if it is malformed. A point is
taken apart into its logs; latency and tokens it must have, as any log of an arbiter.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from flywheel.collection.importers.interface import Line, Logs, Opening, Rejected
from flywheel.collection.json_records import UTF8_MARK, records, skip_line
from flywheel.collection.segments import MAX_PAYLOAD_BYTES
from flywheel.records import (
    DataPoint,
    Evaluation,
    Execution,
    Log,
    RoutingDecision,
    decode_log,
    decode_point,
)

if TYPE_CHECKING:
    from flywheel.collection.documents import Document

POINT_KEYS = frozenset({"task", "routing", "execution", "evaluation"})
INDENTED = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{[ \t]*\r?\n")
compact = msgspec.json.format
BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)


class Native:
    """Logs or points."""

    name = "native"
    rewarded = True

    def recognizes(self, opening: Opening) -> bool:
        """By the field that says which log a line is, or the parts of a point."""
        return "log" in opening.keys or opening.keys >= POINT_KEYS

    def runs(self, document: "Document") -> Iterator[Logs | Line | Rejected]:
        """The document's logs or points."""
        of = point_of if document.opening.keys >= POINT_KEYS else line_of
        if document.opening.listed or INDENTED.match(document.opening.head):
            for record in records(document):
                if isinstance(record, Rejected):
                    yield record
                else:
                    yield of(compact(record.raw, indent=-1), record.line, record.item)
        else:
            yield from self._lines(document, of)

    @staticmethod
    def _lines(
        document: "Document", of: Callable[[bytes, int, str], Logs | Line | Rejected]
    ) -> Iterator[Logs | Line | Rejected]:
        number = 0
        while line := document.stream.readline(MAX_PAYLOAD_BYTES):
            number += 1
            if len(line) == MAX_PAYLOAD_BYTES and not line.endswith(b"\n"):
                size = len(line) + skip_line(document.stream)
                detail = f"it has {size:,} bytes, a log may have {MAX_PAYLOAD_BYTES:,}"
                yield Rejected(reason="record too large", detail=detail, line=number)
                continue
            payload = (line.removeprefix(UTF8_MARK) if number == 1 else line).strip()
            if payload:
                yield of(payload, number, "")


def line_of(payload: bytes, number: int, item: str) -> Line:
    """A line of a log, with what is counted of it."""
    try:
        log = decode_log(payload)
    except BROKEN as error:
        detail = str(error) or type(error).__name__
        return Line(payload=payload, problem=Rejected(reason="no log", detail=detail, line=number, item=item))
    return Line(payload=payload, log=log)


def point_of(payload: bytes, number: int, item: str) -> Logs | Rejected:
    """The logs that a data point was joined of."""
    try:
        point = decode_point(payload)
    except BROKEN as error:
        detail = str(error) or type(error).__name__
        return Rejected(reason="no data point", detail=detail, line=number, item=item)
    return Logs(logs_of(point))


def logs_of(point: DataPoint) -> tuple[Log, ...]:
    """A point taken apart. Where it has no time of its own, a log has the point's."""
    task, routing, origin = point.task, point.routing, point.provenance.imported
    keys = {"task_id": task.id, "tenant_id": point.tenant_id, "timestamp": point.timestamp, "imported": origin}
    agent_id = routing.selected_agent_id
    routed = RoutingDecision(
        task_type=task.type,
        complexity=task.complexity,
        description=task.description,
        requirements=task.requirements,
        source=task.source,
        selected_agent_id=agent_id,
        strategy=routing.strategy,
        confidence=routing.confidence,
        candidate_agents=routing.candidate_agents,
        primary_reason=routing.primary_reason,
        secondary_factors=routing.secondary_factors,
        **keys,  # type: ignore[arg-type]
    )
    executed = Execution(
        **fields_of(point.execution),  # type: ignore[arg-type]
        **keys,  # type: ignore[arg-type]
        agent_id=agent_id,
        cached_from=point.provenance.cached_from,
    )
    evaluated = Evaluation(
        **fields_of(point.evaluation),  # type: ignore[arg-type]
        **keys,  # type: ignore[arg-type]
        agent_id=agent_id,
        caws=point.caws,
    )
    return (routed, executed, evaluated, *point.feedback)


def fields_of(part: msgspec.Struct) -> dict[str, object]:
    """The fields of a part of a point, as its log has them."""
    return {name: getattr(part, name) for name in part.__struct_fields__}
