"""Two tenants' rows in every table that grants can show, and principals with sessions of their own."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from flywheel.pool.access.audit import AuditEntry, list_audit
from flywheel.pool.access.decisions import Grant, Role
from flywheel.pool.access.grants import approve, request_grant
from flywheel.pool.access.logins import make_login
from flywheel.pool.anonymization.tenants import salt_of, tenant_hash
from flywheel.pool.filters import PointFilter
from flywheel.pool.headers import key_of
from flywheel.pool.pool import BenchmarkPool
from tests.pool.logs import NOON

Session = psycopg.Connection[Any]
Granted = Callable[..., Grant]
Connected = Callable[..., Session]
TENANTS = ("acme", "globex")
POINTS = 3  # of each tenant, an hour apart, from NOON on
DAY = NOON.date()
NOW = datetime.now(UTC)
TERMS: dict[str, Any] = {"by": "bob", "reason": "a test", "now": NOW}


def hashed(pool: BenchmarkPool, tenant: str) -> str:
    return tenant_hash(tenant, salt=salt_of(pool.settings))


def new_name() -> str:
    """A principal of this test alone: roles are the whole server's."""
    return f"p_{uuid.uuid4().hex[:12]}"


def count(session: Session, table: str) -> int:
    row = session.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
    assert row is not None
    return int(row[0])


def ids(session: Session) -> set[str]:
    return {name for (name,) in session.execute("SELECT id FROM hot_points")}


def entries(pool: BenchmarkPool, grant: Grant) -> list[AuditEntry]:
    """What the audit holds about a grant, oldest first."""
    return [entry for entry in reversed(list_audit(pool)) if entry.grant_id == grant.id]


def hot_ids(pool: BenchmarkPool, wanted: PointFilter) -> list[str]:
    """Ids of hot points; asks PostgreSQL for everything, whatever is wanted."""
    with pool.transaction() as connection:
        return [name for (name,) in connection.execute("SELECT id FROM hot_points ORDER BY id")]


@pytest.fixture
def filled(pool: BenchmarkPool) -> BenchmarkPool:
    with pool.transaction() as connection:
        for tenant in TENANTS:
            for hour in range(POINTS):
                connection.execute(
                    "INSERT INTO hot_points (id, day, timestamp, tenant_id, task_id, task_type, complexity, agent_id,"
                    " success, overall_score, total_reward, latency_ms, tokens_used, rl_ready, payload)"
                    " VALUES (%s, %s, %s, %s, 't', 'tool-calling', 'standard', %s, true, 1, 1, 1, 1, true, %s)",
                    (
                        f"{tenant}-{hour}",
                        DAY,
                        NOON + timedelta(hours=hour),
                        hashed(pool, tenant),
                        f"agent-of-{tenant}",
                        f'{{"secret of": "{tenant}"}}',
                    ),
                )
            connection.execute(
                "INSERT INTO quarantine (id, day, task_id, owner_key, gates, reasons, line)"
                " VALUES (%s, %s, 't', %s, '{time}', '{late}', %s)",
                (f"{tenant}-line", DAY, key_of(tenant), f"mail of {tenant}".encode()),
            )
            connection.execute(
                "INSERT INTO waiting_tasks VALUES (%s, %s, %s, 't', %s, '{routing}', '{execution,evaluation}', %s, 1)",
                (DAY, key_of("t"), key_of(tenant), tenant.encode(), NOON),
            )
        connection.execute("INSERT INTO days (day, revision, changed_at) VALUES (%s, 1, %s)", (DAY, NOON))
        connection.execute("INSERT INTO tier_days VALUES ('hot', %s, 1, 6, 'd', %s)", (DAY, NOON))
        connection.execute("INSERT INTO agent_statistics VALUES (%s, 'a', 'x', %s, 6, 6, 6, 6, 6)", (NOON, DAY))
        connection.execute(
            "INSERT INTO daily_statistics VALUES ('a', %(day)s, 'x', 'standard', %(day)s, 6, 6, 6, 6, 6)", {"day": DAY}
        )
        connection.execute("INSERT INTO task_type_profiles VALUES (%s, 'x', 6, '{}', '{}')", (DAY,))
        connection.execute(
            "INSERT INTO batches (id, digest, created_at, first_at, last_at, criteria, distribution, quality)"
            " VALUES ('b', 'd', %(at)s, %(at)s, %(at)s, '{}',"
            ' \'{"points": {"sft": 1}, "task_types": {}, "agents": {}}\', \'{}\')',
            {"at": NOON},
        )
        connection.execute(
            "INSERT INTO batch_points (batch_id, phase, position, point_id, source_task, day)"
            " VALUES ('b', 'sft', 0, 'acme-0', 's', %s)",
            (DAY,),
        )
        connection.execute(
            "INSERT INTO privacy_spending (tenant_hash, batch_id, spent_at, mechanism, epsilon)"
            " VALUES (%s, 'b', %s, 'laplace', 1)",
            (hashed(pool, "acme"), NOON),
        )
        connection.execute("ANALYZE hot_points")
    return pool


@pytest.fixture
def granted(filled: BenchmarkPool) -> Granted:
    """Makes a grant that is in force, of a new principal unless one is named."""

    def grant(role: Role, **terms: Any) -> Grant:
        now = datetime.now(UTC)
        terms = {"principal": new_name(), "by": "asker", "reason": "a test", "now": now, **terms}
        made = request_grant(filled, role=role, **terms)
        return approve(filled, made.id, by="approver", now=now) if made.needs_approval else made

    return grant


@pytest.fixture
def connected(filled: BenchmarkPool) -> Iterator[Connected]:
    """Opens a session of a grant's principal, who logs in."""
    with ExitStack() as stack:

        def connect(grant: Grant, **options: str) -> Session:
            login = make_login(filled, grant.principal, by="asker", now=datetime.now(UTC))
            user: dict[str, Any] = {"user": grant.principal, "password": login.password, **options}
            url = make_conninfo(filled.settings.database_url, **user)
            return stack.enter_context(psycopg.connect(url, autocommit=True))

        yield connect


@pytest.fixture
def analyst(granted: Granted, connected: Connected) -> Session:
    """A session of an analyst for one of the two tenants."""
    return connected(granted("analyst", tenants=["acme"]))
