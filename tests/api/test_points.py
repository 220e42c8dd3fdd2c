"""Points over HTTP: pages that cover everything once, streams of Arrow and JSON Lines."""

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.points import LIGHT_COLUMNS
from flywheel.records import decode_point
from tests.api.conftest import DAYS
from tests.pool.queries.points import all_points

ARROW, JSON_LINES = "application/vnd.apache.arrow.stream", "application/jsonl"
FIRST = {"first": str(DAYS[0]), "last": str(DAYS[0])}


def pages(client: TestClient, **parameters: Any) -> list[dict[str, Any]]:
    """All points of all pages."""
    found: list[dict[str, Any]] = []
    while True:
        page = client.get("/v1/pool/points", params=parameters).raise_for_status().json()
        found += page["points"]
        assert page["coverage"]["aggregatesOnly"] == [FIRST]
        if page["next"] is None:
            return found
        assert len(page["points"]) == parameters["limit"]
        parameters["cursor"] = page["next"]


@pytest.mark.parametrize("order", ["recent", "oldest"])
@pytest.mark.parametrize("limit", [5, 24, 72, 100])
def test_pages_cover_every_point_once_in_order(
    client: TestClient, placed: BenchmarkPool, order: str, limit: int
) -> None:
    expected = sorted(all_points(placed, DAYS[1:]), key=lambda p: (p.timestamp, p.id), reverse=order == "recent")
    found = pages(client, limit=limit, order=order)
    assert [row["id"] for row in found] == [point.id for point in expected]
    assert (found[0]["taskType"], found[0]["overallScore"]) == (
        expected[0].task.type,
        expected[0].evaluation.overall_score,
    )


def test_pages_hold_the_asked_columns_and_the_whole_point_where_asked(client: TestClient) -> None:
    rows = pages(client, limit=50, columns=["agentId", "payload"], success=False)
    assert len(rows) == 18
    for row in rows:
        assert set(row) == {"agentId", "payload"}
        assert row["payload"]["execution"]["success"] is False
        assert decode_point(json.dumps(row["payload"])).routing.selected_agent_id == row["agentId"]


def test_a_page_that_ends_with_the_last_point_has_no_next(client: TestClient) -> None:
    page = client.get("/v1/pool/points", params={"limit": 72}).json()
    assert (len(page["points"]), page["next"]) == (72, None)


def test_an_arrow_stream_holds_all_of_it(client: TestClient, placed: BenchmarkPool) -> None:
    response = client.get("/v1/pool/points", headers={"Accept": f"text/csv;q=1, {ARROW}"})
    assert response.headers["content-type"] == ARROW
    with pa.ipc.open_stream(response.content) as reader:
        table = reader.read_all()
    assert table.schema.names == list(LIGHT_COLUMNS)
    key = [("id", "ascending")]
    assert table.sort_by(key).equals(placed.get_points().table().sort_by(key))
    coverage = msgspec.json.decode(table.schema.metadata[b"flywheel.coverage"])
    assert coverage["aggregates_only"] == [FIRST]
    some = client.get("/v1/pool/points", params={"limit": 30, "columns": "id"}, headers={"Accept": ARROW})
    with pa.ipc.open_stream(some.content) as reader:
        assert reader.read_all().shape == (30, 1)


def test_an_empty_arrow_stream_has_its_schema(client: TestClient) -> None:
    response = client.get("/v1/pool/points", params={"agent": "nobody"}, headers={"Accept": ARROW})
    with pa.ipc.open_stream(response.content) as reader:
        assert reader.read_all().shape == (0, len(LIGHT_COLUMNS))


@pytest.mark.parametrize("media_type", [JSON_LINES, "application/x-ndjson"])
def test_json_lines_are_whole_points(client: TestClient, placed: BenchmarkPool, media_type: str) -> None:
    response = client.get("/v1/pool/points", params={"order": "oldest"}, headers={"Accept": media_type})
    assert response.headers["content-type"] == JSON_LINES
    expected = sorted(all_points(placed, DAYS[1:]), key=lambda p: (p.timestamp, p.id))
    assert [decode_point(line) for line in response.content.splitlines()] == expected
    assert json.loads(response.headers["flywheel-coverage"])["aggregatesOnly"] == [FIRST]
    columns = client.get("/v1/pool/points", params={"columns": ["id", "taskType"]}, headers={"Accept": JSON_LINES})
    assert {frozenset(json.loads(line)) for line in columns.content.splitlines()} == {frozenset({"id", "taskType"})}


def test_a_stream_that_cannot_be_asked_is_refused_before_it_starts(client: TestClient) -> None:
    response = client.get("/v1/pool/points", params={"columns": "salary"}, headers={"Accept": ARROW})
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    other = client.get("/v1/pool/points", headers={"Accept": "text/csv"})
    assert (other.status_code, ARROW in other.json()["detail"]) == (406, True)
    refused = client.get("/v1/pool/points", headers={"Accept": f"{ARROW};q=0, application/json"})
    assert refused.headers["content-type"] == "application/json"


def test_streams_give_their_connections_back(client: TestClient) -> None:
    engine = client.app.state.pool.engine  # type: ignore[attr-defined]
    for _ in range(20):
        with client.stream("GET", "/v1/pool/points", headers={"Accept": JSON_LINES}) as response:
            next(response.iter_lines())
    assert engine.pool.checkedout() == 0
