"""Records over HTTP: what is acknowledged, what is refused, and why."""

import gzip
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import zstandard
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from flywheel.api.callers import api_token
from flywheel.collection.receiver.receiver import Receiver
from flywheel.records import decode_log
from flywheel.settings import Settings
from tests.api.receiver.conftest import Headers, Limited, headers_of, running, stored
from tests.pool.logs import evaluation, execution, routing

BIG_ENOUGH = 3 * 2**20  # a body that is judged in a thread


def feedback(task: str, **fields: Any) -> dict[str, Any]:
    return {
        "taskId": task,
        "timestamp": "2026-03-02T12:00:05Z",
        "source": "user",
        "name": "thumbs",
        "value": 1,
    } | fields


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode(record) + b"\n" for record in records)


def receiver_of(client: TestClient) -> Receiver:
    found: Receiver = client.app.state.receiver  # type: ignore[attr-defined]
    return found


def problem(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert found["status"] == status
    return found


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("routing", routing("t")),
        ("execution", execution("t")),
        ("evaluation", evaluation("t")),
        ("feedback", feedback("t")),
    ],
)
def test_a_record_of_each_kind_is_stored_as_the_key_s_tenant_s(settings: Settings, kind: str, record: Any) -> None:
    sent = {name: value for name, value in record.items() if name not in {"log", "tenantId"}} | {
        "newField": [1, {"a": 2}]
    }
    with running(settings) as client:
        response = client.post(f"/v1/logs/{kind}", json=sent)
    assert (response.status_code, response.json()) == (200, {"accepted": 1, "rejected": 0, "errors": []})
    (found,) = stored(settings)
    assert found == {**sent, "log": kind, "tenantId": "acme"}
    assert decode_log(msgspec.json.encode(found)).tenant_id == "acme"


@pytest.mark.parametrize("encode", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("form", ["one", "list", "lines"])
def test_every_form_comes_in_every_encoding(settings: Settings, encode: Callable[[bytes], bytes], form: str) -> None:
    records = [feedback(f"t{number}") for number in range(1 if form == "one" else 3)]
    content = {"one": msgspec.json.encode(records[0]), "list": msgspec.json.encode(records), "lines": lines(records)}[
        form
    ]
    kind = "application/x-ndjson" if form == "lines" else "application/json; charset=utf-8"
    name = {bytes: "identity", gzip.compress: "gzip"}.get(encode, "zstd")
    with running(settings) as client:
        response = client.post(
            "/v1/logs/feedback", content=encode(content), headers={"Content-Type": kind, "Content-Encoding": name}
        )
    assert response.json()["accepted"] == len(records), response.text
    assert [found["taskId"] for found in stored(settings)] == [record["taskId"] for record in records]


def test_bad_records_cost_no_good_ones_and_each_is_named(settings: Settings) -> None:
    records = [
        feedback("good"),
        feedback("t", value=None),
        feedback("t", tenantId="other"),
        feedback("t", log="routing"),
        feedback("t", deep=[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]),
        feedback("also good", tenantId="acme", log="feedback"),
    ]
    with running(settings) as client:
        response = client.post("/v1/logs/feedback", json=records)
        broken = client.post(
            "/v1/logs/feedback",
            content=lines(records[:1]) + b'{"taskId": \n\n\xff\n' + lines(records[-1:]),
            headers={"Content-Type": "application/x-ndjson"},
        )
    assert response.status_code == broken.status_code == 200
    found = response.json()
    assert (found["accepted"], found["rejected"]) == (2, 4)
    assert [(error["index"], error["reason"]) for error in found["errors"]] == [
        (1, "schema"),
        (2, "tenant"),
        (3, "schema"),
        (4, "too-deep"),
    ]
    assert "$.value" in found["errors"][0]["detail"]
    assert [(error["index"], error["reason"]) for error in broken.json()["errors"]] == [
        (1, "not-json"),
        (2, "not-json"),
    ]
    assert [record["taskId"] for record in stored(settings)] == ["good", "also good"] * 2


def test_where_no_record_can_be_used_the_answer_is_an_error(client: TestClient, settings: Settings) -> None:
    found = problem(client.post("/v1/logs/feedback", json=[{}, 7]), 422)
    assert [error["index"] for error in found["errors"]] == [0, 1]
    assert client.post("/v1/logs/feedback", json=[]).json() == {"accepted": 0, "rejected": 0, "errors": []}
    assert stored(settings) == []


def test_a_named_request_that_was_refused_is_worked_on_anew(client: TestClient) -> None:
    for _ in range(2):
        response = client.post("/v1/logs/feedback", json=[7], headers={"Idempotency-Key": "refused"})
        problem(response, 422)
        assert "idempotent-replayed" not in response.headers


@pytest.mark.parametrize(
    ("content", "headers", "status", "words"),
    [
        (b"", {}, 400, "empty"),
        (b"[1, 2", {}, 400, "not a JSON list"),
        (b"[" * 100_000, {}, 400, "not a JSON list"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "application/json"),
        (b"{}", {"Content-Encoding": "br"}, 415, "gzip, zstd"),
        (b"{}", {"Content-Encoding": "gzip"}, 400, "not gzip"),
        (gzip.compress(b"{}", mtime=0)[:-5], {"Content-Encoding": "gzip"}, 400, "cut short"),
        (b"{}", {"Content-Encoding": "zstd"}, 400, "not zstd"),
        (zstandard.compress(b"{}" * 999)[:-3], {"Content-Encoding": "zstd"}, 400, "cut short"),
        (b"{}", {"Idempotency-Key": "a b"}, 400, "Idempotency-Key"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(
    client: TestClient, content: bytes, headers: Headers, status: int, words: str
) -> None:
    asked = {"Content-Type": "application/json"} | headers
    assert words in problem(client.post("/v1/logs/feedback", content=content, headers=asked), status)["detail"]


@pytest.mark.parametrize("encode", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_bomb_is_refused_before_it_is_unpacked(limited: Limited, encode: Callable[[bytes], bytes]) -> None:
    bomb = encode(b"[" + b" " * 300 * 2**20 + b"]")
    assert len(bomb) < 2**20
    name = "gzip" if encode is gzip.compress else "zstd"
    with running(limited(max_decoded_bytes=2**20)) as client:
        response = client.post("/v1/logs/feedback", content=bomb, headers={"Content-Encoding": name})
    assert "unpacks to more than the 1,048,576" in problem(response, 413)["detail"]


def test_sizes_are_bounded(limited: Limited, settings: Settings) -> None:
    with running(limited(max_body_bytes=5_000, max_item_bytes=1_000, max_items=10)) as client:
        large = problem(client.post("/v1/logs/feedback", content=b" " * 5_001), 413)
        streamed = problem(client.post("/v1/logs/feedback", content=(b" " * 1_000 for _ in range(6))), 413)
        many = problem(client.post("/v1/logs/feedback", json=[7] * 11), 413)
        item = client.post("/v1/logs/feedback", json=[feedback("a"), feedback("b", name="x" * 1_000)]).json()
    assert large["detail"] == streamed["detail"]
    assert "5,000 bytes" in large["detail"]
    assert "11 items" in many["detail"]
    assert (item["accepted"], item["errors"][0]["reason"]) == (1, "too-large")
    assert len(stored(settings)) == 1


def test_only_a_key_lets_records_in(client: TestClient, settings: Settings) -> None:
    token = api_token(settings).decode()
    good = client.headers["Authorization"]
    for given in ("", "Bearer", f"Bearer {token}", good[:-1] + ("A" if good[-1] != "A" else "B"), f"Basic {good[7:]}"):
        response = client.post("/v1/logs/feedback", json=feedback("t"), headers={"Authorization": given})
        assert "flywheel keys create" in problem(response, 401)["detail"]
        assert response.headers["www-authenticate"] == "Bearer"
    assert stored(settings) == []


@pytest.mark.parametrize("path", ["/v1/logs/feedback", "/v1/traces", "/v1/logs"])
def test_nothing_is_said_of_a_request_before_its_key_is_known(client: TestClient, path: str) -> None:
    strange = {"Content-Type": "text/plain", "Content-Encoding": "br"}
    for given in ("", "Bearer no"):
        answer = client.post(path, content=b"x", headers=strange | {"Authorization": given})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert client.post(path, content=b"x", headers=strange).status_code == 415


def test_a_key_that_sends_too_much_is_told_when_to_go_on(limited: Limited, settings: Settings) -> None:
    with running(limited(items_per_s=0.5, burst_items=3)) as client:
        first = client.post("/v1/logs/feedback", json=[feedback(f"t{number}") for number in range(4)])
        second = client.post("/v1/logs/feedback", json=feedback("t"))
        other = client.post("/v1/logs/feedback", json=feedback("u"), headers=headers_of(settings, "globex"))
    assert first.json()["accepted"] == 4  # a request is taken whole, though it overdraws
    assert "0 items a second" in problem(second, 429)["detail"]
    assert 2 <= int(second.headers["retry-after"]) <= 4
    assert other.status_code == 200
    assert {record["tenantId"] for record in stored(settings)} == {"acme", "globex"}


def test_a_full_disk_is_said_and_nothing_is_acknowledged(limited: Limited, settings: Settings) -> None:
    with running(limited(min_free_bytes=2**62)) as client:
        response = client.post("/v1/logs/feedback", json=feedback("t"))
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").json() == {"status": "ok"}
    assert "bytes left" in problem(response, 503)["detail"]
    assert int(response.headers["retry-after"]) >= 1
    assert stored(settings) == []


def test_a_disk_that_refuses_is_said(client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from flywheel.collection.live_segment import LiveSegment

    def full(self: LiveSegment, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LiveSegment, "write", full)
    assert "ENOSPC" in problem(client.post("/v1/logs/feedback", json=feedback("t")), 503)["detail"]
    monkeypatch.undo()
    assert client.post("/v1/logs/feedback", json=feedback("t")).status_code == 200


def test_a_disk_that_is_behind_holds_others_off(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    from flywheel.collection.live_segment import LiveSegment

    free = threading.Event()
    sync = LiveSegment.sync
    monkeypatch.setattr(LiveSegment, "sync", lambda self: (free.wait(20), sync(self))[1])
    record = feedback("t", text="x" * 3_000)
    with running(limited(max_waiting_bytes=5_000, write_timeout_s=1)) as client:
        answers: list[Any] = []
        send = threading.Thread(target=lambda: answers.append(client.post("/v1/logs/feedback", json=record)))
        send.start()
        while not receiver_of(client)._logs.waiting_bytes:
            pass
        second = client.post("/v1/logs/feedback", json=record)
        send.join()
        free.set()
        assert "under way" in problem(second, 429)["detail"] or "wait for the disk" in second.text
        assert second.headers["retry-after"] == "1"
        assert "within 1 s" in problem(answers[0], 503)["detail"]
        assert client.post("/v1/logs/feedback", json=feedback("later")).status_code == 200


def test_metrics_count_what_came_and_what_was_refused(client: TestClient, settings: Settings) -> None:
    client.post("/v1/logs/feedback", json=[feedback("t"), {}])
    client.post("/v1/logs/feedback", content=b"", headers={"Content-Type": "application/json"})
    token = {"Authorization": f"Bearer {api_token(settings).decode()}"}
    found = {
        family.name: family for family in text_string_to_metric_families(client.get("/metrics", headers=token).text)
    }

    def value(family: str, **labels: str) -> float:
        return sum(
            sample.value
            for sample in found[family].samples
            if labels.items() <= sample.labels.items() and not sample.name.endswith(("_created", "_bucket", "_sum"))
        )

    assert value("flywheel_received_items", signal="feedback") == 1
    assert value("flywheel_rejected_items", signal="feedback", reason="schema") == 1
    assert value("flywheel_refused_requests", signal="feedback", reason="Bad Request") == 1
    assert value("flywheel_received_bytes", signal="feedback") > 50
    assert value("flywheel_receive_seconds", signal="feedback") == 1
    assert "flywheel_pool_points" in found


def test_large_requests_are_taken_too(settings: Settings) -> None:
    records = [feedback(f"t{number}", text="x" * 1_000) for number in range(BIG_ENOUGH // 1_000)]
    with running(settings) as client:
        assert client.post("/v1/logs/feedback", json=records).json()["accepted"] == len(records)
    assert len(stored(settings)) == len(records)
