"""Which rows PostgreSQL shows to sessions of principals."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import (
    InsufficientPrivilege,
    OperationalError,
    RaiseException,
)

from flywheel.errors import AccessError
from flywheel.pool.access.decisions import Role
from flywheel.pool.access.grants import approve, request_grant, revoke
from flywheel.pool.pool import BenchmarkPool
from tests.pool.access.conftest import DAY, POINTS, TENANTS, Connected, Granted, Session, count, hashed, ids
from tests.pool.logs import NOON

TABLES = (
    "hot_points",
    "batches",
    "batch_points",
    "agent_statistics",
    "daily_statistics",
    "task_type_profiles",
    "tier_days",
    "quarantine",
    "waiting_tasks",
    "watermark",
    "segments",
    "tasks",
    "halts",
    "erasures",
    "privacy_spending",
    "agents",
    "bandit_state",
    "task_outcomes",
    "task_runs",
    "judge_opinions",
    "judge_counts",
    "alias_history",
    "access_grants",
    "access_audit",
    "alembic_version",
)


READABLE: dict[Role, set[str]] = {
    "rl-trainer": {"hot_points", "batches", "batch_points"},
    "analyst": {"hot_points", "agent_statistics", "daily_statistics", "tier_days"},
    "arbiter": {"agent_statistics", "daily_statistics", "task_type_profiles"},
    "reviewer": {"quarantine", "waiting_tasks"},
    "admin": {"access_grants", "access_audit", "privacy_spending"},
}


@pytest.mark.parametrize("role", READABLE)
def test_a_role_reads_what_it_needs_and_nothing_else(role: Role, granted: Granted, connected: Connected) -> None:
    session = connected(granted(role, fields="all"))
    for table in TABLES:
        if table in READABLE[role]:
            assert count(session, table) > 0
        else:
            with pytest.raises(InsufficientPrivilege, match=f"permission denied for table {table}"):
                count(session, table)


def test_columns_that_tell_more_than_a_role_needs_are_out_of_reach(granted: Granted, connected: Connected) -> None:
    analyst, admin = connected(granted("analyst")), connected(granted("admin"))
    assert analyst.execute("SELECT lines, points FROM days").fetchall() == [(0, 0)]
    assert admin.execute("SELECT id, grant_id FROM access_tokens").fetchall() == []
    for session, statement in ((analyst, "SELECT report FROM days"), (admin, "SELECT digest FROM access_tokens")):
        with pytest.raises(InsufficientPrivilege):
            session.execute(statement)


@pytest.mark.parametrize("role", READABLE)
def test_no_role_writes_into_the_pool(role: Role, granted: Granted, connected: Connected) -> None:
    session = connected(granted(role, fields="all"))
    for table in sorted(READABLE[role] - {"access_grants"}):
        for statement in ("DELETE FROM {}", "TRUNCATE {}", "INSERT INTO {} SELECT * FROM {}", "DROP TABLE {}"):
            name = sql.Identifier(table)
            with pytest.raises(InsufficientPrivilege):
                session.execute(sql.SQL(statement).format(name, name))


def test_the_other_tenants_points_are_not_there(analyst: Session, filled: BenchmarkPool) -> None:
    theirs = hashed(filled, "globex")
    assert ids(analyst) == {f"acme-{hour}" for hour in range(POINTS)}
    assert count(analyst, "hot_points") == POINTS
    assert analyst.execute("SELECT id FROM hot_points WHERE tenant_id = %s", (theirs,)).fetchall() == []
    assert analyst.execute("SELECT id FROM hot_points WHERE id = 'globex-0'").fetchall() == []
    joined = "SELECT count(*) FROM hot_points a JOIN hot_points b ON a.id <> b.id OR a.tenant_id <> b.tenant_id"
    assert analyst.execute(joined).fetchone() == (POINTS * (POINTS - 1),)
    assert analyst.execute("SELECT count(DISTINCT tenant_id) FROM hot_points").fetchone() == (1,)


def test_lines_of_quarantine_are_for_reviewers_of_all_fields_and_their_tenants(
    granted: Granted, connected: Connected, filled: BenchmarkPool
) -> None:
    def lines(**terms: Any) -> set[bytes]:
        session = connected(granted("reviewer", **terms))
        return {line for (line,) in session.execute("SELECT line FROM quarantine")}

    both = {f"mail of {tenant}".encode() for tenant in TENANTS}
    assert lines(fields="anonymized") == set()
    assert lines(fields="all", tenants=["acme"]) == {b"mail of acme"}
    assert lines(fields="all") == both
    with filled.transaction() as connection:
        connection.execute("UPDATE quarantine SET owner_key = NULL WHERE id = 'acme-line'")
    assert lines(fields="all", tenants=["acme"]) == set()
    assert lines(fields="all") == both


def test_waiting_tasks_are_for_reviewers_of_all_fields_and_their_tenants(
    granted: Granted, connected: Connected, filled: BenchmarkPool
) -> None:
    def tenants(**terms: Any) -> set[bytes]:
        session = connected(granted("reviewer", **terms))
        return {name for (name,) in session.execute("SELECT tenant_id FROM waiting_tasks")}

    assert tenants(fields="anonymized") == set()
    assert tenants(fields="all", tenants=["acme"]) == {b"acme"}
    with filled.transaction() as connection:
        connection.execute("UPDATE waiting_tasks SET owner_key = '' WHERE tenant_id = 'acme'")
    assert tenants(fields="all", tenants=["acme"]) == set()
    assert tenants(fields="all") == {tenant.encode() for tenant in TENANTS}


def test_a_grant_for_some_tenants_shows_no_sum_over_all(granted: Granted, connected: Connected) -> None:
    sums: tuple[tuple[Role, tuple[str, ...]], ...] = (
        ("analyst", ("agent_statistics", "daily_statistics", "tier_days")),
        ("rl-trainer", ("batches", "batch_points")),
    )
    for role, tables in sums:
        session = connected(granted(role, tenants=["acme"]))
        assert {count(session, table) for table in tables} == {0}


def test_the_time_range_holds_to_the_microsecond(granted: Granted, connected: Connected) -> None:
    tick = timedelta(microseconds=1)
    last = NOON + timedelta(hours=POINTS - 1)

    def shown(since: datetime, until: datetime) -> int:
        return count(connected(granted("analyst", since=since, until=until)), "hot_points")

    assert shown(NOON, last + tick) == 2 * POINTS
    assert shown(NOON, last) == 2 * (POINTS - 1)
    assert shown(NOON + tick, last + tick) == 2 * (POINTS - 1)
    assert shown(NOON + tick, NOON + 2 * tick) == 0


def test_hours_and_days_are_shown_where_all_of_them_is_in_range(granted: Granted, connected: Connected) -> None:
    midnight = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC)
    tick = timedelta(microseconds=1)

    def shown(role: Role, table: str, since: datetime, until: datetime) -> int:
        return count(connected(granted(role, fields="all", since=since, until=until)), table)

    shows: tuple[tuple[Role, str, datetime, timedelta], ...] = (
        ("analyst", "agent_statistics", NOON, timedelta(hours=1)),
        ("analyst", "daily_statistics", midnight, timedelta(days=1)),
        ("analyst", "tier_days", midnight, timedelta(days=1)),
        ("arbiter", "task_type_profiles", midnight, timedelta(days=1)),
    )
    for role, table, start, length in shows:
        assert shown(role, table, start, start + length) == 1
        assert shown(role, table, start + tick, start + length) == 0
        assert shown(role, table, start, start + length - tick) == 0
    for start, lines in ((midnight, 2), (midnight + tick, 0)):
        assert shown("reviewer", "quarantine", start, midnight + timedelta(days=1)) == lines
        assert shown("reviewer", "waiting_tasks", start, midnight + timedelta(days=1)) == lines
    for until, batches in ((NOON, 0), (NOON + tick, 1)):
        assert shown("rl-trainer", "batches", NOON - tick, until) == batches
        assert shown("rl-trainer", "batch_points", NOON - tick, until) == batches


def test_a_grant_that_waits_shows_nothing_until_it_is_approved(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    now = datetime.now(UTC)
    arbiter = granted("arbiter")
    waiting = request_grant(
        filled, principal=arbiter.principal, role="analyst", fields="all", by="asker", reason="a test", now=now
    )
    session = connected(arbiter)
    with pytest.raises(InsufficientPrivilege):
        count(session, "hot_points")
    with filled.transaction() as connection:  # a membership alone shows nothing either
        connection.execute(sql.SQL("GRANT flywheel_analyst TO {}").format(sql.Identifier(arbiter.principal)))
    assert count(session, "hot_points") == 0
    approve(filled, waiting.id, by="approver", now=now)
    assert count(session, "hot_points") == 2 * POINTS


def test_an_access_ends_within_an_open_transaction(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    """now() stands still in a transaction; the grant does not wait for it."""
    grant = granted("analyst", expires_at=datetime.now(UTC) + timedelta(seconds=1))
    session = connected(grant)
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert count(session, "hot_points") == 2 * POINTS
    loop = (
        "DO $$ DECLARE found bigint; BEGIN PERFORM pg_sleep(1.1); SELECT count(*) INTO found FROM hot_points;"
        " RAISE EXCEPTION '% points', found; END $$"
    )
    with pytest.raises(RaiseException, match="0 points"):
        session.execute(loop)


def test_a_revoked_principal_loses_its_open_sessions_and_cannot_come_back(
    filled: BenchmarkPool, granted: Granted, connected: Connected
) -> None:
    grant = granted("analyst")
    session = connected(grant)
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert count(session, "hot_points") == 2 * POINTS
    revoke(filled, grant.id, by="approver", reason="left", now=datetime.now(UTC))
    with pytest.raises(OperationalError):
        count(session, "hot_points")
    with pytest.raises(AccessError, match="has no grant in force"):
        connected(grant)
    with pytest.raises(OperationalError, match="not permitted to log in"):
        psycopg.connect(filled.settings.database_url, user=grant.principal)
