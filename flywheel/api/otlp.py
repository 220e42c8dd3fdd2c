"""OTLP over HTTP: ``POST /v1/traces`` and ``POST /v1/logs``, protobuf or JSON, as OpenTelemetry's exporters send them.

The events of ``/v1/logs`` are those of spans, which come apart from them by newer conventions. Answers are OTLP's: what
was not stored is in ``partialSuccess``; a refusal is a ``google.rpc.Status`` in the encoding of the request.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, Request, Response, Security
from google.protobuf.message import DecodeError, Message
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from flywheel.api.problems import headers_of, problem, status_of
from flywheel.api.receiving import key_scheme, media_type, receiver_of, taken
from flywheel.collection.importers.otlp import read_logs, read_traces
from flywheel.collection.importers.otlp_spans import LooseEvent, Refused, Span
from flywheel.collection.receiver.admission import Admitted, admit_spans
from flywheel.collection.receiver.bodies import BodyError, UnknownEncodingError
from flywheel.collection.receiver.receiver import Signal
from flywheel.errors import FlywheelError

PROTOBUF, JSON = "application/x-protobuf", "application/json"
SHOWN = 20  # refusals that an answer spells out; it counts them all
CODES = {
    HTTPStatus.BAD_REQUEST: Code.INVALID_ARGUMENT,
    HTTPStatus.UNAUTHORIZED: Code.UNAUTHENTICATED,
    HTTPStatus.REQUEST_TIMEOUT: Code.DEADLINE_EXCEEDED,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: Code.INVALID_ARGUMENT,
    HTTPStatus.TOO_MANY_REQUESTS: Code.RESOURCE_EXHAUSTED,
    HTTPStatus.SERVICE_UNAVAILABLE: Code.UNAVAILABLE,
}

Answer = TypeVar("Answer", ExportTraceServiceResponse, ExportLogsServiceResponse)

router = APIRouter(tags=["receiver"], dependencies=[Security(key_scheme)])


def described(request: str, response: str) -> dict[str, Any]:
    """A route for OpenAPI: what OpenTelemetry's own description says of it."""
    content = {PROTOBUF: {"schema": {"type": "string", "format": "binary"}}, JSON: {"schema": {"type": "object"}}}
    statuses = {status.value: {"description": status.phrase} for status in (*CODES, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)}
    return {
        "openapi_extra": {"requestBody": {"required": True, "description": request, "content": content}},
        "responses": {HTTPStatus.OK.value: {"description": response, "content": content}, **statuses},
        "response_class": Response,
    }


@router.post(
    "/v1/traces",
    summary="Take spans of OpenTelemetry",
    **described("ExportTraceServiceRequest", "ExportTraceServiceResponse: synced to disk."),
)
async def receive_traces(request: Request) -> Response:
    """Spans of OpenTelemetry. They become the logs of a task when their trace is whole."""
    return await exported(request, "traces", traces_in, trace_response)


@router.post(
    "/v1/logs",
    summary="Take events of OpenTelemetry",
    **described("ExportLogsServiceRequest", "ExportLogsServiceResponse: synced to disk."),
)
async def receive_events(request: Request) -> Response:
    """Events of OpenTelemetry's logs signal that belong to spans, such as `gen_ai.evaluation.result`."""
    return await exported(request, "events", events_in, logs_response)


def traces_in(body: bytes, *, protobuf: bool) -> list[Span | Refused]:
    """The spans of a body.

    Raises:
        DecodeError: it is not the protobuf message.
        msgspec.MsgspecError: it is not the message in JSON.
    """
    return read_traces(ExportTraceServiceRequest.FromString(body) if protobuf else body)


def events_in(body: bytes, *, protobuf: bool) -> list[LooseEvent | Refused]:
    """The events of a body.

    Raises:
        DecodeError: it is not the protobuf message.
        msgspec.MsgspecError: it is not the message in JSON.
    """
    return read_logs(ExportLogsServiceRequest.FromString(body) if protobuf else body)


async def exported(
    request: Request,
    signal: Signal,
    read: Callable[..., Any],
    respond: Callable[[list[Refused]], Message],
) -> Response:
    """The answer to an exporter."""
    receiver = receiver_of(request)
    try:
        work = await taken(request, signal, PROTOBUF, JSON)
        protobuf = work.media_type == PROTOBUF

        def judge(body: bytes) -> Admitted:
            try:
                items = read(body, protobuf=protobuf)
            except (DecodeError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise BodyError(f"the body is no OTLP request: {error}") from None
            return admit_spans(items, tenant_id=work.holder.tenant_id, limits=receiver.limits)

        with receiver.room_for(len(work.body)):
            admitted = await work.judged(judge, encoding=request.headers.get("content-encoding", ""))
            await work.stored(admitted)
    except FlywheelError as error:
        receiver.counters.refused.labels(signal, status_of(error).phrase).inc()
        return refusal(request, error)
    return encoded(respond(admitted.refused), protobuf=protobuf)


def refusal(request: Request, error: FlywheelError) -> Response:
    """The answer to what cannot be taken: OTLP's in the request's encoding, a problem where that is not one of its."""
    status = status_of(error)
    try:
        protobuf = media_type(request, PROTOBUF, JSON) == PROTOBUF
    except UnknownEncodingError:
        return problem(request, status, str(error), headers=headers_of(error))
    answer = Status(code=CODES.get(status, Code.UNKNOWN), message=str(error))
    return encoded(answer, protobuf=protobuf, status=status, headers=headers_of(error))


def trace_response(refused: list[Refused]) -> ExportTraceServiceResponse:
    """OTLP's answer about spans."""
    return in_part(ExportTraceServiceResponse(), "rejected_spans", refused)


def logs_response(refused: list[Refused]) -> ExportLogsServiceResponse:
    """OTLP's answer about log records."""
    return in_part(ExportLogsServiceResponse(), "rejected_log_records", refused)


def in_part(response: Answer, count: str, refused: list[Refused]) -> Answer:
    """The answer with what was refused, counted in the field that it has for that."""
    if refused:
        setattr(response.partial_success, count, len(refused))
        response.partial_success.error_message = said(refused)
    return response


def said(refused: list[Refused]) -> str:
    """What was wrong with items, in one sentence each."""
    more = f"; and {len(refused) - SHOWN:,} more" if len(refused) > SHOWN else ""
    return "; ".join(f"item {item.index}: {item.detail}" for item in refused[:SHOWN]) + more


def encoded(
    message: Message, *, protobuf: bool, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    """A message in the encoding of its request."""
    if protobuf:
        return Response(message.SerializeToString(), status, headers=headers, media_type=PROTOBUF)
    from google.protobuf.json_format import MessageToJson

    return Response(MessageToJson(message, indent=None), status, headers=headers, media_type=JSON)
