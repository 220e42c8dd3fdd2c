"""OTLP over gRPC: the trace and logs services, as OpenTelemetry's exporters call them by default."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import Any, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as ProtobufAny
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc

from flywheel.api.otlp import logs_response, trace_response
from flywheel.api.problems import status_of
from flywheel.api.receiving import KEYS
from flywheel.collection.importers.otlp import read_logs, read_traces
from flywheel.collection.importers.otlp_spans import LooseEvent, Refused, Span
from flywheel.collection.receiver.admission import admit_spans
from flywheel.collection.receiver.committing import DiskError
from flywheel.collection.receiver.keys import Holder, UnknownKeyError
from flywheel.collection.receiver.receiver import Receiver, Signal
from flywheel.errors import DatabaseError, FlywheelError, PortInUseError, RetryLaterError

THREADS = 32
STOP_GRACE_S = 2.0
WAIT_S = 5.0  # where an error does not say after how long to try again
DETAILS = "grpc-status-details-bin"


@contextmanager
def serving(receiver: Receiver, address: str) -> Iterator[None]:
    """Take OTLP over gRPC at ``HOST:PORT`` while the context lasts; nowhere where the address is empty.

    Raises:
        PortInUseError: another program listens there.
    """
    if not address:
        yield
        return
    server = grpc_server(receiver, address)
    server.start()
    try:
        yield
    finally:
        server.stop(STOP_GRACE_S).wait()


def grpc_server(receiver: Receiver, address: str) -> grpc.Server:
    """The server, not started.

    Raises:
        PortInUseError: another program listens there.
    """
    limits = receiver.limits
    server = grpc.server(
        ThreadPoolExecutor(THREADS, thread_name_prefix="otlp-grpc"),
        maximum_concurrent_rpcs=THREADS * 4,
        options=[
            ("grpc.max_receive_message_length", limits.max_decoded_bytes),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.max_connection_idle_ms", 300_000),
        ],
    )
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(receiver), server)  # type: ignore[no-untyped-call]
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Events(receiver), server)  # type: ignore[no-untyped-call]
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise PortInUseError(
            f"OTLP over gRPC cannot listen at {address}: {error}; choose another port, FLYWHEEL_PORTS__OTLP_GRPC"
        ) from error
    return server


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    """``opentelemetry.proto.collector.trace.v1.TraceService``."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: grpc.ServicerContext) -> Message:  # noqa: N802 - the name of the call
        """Take spans."""
        return trace_response(export(self._receiver, "traces", request, read_traces, context))


class Events(logs_service_pb2_grpc.LogsServiceServicer):
    """``opentelemetry.proto.collector.logs.v1.LogsService``."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: grpc.ServicerContext) -> Message:  # noqa: N802 - the name of the call
        """Take events of spans."""
        return logs_response(export(self._receiver, "events", request, read_logs, context))


def export(
    receiver: Receiver,
    signal: Signal,
    request: Any,
    read: Callable[[Any], Sequence[Span | LooseEvent | Refused]],
    context: grpc.ServicerContext,
) -> list[Refused]:
    """Store what a call brings. What could not be stored is returned; a call that fails is ended with its status."""
    began = time.perf_counter()
    try:
        holder = holder_of(receiver, context)
        receiver.check_rate(holder)
        size = request.ByteSize()
        receiver.counters.bytes.labels(signal).inc(size)
        with receiver.room_for(size):
            admitted = admit_spans(read(request), tenant_id=holder.tenant_id, limits=receiver.limits)
            future = receiver.store(holder, signal, admitted)
            try:
                future.result(receiver.limits.write_timeout_s)
            except FutureTimeoutError:
                raise DiskError("the receiver's disk has not taken it in time; send it again") from None
    except FlywheelError as error:
        receiver.counters.refused.labels(signal, status_of(error).phrase).inc()
        refuse(context, error)
    receiver.acknowledge(signal, admitted.lines, seconds=time.perf_counter() - began)
    return admitted.refused


def holder_of(receiver: Receiver, context: grpc.ServicerContext) -> Holder:
    """Whose key a call carries in its metadata.

    Raises:
        UnknownKeyError: it carries none that is good.
        DatabaseError: the key is not in memory and PostgreSQL cannot be used.
    """
    given = dict(context.invocation_metadata()).get("authorization", "")
    scheme, _, key = (given if isinstance(given, str) else given.decode("ascii", "replace")).partition(" ")
    if scheme.lower() != "bearer":
        raise UnknownKeyError(f"this call has no key; {KEYS}")
    return receiver.holder_of(key.strip())


def refuse(context: grpc.ServicerContext, error: FlywheelError) -> NoReturn:
    """End a call. What may be sent again later is UNAVAILABLE, with the time to wait, as OTLP asks for."""
    if isinstance(error, RetryLaterError | DatabaseError):
        wait_s = error.wait_s if isinstance(error, RetryLaterError) else WAIT_S
        detail = ProtobufAny()
        detail.Pack(RetryInfo(retry_delay=Duration(nanos=0, seconds=max(1, round(wait_s)))))
        status = Status(code=grpc.StatusCode.UNAVAILABLE.value[0], message=str(error), details=[detail])
        context.set_trailing_metadata(((DETAILS, status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
    if isinstance(error, UnknownKeyError):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    raise AssertionError("a call that was aborted goes no further")
