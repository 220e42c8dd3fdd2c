"""Receivers as processes: killed, stopped under load, two on one folder, with clients that are slow or try again."""

import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from flywheel.collection.receiver.assembling import assemble
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import validate_day
from flywheel.settings import Settings
from tests.api.receiver.conftest import Headers, Server, headers_of, stored
from tests.api.receiver.test_logs import feedback
from tests.pool.logs import evaluation, execution, routing
from tests.pool.test_validation import DAY, LATER, points

Serve = Callable[..., Server]
Record = tuple[str, str]
LOGS = {"routing": routing, "execution": execution, "evaluation": evaluation}
CLIENTS = 8


class Load:
    """Clients that send the logs of numbered tasks, a few at once, until they are told to stop.

    They try again what failed. ``acknowledged`` has the kind and the task of each record.
    """

    def __init__(self, urls: list[str], headers: Headers) -> None:
        self.acknowledged: list[Record] = []
        self._urls = urls
        self._headers = headers
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(CLIENTS)
        self._clients = [self._pool.submit(self._send, number) for number in range(CLIENTS)]

    def _send(self, number: int) -> None:
        sent = 0
        with httpx.Client(headers=self._headers, timeout=5, trust_env=False) as client:
            while not self._ended.is_set():
                round_number, turn = divmod(sent, len(LOGS))
                kind, made = list(LOGS.items())[turn]
                tasks = [f"{number}-{round_number}-{item}" for item in range(3)]
                try:
                    response = client.post(
                        f"{self._urls[sent % len(self._urls)]}/v1/logs/{kind}", json=[made(task) for task in tasks]
                    )
                except httpx.TransportError:
                    time.sleep(0.05)
                    continue  # the same again
                if response.status_code == 200:
                    assert response.json()["accepted"] == 3
                    self.acknowledged += [(kind, task) for task in tasks]
                    sent += 1

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while len(self.acknowledged) < count:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {count} were acknowledged"
            time.sleep(0.01)

    def end(self) -> set[Record]:
        self._ended.set()
        for client in self._clients:
            client.result(30)
        self._pool.shutdown()
        assert len(set(self.acknowledged)) == len(self.acknowledged)
        return set(self.acknowledged)


def test_what_a_killed_receiver_acknowledged_is_stored_and_joined_once(settings: Settings, serve: Serve) -> None:
    """A client that saw no answer sends again what may have been stored: the pool counts such copies, and joins one."""
    first, second = serve(), serve()
    load = Load([first.url, second.url], headers_of(settings))
    load.wait_for(300)
    first.end(signal.SIGKILL)
    acknowledged_before = len(load.acknowledged)
    load._urls = [second.url]
    load.wait_for(acknowledged_before + 100)
    second.end(signal.SIGKILL)
    acknowledged = load.end()
    found = Counter(map(record_of, stored(settings)))
    assert acknowledged <= found.keys()
    logs_of_task = Counter(task for _, task in found)
    with BenchmarkPool.open(settings) as pool:
        assert index_segments(pool, now=LATER).lines == found.total()
        report = validate_day(pool, DAY, now=LATER)
        joined = sorted(point.task.id for point in points(pool))
    assert joined == sorted(task for task, logs in logs_of_task.items() if logs == len(LOGS))
    assert report.outcome == {
        "in points": len(LOGS) * len(joined),
        "quarantined": 0,
        "duplicates": found.total() - len(found),
        "waiting": len(found) - len(LOGS) * len(joined),
    }


def record_of(log: dict[str, Any]) -> Record:
    """The kind and the task of a stored record."""
    return log["log"], log["taskId"]


def test_a_receiver_that_is_told_to_stop_under_load_stops_and_has_stored_all(settings: Settings, serve: Serve) -> None:
    server = serve()
    load = Load([server.url], headers_of(settings))
    load.wait_for(200)
    assert server.end(signal.SIGTERM) == 128 + signal.SIGTERM
    acknowledged = load.end()
    assert not list(settings.segments_dir.glob("*.open"))  # it has handed its segment over
    assert acknowledged <= set(map(record_of, stored(settings)))


def trace_request(number: int, *, root: bool) -> dict[str, Any]:
    """A span of a trace: of a model call, or the root above it."""
    span = {
        "traceId": f"{number + 1:032x}",
        "spanId": f"{2 - root:016x}",
        "parentSpanId": "" if root else f"{1:016x}",
        "name": "agent" if root else "chat",
        "startTimeUnixNano": "1772452800000000000",
        "endTimeUnixNano": "1772452801000000000",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent" if root else "chat"}},
        ],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def test_traces_in_pieces_become_one_execution_each_whichever_receiver_dies(settings: Settings, serve: Serve) -> None:
    """The pieces go to two receivers in turn; the one that assembles is killed again and again, and started anew."""
    servers = [serve(trace_settle_s=0.3) for _ in range(2)]
    headers = headers_of(settings)
    sent = 0
    with httpx.Client(headers=headers, timeout=5, trust_env=False) as client:
        for kill in range(3):
            for number in range(sent, sent + 20):
                for piece, root in enumerate((False, True)):
                    while True:  # until it is acknowledged: what died before it answered may have stored it
                        server = servers[(number + piece) % 2]
                        try:
                            answer = client.post(f"{server.url}/v1/traces", json=trace_request(number, root=root))
                        except httpx.TransportError:
                            servers[(number + piece) % 2] = serve(trace_settle_s=0.3)
                            continue
                        if answer.is_success:
                            break
                if number == sent + 9 + kill:
                    servers[kill % 2].end(signal.SIGKILL)
            sent += 20
    for server in servers:
        if server.process.poll() is None:
            server.end()
    now = time.time() + 60
    assemble(settings.spans_dir, settings.segments_dir, settings.receiver, now=now)
    logs = Counter(log["taskId"] for log in stored(settings) if log["log"] == "execution")
    assert logs == {f"{number + 1:032x}": 1 for number in range(sent)}


def test_two_receivers_share_a_folder_keys_and_named_requests(settings: Settings, serve: Serve) -> None:
    first, second = serve(), serve()
    headers = headers_of(settings) | {"Idempotency-Key": "request-1"}
    answers = [
        httpx.post(f"{server.url}/v1/logs/feedback", json=feedback("t"), headers=headers) for server in (first, second)
    ]
    other = httpx.post(f"{second.url}/v1/logs/feedback", json=feedback("u"), headers=headers)
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert other.status_code == 422
    first.end()
    second.end()
    assert [record["taskId"] for record in stored(settings)] == ["t"]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"", b""),
        (b"POST /v1/logs/feedback HTTP/1.1\r\nHost: a\r\nX-Slow: ", b""),
        (b"POST /v1/logs/feedback HTTP/1.1\r\nHost: a\r\nAuthorization: %s\r\nContent-Length: 100\r\n\r\n{", b"408"),
    ],
)
def test_a_client_that_does_not_go_on_is_let_go(settings: Settings, serve: Serve, sent: bytes, expected: bytes) -> None:
    server = serve(header_timeout_s=1, body_timeout_s=1)
    authorization = headers_of(settings)["Authorization"].encode()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.settimeout(10)
        client.sendall(sent.replace(b"%s", authorization))
        began = time.monotonic()
        found = b""
        while piece := client.recv(4096):
            found += piece
    assert 0.5 < time.monotonic() - began < 5
    assert found.startswith(b"HTTP/1.1 " + expected) if expected else not found
