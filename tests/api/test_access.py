"""What each caller gets over HTTP, what it does not get, and what the audit knows of it."""

import time
from datetime import UTC, datetime, timedelta
from datetime import time as clock
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from flywheel.api.callers import OWNER
from flywheel.pool.access.audit import AuditEntry, list_audit
from flywheel.pool.access.decisions import Grant
from flywheel.pool.access.grants import revoke
from flywheel.pool.access.principals import as_principal
from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.points import PointQuery
from flywheel.records import DataPoint, decode_point
from tests.api.conftest import DAYS, Granted, Headers
from tests.api.test_pool import OF_ANYBODY, OF_TENANTS, refusal
from tests.pool.queries.points import agrees, all_points

COLD, WARM, HOT, NEWEST = DAYS
ARROW, JSON_LINES = "application/vnd.apache.arrow.stream", "application/jsonl"
MICROSECOND = timedelta(microseconds=1)
CALLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "analyst": ("analyst", {}),
    "analyst of acme": ("analyst", {"tenants": ["acme"]}),
    "analyst of a time": ("analyst", {"since": datetime.combine(WARM, clock(6), tzinfo=UTC)}),
    "trainer": ("rl-trainer", {}),
    "trainer of acme": ("rl-trainer", {"tenants": ["acme"]}),
    "arbiter": ("arbiter", {}),
    "arbiter of acme": ("arbiter", {"tenants": ["acme"]}),
    "reviewer": ("reviewer", {"fields": "all"}),
    "admin": ("admin", {}),
}
POINTS = {"analyst", "analyst of acme", "analyst of a time", "trainer", "trainer of acme"}
STATISTICS = {"analyst", "analyst of acme", "analyst of a time", "arbiter"}
OVERVIEW = {"analyst", "analyst of a time"}
GETS = {
    "/v1/pool/points": POINTS,
    "/v1/pool/agents/{agent_id}/statistics": STATISTICS,
    "/v1/pool/agents/{agent_id}/routing-statistics": {"analyst", "arbiter"},
    "/v1/pool/statistics/system": STATISTICS,
    "/v1/pool/statistics": OVERVIEW,
    "/v1/pool/quality": OVERVIEW,
    "/v1/pool/batches": {"trainer"},
    "/v1/pool/batches/{batch_id}": {"trainer"},
    "/v1/pool/batches/{batch_id}/points": {"trainer"},
    "/v1/pool/waiting": {"reviewer"},
    "/metrics": {"analyst"},
    "/v1/agents": {"analyst", "arbiter", "admin"},
    "/v1/agents/{agent_id}": {"analyst", "arbiter", "admin"},
}


NOT_THERE = {"/v1/pool/batches/{batch_id}", "/v1/pool/batches/{batch_id}/points", "/v1/agents/{agent_id}"}


def hashed(pool: BenchmarkPool, tenant: str) -> str:
    return tenant_hash(tenant, salt=salt_of(pool.settings))


def of_acme(pool: BenchmarkPool, days: tuple[Any, ...] = DAYS[1:]) -> list[DataPoint]:
    return [point for point in all_points(pool, days) if point.tenant_id == hashed(pool, "acme")]


def paged(client: TestClient, headers: Headers, **parameters: Any) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    while True:
        page = client.get("/v1/pool/points", params=parameters, headers=headers).raise_for_status().json()
        found += [row["id"] for row in page["points"]]
        if page["next"] is None:
            return found
        parameters["cursor"] = page["next"]


def streamed(client: TestClient, headers: Headers, **parameters: Any) -> list[DataPoint]:
    asked = headers | {"Accept": JSON_LINES}
    content = client.get("/v1/pool/points", params=parameters, headers=asked).raise_for_status().content
    return [decode_point(line) for line in content.splitlines()]


def entries(pool: BenchmarkPool, grant: Grant) -> list[AuditEntry]:
    """What the audit holds of reads under a grant, oldest first."""
    found = [entry for entry in reversed(list_audit(pool, principal=grant.principal)) if entry.grant_id == grant.id]
    return [entry for entry in found if not entry.action.startswith(("grant.", "token."))]


def test_the_table_knows_every_route(client: TestClient) -> None:
    described = client.get("/openapi.json").json()["paths"]
    asked = {path for path, methods in described.items() if "get" in methods}
    assert set(GETS) == asked - OF_TENANTS - OF_ANYBODY
    for path, callers in GETS.items():
        told = described[path]["get"]["responses"]["403"]["description"]
        roles = {CALLERS[name][0] for name in callers}
        assert {role for role in ("analyst", "rl-trainer", "arbiter", "reviewer", "admin") if role in told} == roles


@pytest.mark.parametrize("name", CALLERS)
def test_each_role_gets_what_its_grants_show_and_nothing_else(
    client: TestClient, placed: BenchmarkPool, granted: Granted, name: str
) -> None:
    role, terms = CALLERS[name]
    grant, headers = granted(role, **terms)
    for path, callers in GETS.items():
        response = client.get(path.format(agent_id="agent-a", batch_id="b1"), headers=headers)
        if name not in callers:
            detail = refusal(response, 403)["detail"]
            assert detail.startswith(f"grant {grant.id} of {grant.principal} is for")
            last = entries(placed, grant)[-1]
            assert (last.allowed, last.reason, last.rows) == (False, detail, None)
        else:
            assert response.status_code == (404 if path in NOT_THERE else 200), response.text
            assert entries(placed, grant)[-1].allowed
        assert entries(placed, grant)[-1].asked["path"] == path.format(agent_id="agent-a", batch_id="b1")
    assert len(entries(placed, grant)) == len(GETS)


def test_a_refusal_comes_before_any_word_about_parameters(client: TestClient, granted: Granted) -> None:
    grant, headers = granted("arbiter")
    found = refusal(client.get("/v1/pool/points?nonsense=1", headers=headers), 403)
    assert found["detail"].startswith(f"grant {grant.id} of {grant.principal} is for the role arbiter")
    assert "nonsense" not in str(found)


def test_an_analyst_of_a_tenant_sees_its_points_alone_in_every_tier(
    client: TestClient, placed: BenchmarkPool, granted: Granted
) -> None:
    _, headers = granted("analyst", tenants=["acme"])
    expected = of_acme(placed)
    assert {point.timestamp.date() for point in expected} == {WARM, HOT, NEWEST}
    ids = {point.id for point in expected}
    for order in ("recent", "oldest"):
        found = paged(client, headers, order=order, limit=7)
        assert (set(found), len(found)) == (ids, len(ids))
        assert {point.id for point in streamed(client, headers, order=order)} == ids
    lines = streamed(client, headers)
    assert sorted(point.id for point in lines) == sorted(ids)
    response = client.get("/v1/pool/points", headers=headers | {"Accept": ARROW})
    assert set(pa.ipc.open_stream(response.content).read_all()["tenant_id"].to_pylist()) == {hashed(placed, "acme")}


def test_an_analyst_of_a_tenant_has_its_statistics_from_points_and_aggregates(
    client: TestClient, placed: BenchmarkPool, granted: Granted
) -> None:
    _, headers = granted("analyst", tenants=["acme"])
    expected = of_acme(placed, DAYS)
    found = client.get("/v1/pool/statistics/system", params={"by": "day"}, headers=headers).json()
    assert {day: group["tasks"] for day, group in found["groups"].items()} == {str(day): 12 for day in DAYS}
    assert found["total"]["tokens"] == sum(point.execution.tokens_used or 0 for point in expected)
    assert found["coverage"]["fromAggregates"] == [{"first": str(COLD), "last": str(COLD)}]
    one = client.get("/v1/pool/agents/agent-b/statistics", headers=headers).json()
    assert one["tasks"] == sum(point.routing.selected_agent_id == "agent-b" for point in expected)


@pytest.mark.parametrize("path", ["points", "statistics/system", "agents/agent-a/statistics"])
def test_another_tenant_cannot_be_asked_for(
    client: TestClient, placed: BenchmarkPool, granted: Granted, path: str
) -> None:
    grant, headers = granted("analyst", tenants=["acme"])
    theirs = {"tenant": hashed(placed, "umbrella")}
    found = refusal(client.get(f"/v1/pool/{path}", params=theirs, headers=headers), 403)
    assert "none of the 1 asked for is among them" in found["detail"]
    assert entries(placed, grant)[-1].reason == found["detail"]
    both = client.get(
        f"/v1/pool/{path}", params={"tenant": [hashed(placed, "acme"), theirs["tenant"]]}, headers=headers
    )
    own = client.get(f"/v1/pool/{path}", headers=headers)
    assert both.json() == own.json()


@pytest.mark.parametrize("day", [WARM, HOT])
def test_a_time_range_is_held_to_the_microsecond(
    client: TestClient, placed: BenchmarkPool, granted: Granted, day: Any
) -> None:
    points = sorted(all_points(placed, (day,)), key=lambda point: point.timestamp)
    first, last = points[4], points[-4]
    for since, until, expected in (
        (first.timestamp, last.timestamp, points[4:-4]),
        (first.timestamp + MICROSECOND, last.timestamp + MICROSECOND, points[5:-3]),
    ):
        _, headers = granted("analyst", since=since, until=until)
        assert sorted(paged(client, headers, limit=5)) == sorted(point.id for point in expected)
        assert sorted(point.id for point in streamed(client, headers)) == sorted(point.id for point in expected)
        wider = {"since": str(DAYS[0]) + "T00:00:00Z", "until": str(NEWEST) + "T00:00:00Z"}
        assert len(paged(client, headers, **wider)) == len(expected)
        outside = refusal(client.get("/v1/pool/points?since=2027-01-01T00:00:00Z", headers=headers), 403)
        assert "asked for were those from 2027" in outside["detail"]


@pytest.mark.parametrize("by", ["task_type", "complexity", "day"])
@pytest.mark.parametrize("day", [COLD, WARM, HOT])
def test_statistics_of_a_time_range_do_not_round_beyond_it(
    client: TestClient, placed: BenchmarkPool, granted: Granted, day: Any, by: str
) -> None:
    """Rounded up, the range would hold a point of 22:38, in the lake too."""
    midnight = datetime.combine(day, clock(), tzinfo=UTC)
    until = midnight + timedelta(hours=22, minutes=30)
    _, headers = granted("analyst", since=midnight + timedelta(hours=1, minutes=30), until=until)
    where = PointFilter(since=midnight + timedelta(hours=2), until=midnight + timedelta(hours=22))
    assert any(until < point.timestamp < until + timedelta(minutes=30) for point in all_points(placed, (day,)))
    expected = 0 if day == COLD and by == "complexity" else sum(agrees(p, where) for p in all_points(placed, (day,)))
    found = client.get("/v1/pool/statistics/system", params={"by": by}, headers=headers).json()
    assert found["total"]["tasks"] == expected
    later = {"by": by, "until": f"{day}T22:15:30Z"}
    again = client.get("/v1/pool/statistics/system", params=later, headers=headers).json()
    assert again["total"]["tasks"] == expected
    exact: dict[str, Any] = {"by": by, "rlReady": True}
    judged = client.get("/v1/pool/statistics/system", params=exact, headers=headers).json()
    inside = PointFilter(since=midnight + timedelta(hours=1, minutes=30), until=until, rl_ready=True)
    known = [] if day == COLD else all_points(placed, (day,))
    assert judged["total"]["tasks"] == sum(agrees(point, inside) for point in known)


def test_the_whole_pool_of_a_time_range_is_its_whole_days(
    client: TestClient, placed: BenchmarkPool, granted: Granted
) -> None:
    """The warm day begins before the range; the newest one is not over when it ends."""
    since = datetime.combine(WARM, clock(6), tzinfo=UTC)
    until = datetime.combine(NEWEST, clock(12), tzinfo=UTC)
    _, headers = granted("analyst", since=since, until=until)
    found = client.get("/v1/pool/statistics", headers=headers).json()
    assert (found["firstDay"], found["lastDay"], found["counts"]["points"]) == (str(HOT), str(HOT), 24)
    assert found["tiers"]["warm"]["days"] == 1
    where = PointFilter(since=since, until=until)
    assert found["total"]["tasks"] == sum(agrees(point, where) for point in all_points(placed, DAYS[1:]))
    quality = client.get("/v1/pool/quality", headers=headers).json()
    assert (quality["first"], quality["last"], quality["points"]) == (str(HOT), str(HOT), 24)
    outside = client.get("/v1/pool/quality", params={"from": str(COLD), "to": str(WARM)}, headers=headers)
    assert "no day from" in refusal(outside, 404)["detail"]


def test_an_analyst_of_everything_is_answered_as_the_owner_is(client: TestClient, granted: Granted) -> None:
    _, headers = granted("analyst")
    for path in (
        "points?limit=20",
        "agents/agent-a/statistics?since=2026-03-02T05:30:00Z",
        "statistics/system?by=complexity",
        "statistics",
        "quality",
    ):
        own = rounded(client.get(f"/v1/pool/{path}"))
        assert rounded(client.get(f"/v1/pool/{path}", headers=headers)) == own


def rounded(response: Any) -> object:
    """The answer to nine places: row security has its own plans, and so its own order in which floats are added up."""
    return response.raise_for_status().json(parse_float=lambda written: round(float(written), 9))


def test_postgresql_holds_the_grant_where_a_filter_would_not(placed: BenchmarkPool, granted: Granted) -> None:
    grant, _ = granted("analyst", tenants=["acme"])
    bound = as_principal(placed, grant)
    hot = PointQuery(where=PointFilter(since=datetime.combine(HOT, clock(), tzinfo=UTC)))
    assert {point.tenant_id for point in bound.get_points(hot)} == {hashed(placed, "acme")}
    assert len(list(bound.get_points(hot))) == 24
    with bound.transaction() as connection:
        with bound.as_service(connection):
            row = connection.execute("SELECT count(*) FROM hot_points").fetchone()
        assert row == (48,)
        row = connection.execute("SELECT count(*), current_user FROM hot_points").fetchone()
        assert row == (24, grant.principal)


def test_a_grant_that_is_revoked_or_expires_is_refused_from_the_next_request_on(
    client: TestClient, placed: BenchmarkPool, granted: Granted
) -> None:
    grant, headers = granted("analyst")
    assert client.get("/v1/pool/points?limit=1", headers=headers).status_code == 200
    revoke(placed, grant.id, by="asker", reason="done", now=datetime.now(UTC))
    found = refusal(client.get("/v1/pool/points?limit=1", headers=headers), 401)
    assert found["detail"].startswith(f"grant {grant.id} is revoked; send a grant's token")
    last = entries(placed, grant)[-1]
    assert (last.action, last.allowed, last.reason) == ("authenticate", False, f"grant {grant.id} is revoked")

    ends = datetime.now(UTC) + timedelta(seconds=3)
    brief, headers = granted("analyst", expires_at=ends)
    assert client.get("/v1/pool/points?limit=1", headers=headers).status_code == 200
    time.sleep(max(0.0, (ends - datetime.now(UTC)).total_seconds()))
    refusal(client.get("/v1/pool/points?limit=1", headers=headers), 401)
    assert "the token ended at" in entries(placed, brief)[-1].reason


def test_the_cursor_of_another_caller_shows_nothing_more(
    client: TestClient, placed: BenchmarkPool, granted: Granted
) -> None:
    whole = client.get("/v1/pool/points", params={"limit": 10}).json()
    seen = {row["id"] for row in whole["points"]}
    _, headers = granted("analyst", tenants=["acme"])
    found = paged(client, headers, limit=10, cursor=whole["next"])
    assert set(found) == {point.id for point in of_acme(placed)} - seen
    _, headers = granted("analyst", since=datetime.combine(WARM, clock(), tzinfo=UTC), until=in_the_evening())
    warm = paged(client, headers, limit=10, cursor=whole["next"])
    assert set(warm) == {point.id for point in all_points(placed, (WARM,)) if point.timestamp < in_the_evening()}


def in_the_evening() -> datetime:
    return datetime.combine(WARM, clock(20, 0, 0, 1), tzinfo=UTC)


def test_what_is_read_is_in_the_audit(client: TestClient, placed: BenchmarkPool, granted: Granted) -> None:
    grant, headers = granted("analyst", tenants=["acme"])
    asked: dict[str, Any] = {"agent": "agent-a", "limit": 5, "columns": ["id", "payload"]}
    shown = client.get("/v1/pool/points", params=asked, headers=headers).json()["points"]
    streamed(client, headers, minQuality=0.5)
    client.get("/v1/pool/statistics/system?by=agent", headers=headers)
    page, stream, statistics = entries(placed, grant)
    assert (page.action, page.role, page.rows, page.allowed) == ("points.read", "analyst", len(shown), True)
    assert page.asked == {
        "path": "/v1/pool/points",
        "accept": "application/json",
        "agents": ["agent-a"],
        "limit": 5,
        "columns": ["id", "payload"],
    }
    assert (stream.rows, stream.asked["accept"], stream.asked["min_quality"]) == (None, JSON_LINES, 0.5)
    assert (statistics.action, statistics.asked["by"]) == ("statistics.of-tenants", "agent")


def test_the_owner_is_audited_too(client: TestClient, placed: BenchmarkPool) -> None:
    client.get("/v1/pool/points?limit=3&agent=agent-b")
    client.get("/v1/pool/agents/agent-a/routing-statistics?taskType=research")
    client.get("/v1/pool/batches/none")
    batch, routing, page = list_audit(placed, principal=OWNER, limit=3)
    assert (page.action, page.rows, page.role, page.grant_id) == ("points.read", 3, None, None)
    assert (routing.action, routing.asked["task_type"]) == ("routing.read", "research")
    assert (batch.asked["path"], batch.rows) == ("/v1/pool/batches/none", 0)


def test_guesses_of_tokens_are_refused_and_do_not_fill_the_audit(client: TestClient, placed: BenchmarkPool) -> None:
    before = list_audit(placed, limit=1)
    for guess in ("fwt_", f"fwt_{'0' * 12}_{'a' * 43}", "\xff"):
        headers = {"Authorization": f"Bearer {guess}".encode("latin-1")}
        found = refusal(client.get("/v1/pool/points", headers=headers), 401)  # type: ignore[arg-type]
        assert found["detail"].startswith("the token is not known here; send a grant's token")
    assert list_audit(placed, limit=1) == before


def test_what_postgresql_cannot_hold_can_be_asked_and_audited(client: TestClient, placed: BenchmarkPool) -> None:
    assert client.get("/v1/pool/agents/a%00b/statistics").json()["tasks"] == 0
    assert list_audit(placed, principal=OWNER, limit=1)[0].asked["path"].endswith("/agents/a\ufffdb/statistics")
    assert client.get("/v1/pool/points?agent=%00").json()["points"] == []
    refusal(client.get("/v1/pool/batches/%00"), 404)
