"""The registry over HTTP: what it answers, who may change it, and that no secret can be asked out of the service."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from flywheel.api.app import create_app
from flywheel.api.callers import OWNER, api_token
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.loads import SharedLoads
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.pool.access.audit import list_audit
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.api.conftest import Granted
from tests.api.test_pool import refusal
from tests.arbiter.test_capability_events import often, run
from tests.arbiter.test_loads import until

ENDPOINT = {"id": "gpt", "kind": "openai", "baseUrl": "http://localhost:8000/v1", "model": "qwen3"}
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance, content_type_conformance]


@pytest.fixture
def placed(settings: Settings) -> Iterator[BenchmarkPool]:
    """An empty pool: agents need no points."""
    with BenchmarkPool.open(settings) as pool:
        yield pool


@pytest.fixture
def client(placed: BenchmarkPool, settings: Settings) -> Iterator[TestClient]:
    headers = {"Authorization": f"Bearer {api_token(settings).decode()}"}
    with TestClient(create_app(settings), headers=headers) as opened:
        yield opened


def test_an_added_agent_is_there_for_everybody(client: TestClient, placed: BenchmarkPool) -> None:
    body = ENDPOINT | {"usdPerMillionOutputTokens": 1.6, "taskTypes": ["add"], "maxConcurrent": 4}
    made = client.post("/v1/agents", json=body)
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    assert made.json()["usdPerMillionOutputTokens"] == 1.6
    profile = AgentRegistry(placed.engine).get("gpt")
    assert (profile.max_concurrent, profile.task_types, profile.model_family) == (4, ("add",), "qwen3")
    [listed] = client.get("/v1/agents").json()["agents"]
    shown = client.get("/v1/agents/gpt").json()
    assert {name: shown[name] for name in listed} == listed
    assert (listed["availability"], listed["record"]["tasks"], listed["load"]["active"]) == ("available", 0, 0)
    assert client.get("/v1/agents", params={"status": "disabled"}).json() == {"agents": []}
    assert "there is an agent 'gpt' already" in refusal(client.post("/v1/agents", json=ENDPOINT), 409)["detail"]


def test_a_change_is_a_revision_of_who_made_it(client: TestClient) -> None:
    client.post("/v1/agents", json=ENDPOINT)
    changed = client.patch("/v1/agents/gpt", json={"status": "disabled", "requestsPerMinute": 60, "reason": "too dear"})
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    found = changed.json()
    assert (found["status"], found["availability"], found["requestsPerMinute"]) == ("disabled", "disabled", 60)
    last = found["history"][-1]
    assert (last["changedBy"], last["reason"]) == (OWNER, "too dear")
    assert last["changes"] == {"status": ["active", "disabled"], "requests_per_minute": [None, 60]}
    assert client.patch("/v1/agents/gpt", json={"requestsPerMinute": None}).json()["requestsPerMinute"] is None


def test_a_change_meant_for_another_revision_is_refused(client: TestClient) -> None:
    client.post("/v1/agents", json=ENDPOINT)
    first = client.get("/v1/agents/gpt").headers["etag"]
    assert client.patch("/v1/agents/gpt", json={"temperature": 1}, headers={"If-Match": first}).status_code == 200
    late = client.patch("/v1/agents/gpt", json={"temperature": 0}, headers={"If-Match": first})
    assert "is at revision 2" in refusal(late, 412)["detail"]
    for strange in ("W/x", f'"{"9" * 5000}"'):
        refusal(client.patch("/v1/agents/gpt", json={"temperature": 0}, headers={"If-Match": strange}), 412)
    assert client.patch("/v1/agents/gpt", json={"temperature": 0}, headers={"If-Match": "*"}).status_code == 200


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (ENDPOINT | {"model": ""}, "needs base_url"),
        (ENDPOINT | {"temperature": 3}, "temperature"),
        (ENDPOINT | {"colour": "red"}, "colour"),
        (ENDPOINT | {"name": "a\0b"}, "name"),
        (ENDPOINT | {"id": "two words"}, "id"),
        (ENDPOINT | {"baseUrl": "https://me:s3cret@models.test/v1"}, "must not hold a name or password"),
        ({"id": "sh", "kind": "command", "command": ["sh", "-c", "id"]}, "kind"),
        ({"id": "py", "kind": "python", "function": "os:system"}, "kind"),
        (ENDPOINT | {"apiKeyEnv": "FLYWHEEL_DATABASE_URL"}, "apiKeyEnv"),
        (ENDPOINT | {"apiKeyEnv": "AWS_SECRET_ACCESS_KEY"}, "apiKeyEnv"),
    ],
)
def test_what_cannot_be_added_is_said(client: TestClient, body: dict[str, Any], told: str) -> None:
    refused = refusal(client.post("/v1/agents", json=body), 422)
    assert told in refused["detail"]
    assert "s3cret" not in str(refused)
    assert client.get("/v1/agents").json()["agents"] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 3},
        {"temperature": None},
        {"baseUrl": ""},
        {"command": ["sh"]},
        {"kind": "local"},
        {"apiKeyEnv": "FLYWHEEL_DATABASE_URL"},
    ],
)
def test_what_cannot_be_changed_is_said_and_changes_nothing(client: TestClient, changes: dict[str, Any]) -> None:
    client.post("/v1/agents", json=ENDPOINT)
    refusal(client.patch("/v1/agents/gpt", json=changes), 422)
    assert client.get("/v1/agents/gpt").json()["revision"] == 1


def test_a_secret_of_another_name_is_not_sent_to_an_endpoint_that_http_names(
    client: TestClient, placed: BenchmarkPool
) -> None:
    """The variable is configuration's own; to move the endpoint would be to have it sent there."""
    AgentRegistry(placed.engine).register(
        AgentProfile(id="own", kind="openai", base_url="http://here/v1", model="m", api_key_env="GATEWAY_TOKEN")
    )
    told = refusal(client.patch("/v1/agents/own", json={"baseUrl": "http://elsewhere/v1"}), 422)["detail"]
    assert "GATEWAY_TOKEN" in told
    assert client.patch("/v1/agents/own", json={"temperature": 1}).status_code == 200
    both = {"baseUrl": "http://elsewhere/v1", "apiKeyEnv": "OTHER_API_KEY"}
    assert client.patch("/v1/agents/own", json=both).json()["baseUrl"] == "http://elsewhere/v1"


def test_an_agent_that_is_not_there_is_a_problem(client: TestClient) -> None:
    for response in (
        client.get("/v1/agents/nobody"),
        client.patch("/v1/agents/nobody", json={}),
        client.get("/v1/agents/a%00b"),
    ):
        assert "there is no agent '" in refusal(response, 404)["detail"]


def test_an_agent_may_be_named_as_a_model_is(client: TestClient) -> None:
    client.post("/v1/agents", json=ENDPOINT | {"id": "acme/qwen3"})
    assert client.get("/v1/agents/acme/qwen3").json()["id"] == "acme/qwen3"


def test_load_of_other_processes_and_measured_changes_are_shown(client: TestClient, placed: BenchmarkPool) -> None:
    AgentRegistry(placed.engine).register(AgentProfile(id="mine", kind="reference", task_types=("add",)))
    run(placed.engine, "mine", "multiply", often(9, 10, 60))
    from flywheel.arbiter.capability_events import look

    look(placed.engine, placed.settings.capabilities)
    with SharedLoads(placed.engine) as shared, Slots(shared).hold("mine", limit=1, tasks=2):
        assert until(lambda: client.get("/v1/agents/mine").json()["load"]["active"] == 2)
        shared.unavailable("mine", 60, "it answered 500")
        assert until(lambda: client.get("/v1/agents/mine").json()["availability"] == "unavailable")
    [event] = client.get("/v1/agents/mine").json()["events"]
    assert (event["kind"], event["name"], event["proposal"], event["appliedAt"]) == ("added", "multiply", "add", None)
    assert event["evidence"]["successes"] == 54
    assert "54 of 60 tasks succeeded" in event["sentence"]


def test_only_an_admin_of_all_tenants_changes_agents_and_the_audit_knows(
    client: TestClient, placed: BenchmarkPool, granted: Granted
) -> None:
    client.post("/v1/agents", json=ENDPOINT)
    for role, terms in (("arbiter", {}), ("analyst", {}), ("admin", {"tenants": ["acme"]})):
        grant, headers = granted(role, **terms)
        for response in (
            client.post("/v1/agents", json=ENDPOINT | {"id": "x"}, headers=headers),
            client.patch("/v1/agents/gpt", json={"temperature": 1}, headers=headers),
        ):
            assert f"grant {grant.id} of {grant.principal} is for" in refusal(response, 403)["detail"]
    grant, headers = granted("admin")
    assert client.patch("/v1/agents/gpt", json={"temperature": 1}, headers=headers).status_code == 200
    assert client.get("/v1/agents/gpt").json()["history"][-1]["changedBy"] == grant.principal
    [entry] = [e for e in list_audit(placed, principal=grant.principal) if e.action == "agents.change"]
    assert (entry.allowed, entry.asked["agent"]) == (True, "gpt")
    assert client.get("/v1/agents", headers={"Authorization": "Bearer x"}).status_code == 401


def test_whatever_is_sent_the_answer_is_one_that_is_described(client: TestClient, placed: BenchmarkPool) -> None:
    client.post("/v1/agents", json=ENDPOINT)
    found = schemathesis.openapi.from_asgi("/openapi.json", client.app).include(path_regex="^/v1/agents")
    every: list[Any] = list(found.get_all_operations())
    operations = [operation.ok() for operation in every]
    assert len(operations) == 4
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=15, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
        def answered(case: Any) -> None:
            response = case.call(session=client, headers={"Authorization": client.headers["Authorization"]})
            case.validate_response(response, checks=CHECKS)

        answered()
