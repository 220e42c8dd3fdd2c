"""OTLP over HTTP and gRPC: answers as the specification has them, spans on disk before they are acknowledged."""

import gzip
import json
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from fastapi.testclient import TestClient
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from flywheel.api.app import create_app
from flywheel.api.callers import api_token
from flywheel.collection.receiver import assembling
from flywheel.collection.receiver.span_store import load
from flywheel.settings import Settings
from tests.api.receiver.conftest import Limited, free_port, headers_of, running, stored
from tests.api.receiver.test_logs import receiver_of
from tests.collection.importers.test_otlp import REQUEST, as_protobuf

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def traces(*trace_ids: str) -> ExportTraceServiceRequest:
    """A request with spans of these traces; one that is no trace id stays as it is."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number, trace_id in enumerate(trace_ids, 1):
        span = spans.add(trace_id=trace_id.encode(), span_id=number.to_bytes(8), name="chat m")
        span.start_time_unix_nano, span.end_time_unix_nano = 10**18, 10**18 + 10**9
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    return request


def waiting(settings: Settings) -> int:
    return load(settings.spans_dir).waiting


def test_protobuf_and_json_are_stored_and_answered_in_kind(settings: Settings) -> None:
    with running(settings) as client:
        one = client.post("/v1/traces", content=traces("a" * 16).SerializeToString(), headers=PROTOBUF)
        compressed = gzip.compress(as_protobuf(REQUEST).SerializeToString())
        two = client.post("/v1/traces", content=compressed, headers=PROTOBUF | {"Content-Encoding": "gzip"})
        three = client.post("/v1/traces", json=REQUEST)
    for answer in (one, two):
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
        assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    assert (three.status_code, three.json()) == (200, {})
    assert waiting(settings) == 3


def test_bad_spans_are_counted_in_partial_success(settings: Settings) -> None:
    with running(settings) as client:
        mixed = client.post("/v1/traces", content=traces("a" * 16, "short").SerializeToString(), headers=PROTOBUF)
        request = json.loads(json.dumps(REQUEST))
        request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["spanId"] = "0"
        none = client.post("/v1/traces", json=request)
    found = ExportTraceServiceResponse.FromString(mixed.content).partial_success
    assert (mixed.status_code, found.rejected_spans) == (200, 1)
    assert "item 1" in found.error_message
    assert none.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert waiting(settings) == 1


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"\xff\xff", PROTOBUF, 400),
        (b"[]", {"Content-Type": "application/json"}, 400),
        (b"x", PROTOBUF | {"Content-Encoding": "gzip"}, 400),
        (b"x", PROTOBUF | {"Content-Encoding": "br"}, 415),
        (b"", PROTOBUF | {"Authorization": "Bearer no"}, 401),
    ],
)
def test_a_refusal_is_a_status_in_the_request_s_encoding(
    client: TestClient, content: bytes, headers: dict[str, str], status: int
) -> None:
    answer = client.post("/v1/traces", content=content, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, headers["Content-Type"])
    message = answer.json()["message"] if b"json" in headers["Content-Type"].encode() else ""
    assert message or Status.FromString(answer.content).message


def test_other_content_types_are_refused(client: TestClient) -> None:
    answer = client.post("/v1/traces", content=b"x", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.headers["content-type"]) == (415, "application/problem+json")


def test_what_may_come_again_says_when(limited: Limited) -> None:
    with running(limited(min_free_bytes=2**62)) as client:
        answer = client.post("/v1/traces", content=traces("a" * 16).SerializeToString(), headers=PROTOBUF)
    assert (answer.status_code, int(answer.headers["retry-after"]) >= 1) == (503, True)


def test_events_of_the_logs_signal_are_stored_and_plain_logs_refused(settings: Settings) -> None:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    records.add(trace_id=b"a" * 16, span_id=b"b" * 8, event_name="gen_ai.evaluation.result")
    records.add(trace_id=b"a" * 16).body.string_value = "hello"
    with running(settings) as client:
        answer = client.post("/v1/logs", content=request.SerializeToString(), headers=PROTOBUF)
    assert ExportLogsServiceResponse.FromString(answer.content).partial_success.rejected_log_records == 1
    assert waiting(settings) == 1


def test_spans_become_logs_by_themselves(limited: Limited, settings: Settings) -> None:
    with running(limited(trace_settle_s=0.2)) as client:
        request = json.loads(json.dumps(REQUEST))
        held = request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        held["parentSpanId"] = ""
        held["attributes"].append({"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}})
        assert client.post("/v1/traces", json=request).status_code == 200
        deadline = time.monotonic() + 20
        while not (settings.segments_dir.exists() and list(settings.segments_dir.glob("otlp-*"))):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    (log,) = stored(settings)
    assert (log["log"], log["tenantId"], log["success"]) == ("execution", "acme", False)


@pytest.fixture
def address(settings: Settings) -> Iterator[str]:
    """Where the receiver of this process takes gRPC."""
    found = f"127.0.0.1:{free_port()}"
    with TestClient(create_app(settings, otlp_grpc_address=found)):
        yield found


def exported(address: str, request: Any, *metadata: tuple[str, str]) -> Any:
    with grpc.insecure_channel(address, compression=grpc.Compression.Gzip) as channel:
        return TraceServiceStub(channel).Export(request, metadata=metadata, timeout=20)  # type: ignore[no-untyped-call]


def test_grpc_stores_and_counts_and_refuses(address: str, settings: Settings) -> None:
    key = ("authorization", headers_of(settings)["Authorization"])
    answer = exported(address, traces("a" * 16, "short"), key)
    assert answer.partial_success.rejected_spans == 1
    for metadata in ((), (("authorization", "Bearer no"),)):
        with pytest.raises(grpc.RpcError) as refused:
            exported(address, traces("a" * 16), *metadata)
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_grpc_says_unavailable_and_when_to_come_again(limited: Limited, settings: Settings) -> None:
    key = ("authorization", headers_of(settings)["Authorization"])
    found = f"127.0.0.1:{free_port()}"
    with TestClient(create_app(limited(min_free_bytes=2**62), otlp_grpc_address=found)):
        with pytest.raises(grpc.RpcError) as refused:
            exported(found, traces("a" * 16), key)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "grpc-status-details-bin" in dict(refused.value.trailing_metadata())


def test_a_key_is_asked_for_before_the_body_is_read(client: TestClient) -> None:
    answer = client.post("/v1/traces", content=b"x" * 100, headers={**PROTOBUF, "Authorization": ""})
    assert answer.status_code == 401


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_receiver_whose_assembler_has_ended_is_not_ready(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes would never become logs."""

    def ending(*_: Any, **__: Any) -> None:
        raise SystemExit  # ends a thread without a word

    with running(limited(trace_settle_s=0.05)) as client:
        assert client.get("/readyz").status_code == 200
        monkeypatch.setattr(assembling, "assemble", ending)
        deadline = time.monotonic() + 20
        while client.get("/readyz").status_code == 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert client.get("/healthz").status_code == 200


def test_a_trace_that_is_set_aside_is_in_the_metrics(
    limited: Limited, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Any) -> Any:
        raise KeyError("nobody foresaw this")

    monkeypatch.setattr(assembling, "logs_of_trace", failing)
    with running(limited(trace_settle_s=0.2)) as client:
        rooted = traces("a" * 16).SerializeToString()
        assert client.post("/v1/traces", content=rooted, headers=PROTOBUF).status_code == 200
        letters = settings.spans_dir / "dead-letters"
        deadline = time.monotonic() + 20
        while not list(letters.glob("*.KeyError.segment")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        receiver_of(client)._assembler.stop()  # its round has ended
        token = {"Authorization": f"Bearer {api_token(settings).decode()}"}
        told = client.get("/metrics", headers=token).text
    assert 'flywheel_set_aside_traces_total{reason="KeyError"} 1.0' in told
    assert 'flywheel_dead_letter_files{of="spans"} 1.0' in told
