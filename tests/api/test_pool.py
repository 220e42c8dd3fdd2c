"""Statistics, quality and batches over HTTP: the pool's own answers, and problems that say what to do."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg import sql

from flywheel.api.app import create_app
from flywheel.api.callers import api_token
from flywheel.collection.receiver.keys import create_key
from flywheel.database import url_with
from flywheel.errors import PoolError
from flywheel.pool.access.grants import request_grant
from flywheel.pool.access.tokens import issue_token
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.export_choice import criteria_for
from flywheel.pool.export_files import write_export
from flywheel.pool.exports import make_export
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.releases import release_batch
from flywheel.records import decode_point
from flywheel.settings import PhaseThreshold, Settings
from tests.api.conftest import DAYS
from tests.pool.filling import LATER, some_tasks
from tests.pool.filling import fill as fill_pool

PROBLEM = "application/problem+json"
OF_GRANTS = {
    "/metrics",
    "/v1/agents",
    "/v1/agents/{agent_id}",
    "/v1/pool/agents/{agent_id}/statistics",
    "/v1/pool/agents/{agent_id}/routing-statistics",
    "/v1/pool/statistics/system",
    "/v1/pool/statistics",
    "/v1/pool/quality",
    "/v1/pool/waiting",
    "/v1/pool/batches",
    "/v1/pool/batches/{batch_id}",
    "/v1/pool/batches/{batch_id}/points",
    "/v1/pool/points",
}
OF_OPENAI = {"/v1/models", "/v1/models/{model}"}
"""Whose errors are OpenAI's."""
OF_TENANTS = OF_OPENAI | {"/v1/tasks/{task_id}"}
"""Asked with a tenant's key."""
OF_ANYBODY = {"/v1/pool/healthz", "/healthz", "/readyz"}


def refusal(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    found: dict[str, Any] = response.json()
    assert found["status"] == status
    assert found["title"]
    return found


def told_of(path: str, response: Any, status: int) -> str:
    """What a refusal of a tenant's route says, in the shape that its clients read."""
    if path not in OF_OPENAI:
        return str(refusal(response, status)["detail"])
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json"), response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return str(error["message"])


def filled_in(path: str) -> str:
    return path.format(agent_id="a", batch_id="b1", task_id="nothing", model="nothing")


def test_an_agents_statistics_are_the_pools(client: TestClient, placed: BenchmarkPool) -> None:
    found = client.get("/v1/pool/agents/agent-a/statistics").json()
    expected = placed.get_agent_statistics("agent-a")
    assert (found["agentId"], found["tasks"], found["successRate"]) == (
        "agent-a",
        expected.tasks,
        expected.success_rate,
    )
    assert set(found["byTaskType"]) == set(expected.by_task_type)
    assert found["coverage"]["leftOut"] == []
    some = client.get(
        "/v1/pool/agents/agent-a/statistics",
        params={"taskType": ["research", "tool-calling"], "since": f"{DAYS[1]}T06:00:00+02:00"},
    ).json()
    assert set(some["byTaskType"]) == {"research", "tool-calling"}
    assert some["coverage"]["since"] == f"{DAYS[1]}T04:00:00Z"


def test_an_agent_may_be_named_as_a_model_is(client: TestClient) -> None:
    assert client.get("/v1/pool/agents/acme%2Fqwen3/statistics").json()["agentId"] == "acme/qwen3"


def test_statistics_for_routing_say_how_old_they_are(client: TestClient, placed: BenchmarkPool) -> None:
    found = client.get("/v1/pool/agents/agent-a/routing-statistics", params={"taskType": "research"}).json()
    assert found["allTime"]["tasks"] == placed.get_agent_statistics("agent-a").by_task_type["research"].tasks
    assert 0 <= found["ageS"] < 60
    assert (found["failedRefreshes"], found["error"], found["windowDays"]) == (0, None, 30)


@pytest.mark.parametrize("by", ["task_type", "agent", "complexity", "day"])
def test_the_systems_statistics_are_the_pools(client: TestClient, placed: BenchmarkPool, by: Any) -> None:
    found = client.get("/v1/pool/statistics/system", params={"by": by}).json()
    expected = placed.get_system_statistics(by)
    assert {name: group["tasks"] for name, group in found["groups"].items()} == {
        name: group.tasks for name, group in expected.groups.items()
    }
    assert found["total"]["meanLatencyMs"] == expected.total.mean_latency_ms


def test_the_pool_as_a_whole_and_its_quality(client: TestClient, placed: BenchmarkPool) -> None:
    for day in DAYS[:2]:
        anonymize_day(placed, day)  # nobody looked at its points since
    whole = client.get("/v1/pool/statistics").json()
    assert (whole["counts"]["points"], whole["tiers"]["warm"]["days"]) == (96, 3)
    assert whole["counts"]["linesInPoints"] == 288
    assert whole["watermark"]["at"] == whole["coverage"]["watermark"] is not None
    assert (whole["watermark"]["heldBy"], whole["watermark"]["openSegments"]) == (None, 0)
    found = client.get("/v1/pool/quality", params={"from": str(DAYS[0]), "to": str(DAYS[1])}).json()
    assert (found["days"], found["points"], found["unverifiedDays"], found["passed"]) == (2, 48, 2, False)
    assert any("days unverified" in target["verdict"] for target in found["targets"])
    for day in DAYS[:2]:
        find_violations(placed, day)
    found = client.get("/v1/pool/quality", params={"from": str(DAYS[0]), "to": str(DAYS[1])}).json()
    assert (found["unverifiedDays"], found["passed"]) == (0, True)
    nothing = refusal(client.get("/v1/pool/quality", params={"from": "2020-01-01", "to": "2020-01-02"}), 404)
    assert "no day from 2020-01-01 to 2020-01-02" in nothing["detail"]


def test_a_pool_without_batches(client: TestClient) -> None:
    assert client.get("/v1/pool/batches").json() == {"batches": []}
    assert "there is no batch b1" in refusal(client.get("/v1/pool/batches/b1"), 404)["detail"]


def test_batches_are_listed_and_described(settings: Settings) -> None:
    row = PhaseThreshold(points=6, quality=0.8, max_age_days=90, task_types=2)
    settings = settings.model_copy(update={"batch": settings.batch.model_copy(update={"sft": row})})
    with BenchmarkPool.open(settings) as pool:
        fill_pool(pool, "a", some_tasks(16))
        made = make_export(pool, criteria_for(settings, "sft"), export_id="e1", now=LATER).batch
        assert pool.get_batch("e1") == made
    headers = {"Authorization": f"Bearer {api_token(settings).decode()}"}
    with TestClient(create_app(settings), headers=headers) as client:
        found = client.get("/v1/pool/batches/e1").json()
        assert client.get("/v1/pool/batches").json() == {"batches": [found]}
    assert (found["id"], found["digest"], found["points"]) == ("e1", made.digest, made.points)
    assert (found["splits"], found["releasedAt"]) == (made.splits, None)


def test_points_of_a_batch_are_those_that_its_files_hold(settings: Settings, tmp_path: Path) -> None:
    row = PhaseThreshold(points=6, quality=0.8, max_age_days=90, task_types=2)
    settings = settings.model_copy(update={"batch": settings.batch.model_copy(update={"sft": row})})
    with BenchmarkPool.open(settings) as pool:
        fill_pool(pool, "a", some_tasks(16))
        make_export(pool, criteria_for(settings, "sft"), export_id="e1", now=LATER)
        forms: tuple[Literal["jsonl", "trl", "parquet"], ...] = ("jsonl", "trl", "parquet")
        files = {form: write_export(pool, "e1", tmp_path / form, form) for form in forms}
    headers = {"Authorization": f"Bearer {api_token(settings).decode()}"}
    with TestClient(create_app(settings), headers=headers) as client:
        for form, folder in files.items():
            written = sorted(path for path in folder.iterdir() if path.suffix in {".jsonl", ".parquet"})
            assert written
            for path in written:
                asked = {"format": form, "split": path.stem}
                assert client.get("/v1/pool/batches/e1/points", params=asked).content == path.read_bytes()
        every = client.get("/v1/pool/batches/e1/points")
        assert every.headers["content-type"] == "application/jsonl"
        named = json.loads((files["jsonl"] / "manifest.json").read_text())["point_ids"]
        ids = sorted(decode_point(line).id for line in every.content.splitlines())
        assert ids == sorted(name for names in named.values() for name in names)
        assert client.get("/v1/pool/batches/e1/points?phase=grpo").content == b""
        assert "there is no batch e2" in refusal(client.get("/v1/pool/batches/e2/points"), 404)["detail"]
        with BenchmarkPool.open(settings) as pool:
            release_batch(pool, "e1", now=LATER, because="the cluster was lost")
        assert "gave its points back" in refusal(client.get("/v1/pool/batches/e1/points"), 409)["detail"]


def test_a_trainer_of_a_time_is_given_no_batch_that_reaches_beyond_it(settings: Settings) -> None:
    row = PhaseThreshold(points=6, quality=0.8, max_age_days=90, task_types=2)
    settings = settings.model_copy(update={"batch": settings.batch.model_copy(update={"sft": row})})
    given: list[int] = []
    with BenchmarkPool.open(settings) as pool, TestClient(create_app(settings)) as client:
        fill_pool(pool, "a", some_tasks(16))
        batch = make_export(pool, criteria_for(settings, "sft"), export_id="e1", now=LATER).batch
        for number, since in enumerate((batch.first_at, batch.first_at + timedelta(microseconds=1))):
            now = datetime.now(UTC)
            grant = request_grant(
                pool, principal=f"p{number}", role="rl-trainer", by="ann", reason="a test", now=now, since=since
            )
            token = issue_token(pool, grant.id, by="ann", now=now).token
            headers = {"Authorization": f"Bearer {token}"}
            given.append(client.get("/v1/pool/batches/e1/points", headers=headers).status_code)
    assert given == [200, 404]


def test_what_each_request_does_is_said_in_words_rather_than_by_the_name_of_a_function(client: TestClient) -> None:
    described = client.get("/openapi.json").json()["paths"]
    for path, methods in described.items():
        for method, operation in methods.items():
            assert operation["summary"].lower().replace(" ", "_") not in operation["operationId"], f"{method} {path}"


def test_who_has_no_token_or_another_is_refused_everywhere_but_at_the_health_checks(client: TestClient) -> None:
    described = client.get("/openapi.json").json()["paths"]
    asked = {path for path, methods in described.items() if "get" in methods}
    assert asked == OF_TENANTS | OF_GRANTS | OF_ANYBODY
    nobody: tuple[dict[str, str], ...] = tuple({"Authorization": said} for said in ("", "Bearer wrong", "Basic YTpi"))
    for path in OF_GRANTS:
        for headers in nobody:
            response = client.get(f"{filled_in(path)}?nonsense=1", headers=headers)
            assert "secrets/api_token" in refusal(response, 401)["detail"]
            assert response.headers["www-authenticate"] == "Bearer"
    for path in OF_TENANTS:
        for headers in (*nobody, {}):  # the installation's token is no tenant's key
            response = client.get(f"{filled_in(path)}?nonsense=1", headers=headers)
            assert "flywheel keys create --tenant TENANT" in told_of(path, response, 401)
            assert response.headers["www-authenticate"] == "Bearer"
    for path in OF_ANYBODY:
        assert client.get(path, headers={"Authorization": ""}).json()["status"] in {"ok", "ready"}


def test_a_key_of_a_tenant_opens_its_own_routes_and_no_others(client: TestClient, placed: BenchmarkPool) -> None:
    made = create_key(placed, "acme", name="", by="ann", now=LATER, may_run_tasks=True)
    headers = {"Authorization": f"Bearer {made.key}"}
    for path in OF_GRANTS:
        assert "secrets/api_token" in refusal(client.get(filled_in(path), headers=headers), 401)["detail"]
    assert client.get("/v1/models", headers=headers).json()["data"][0]["id"] == "auto"
    for path in OF_TENANTS - {"/v1/models"}:
        assert "nothing" in told_of(path, client.get(filled_in(path), headers=headers), 404)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("agents/a/statistics?taskTyp=research", "query.taskTyp: Extra inputs are not permitted"),
        ("agents/a/statistics?agent=b", "query.agent"),
        ("statistics?by=agent", "query.by"),
        ("batches?page=2", "query.page"),
        ("statistics/system?by=colour", "query.by"),
        ("statistics/system?minQuality=2", "query.minQuality"),
        ("statistics/system?since=2026-03-02T00:00:00", "query.since"),
        ("statistics/system?since=0001-01-01T00:00:00%2B05:00", "no moment of this calendar"),
        ("statistics/system?tenant=acme", "query.tenant"),
        ("quality?from=yesterday", "query.from"),
        ("points?limit=0", "query.limit"),
        ("points?limit=1001", "at most 1,000"),
        ("points?order=any", "pages need an order"),
        ("points?columns=salary", "name some of id"),
        ("points?cursor=nonsense", "take `next` of the page before"),
        ("points?cursor=W10=", "take `next` of the page before"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_to_ask(client: TestClient, path: str, words: str) -> None:
    assert words in refusal(client.get(f"/v1/pool/{path}"), 422)["detail"]


def test_unknown_paths_and_methods_are_problems_too(client: TestClient) -> None:
    assert "/v1/pool/nothing" in refusal(client.get("/v1/pool/nothing"), 404)["detail"]
    assert refusal(client.post("/v1/pool/statistics"), 405)["instance"] == "/v1/pool/statistics"


def test_without_a_database_everything_is_503_and_with_it_again_answered(
    settings: Settings, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = database_url.rsplit("/", 1)[-1].split("?", maxsplit=1)[0]
    server = url_with(database_url, driver="", database="postgres")
    rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
    headers = {"Authorization": f"Bearer {api_token(settings).decode()}"}

    def move(old: str, new: str) -> None:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (old,))
            connection.execute(rename.format(sql.Identifier(old), sql.Identifier(new)))

    move(name, f"{name}_gone")
    try:
        with TestClient(create_app(settings), headers=headers) as client:
            for path in ("healthz", "statistics", "points", "agents/a/statistics", "agents/a/routing-statistics"):
                found = refusal(client.get(f"/v1/pool/{path}"), 503)
                assert "PostgreSQL" in found["detail"]
                assert (name in found["detail"]) == (path != "healthz")
            caplog.clear()
            metrics = client.get("/metrics")  # the receiver's, and that the pool's are missing
            assert (metrics.status_code, "flywheel_pool_metrics_up 0.0" in metrics.text) == (200, True)
            assert name in caplog.text
            move(f"{name}_gone", name)
            assert client.get("/v1/pool/statistics").status_code == 200
            client.app.state.cache.refresh()  # type: ignore[attr-defined]
            assert client.get("/v1/pool/healthz").status_code == 200
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            back = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
        if back is None:
            move(f"{name}_gone", name)


def test_a_lake_that_cannot_be_read_is_503(settings: Settings) -> None:
    with TestClient(create_app(settings)) as client:
        with BenchmarkPool.open(settings) as pool, pool.transaction() as connection:
            connection.execute(
                "INSERT INTO tier_days (tier, day, revision, rows, digest, placed_at)"
                " VALUES ('warm', '2026-03-02', 1, 5, '', now())"
            )
        (settings.home / "lake" / "data_points" / "_delta_log").mkdir(parents=True)
        (settings.home / "lake" / "data_points" / "_delta_log" / "00000000000000000000.json").write_text("broken")
        headers = {"Authorization": f"Bearer {api_token(settings).decode()}"}
        assert "data_points" in refusal(client.get("/v1/pool/points", headers=headers), 503)["detail"]


def test_the_token_is_made_once_and_is_its_owners_alone(settings: Settings) -> None:
    token = api_token(settings)
    path = settings.home / "secrets" / "api_token"
    assert (len(token), path.stat().st_mode & 0o777) == (64, 0o600)
    assert bytes.fromhex(token.decode())
    assert api_token(settings) == token
    path.chmod(0o644)
    with pytest.raises(PoolError, match=r"the API token .* is readable by others \(mode 644\)"):
        create_app(settings)


def test_the_service_describes_itself(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    asked = {path for path, methods in described["paths"].items() if "get" in methods}
    assert asked == OF_TENANTS | OF_GRANTS | OF_ANYBODY
    for path in asked - {"/healthz", "/readyz"}:
        operation = described["paths"][path]["get"]
        assert operation["description"], path
        assert ("security" in operation) == (path != "/v1/pool/healthz")
        shapes = operation["responses"]["503"]["content"]
        assert set(shapes) == {"application/json" if path in OF_OPENAI else PROBLEM}, path
    for path in OF_OPENAI:
        shape = described["paths"][path]["get"]["responses"]["503"]["content"]["application/json"]["schema"]
        assert set(shape["properties"]["error"]["required"]) == {"message", "type", "param", "code"}
    names = {parameter["name"] for parameter in described["paths"]["/v1/pool/points"]["get"]["parameters"]}
    assert {"taskType", "minQuality", "rlReady", "cursor", "columns"} <= names
