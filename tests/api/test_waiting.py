"""Waiting tasks over HTTP: who is shown which, and what the audit knows of it."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from flywheel.api.app import create_app
from flywheel.api.callers import OWNER, api_token
from flywheel.pool.access.audit import list_audit
from flywheel.pool.access.decisions import Role
from flywheel.pool.access.grants import approve, request_grant
from flywheel.pool.access.tokens import issue_token
from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import validate_day
from flywheel.settings import Settings
from tests.api.test_pool import refusal
from tests.pool.logs import NOON, evaluation, task_logs, write_segment

Headers = dict[str, str]
PATH = "/v1/pool/waiting"
SINCE = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)


@pytest.fixture
def pool(settings: Settings) -> Iterator[BenchmarkPool]:
    """One task of each of two tenants waits, and one that is nobody's."""
    with BenchmarkPool.open(settings) as opened:
        for tenant, at in (("acme", SINCE), ("globex", SINCE + timedelta(minutes=9))):
            write_segment(settings, tenant, task_logs(f"of {tenant}", tenant=tenant)[:2])
            index_segments(opened, now=at)
        write_segment(settings, "nobodys", [evaluation("nobodys")])
        index_segments(opened, now=SINCE + timedelta(hours=2))
        validate_day(opened, NOON.date(), now=SINCE + timedelta(hours=2))
        yield opened


@pytest.fixture
def client(pool: BenchmarkPool) -> Iterator[TestClient]:
    headers = {"Authorization": f"Bearer {api_token(pool.settings).decode()}"}
    with TestClient(create_app(pool.settings), headers=headers) as opened:
        yield opened


@pytest.fixture
def granted(pool: BenchmarkPool) -> Callable[..., Headers]:
    def grant(role: Role, **terms: Any) -> Headers:
        now = datetime.now(UTC)
        name = f"p_{uuid.uuid4().hex[:12]}"
        made = request_grant(pool, principal=name, role=role, by="asker", reason="a test", now=now, **terms)
        if made.needs_approval:
            made = approve(pool, made.id, by="approver", now=now)
        return {"Authorization": f"Bearer {issue_token(pool, made.id, by='asker', now=now).token}"}

    return grant


def tasks(client: TestClient, headers: Headers | None = None, **parameters: Any) -> list[str]:
    found = client.get(PATH, params=parameters, headers=headers).raise_for_status().json()
    return [task["taskId"] for task in found["tasks"]]


def hashed(pool: BenchmarkPool, tenant: str) -> str:
    return tenant_hash(tenant, salt=salt_of(pool.settings))


def test_the_owner_sees_all_that_waits_the_longest_wait_first(client: TestClient, pool: BenchmarkPool) -> None:
    found = client.get(PATH).json()
    assert found["more"] is False
    assert [task["taskId"] for task in found["tasks"]] == ["of acme", "of globex", "nobodys"]
    first = {name: found["tasks"][0][name] for name in ("day", "tenantId", "present", "missing", "lines")}
    assert first == {
        "day": str(NOON.date()),
        "tenantId": hashed(pool, "acme"),
        "present": ["routing", "execution"],
        "missing": ["evaluation"],
        "lines": 2,
    }
    assert datetime.fromisoformat(found["tasks"][0]["since"]) == SINCE
    assert datetime.fromisoformat(found["tasks"][0]["expiresAt"]) == SINCE + timedelta(days=7)
    assert tasks(client, tenant=hashed(pool, "globex")) == ["of globex"]
    assert tasks(client, olderThanS=2 * 3600) == ["of acme", "of globex"]
    shortened = client.get(PATH, params={"limit": 2}).json()
    assert ([task["taskId"] for task in shortened["tasks"]], shortened["more"]) == (["of acme", "of globex"], True)
    entry = list_audit(pool, principal=OWNER, action="waiting.read")[0]
    assert (entry.rows, entry.asked["path"], entry.asked["limit"]) == (2, PATH, 2)


def test_a_reviewer_of_a_tenant_sees_its_tasks_alone(
    client: TestClient, pool: BenchmarkPool, granted: Callable[..., Headers]
) -> None:
    acme = granted("reviewer", fields="all", tenants=["acme"])
    assert tasks(client, acme) == ["of acme"]
    refused = refusal(client.get(PATH, params={"tenant": hashed(pool, "globex")}, headers=acme), 403)
    assert "none of the 1 asked for is among them" in refused["detail"]
    assert tasks(client, granted("reviewer", fields="all")) == ["of acme", "of globex", "nobodys"]
    later = NOON + timedelta(days=2)
    assert tasks(client, granted("reviewer", fields="all", since=later)) == []


def test_who_may_not_see_lines_as_they_arrived_may_not_see_this(
    client: TestClient, pool: BenchmarkPool, granted: Callable[..., Headers]
) -> None:
    refused = refusal(client.get(PATH, headers=granted("reviewer", fields="anonymized")), 403)
    assert "waiting.read shows lines as they arrived" in refused["detail"]
    assert "waiting.read needs reviewer" in refusal(client.get(PATH, headers=granted("analyst")), 403)["detail"]
    assert [entry.allowed for entry in list_audit(pool, action="waiting.read")] == [False, False]
